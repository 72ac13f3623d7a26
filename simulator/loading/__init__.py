"""Reading of YAML, CSV and named files into plain data, with errors that give file, line and column."""
