"""Measured timings to curves and constants, with held-out error and provenance."""
