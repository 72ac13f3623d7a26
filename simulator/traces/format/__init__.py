"""The trace format: reading, checking and writing a trace folder."""
