"""YAML, CSV and named configs to plain data, with errors that give file, line and column."""
