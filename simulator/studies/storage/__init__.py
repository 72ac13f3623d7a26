"""Results on disk: files that are written whole, a result as a row, and the tables of a run."""
