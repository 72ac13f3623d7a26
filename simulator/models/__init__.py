"""Pure nouns of the simulator: no clock, no files."""
