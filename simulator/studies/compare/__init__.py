"""Comparisons: what differs between two runs or two sweeps."""
