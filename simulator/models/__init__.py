"""Data types that all rooms share, with small functions on them: no clock, no files."""
