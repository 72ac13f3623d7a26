"""The trace format: read, write, check."""
