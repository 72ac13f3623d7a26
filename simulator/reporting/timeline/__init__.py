"""Timelines: tracks, counters and arrows of an iteration, for Perfetto."""
