"""Results on the terminal."""
