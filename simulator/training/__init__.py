"""Closed-loop training: several workers of one small task on one machine, with the method in the loop."""
