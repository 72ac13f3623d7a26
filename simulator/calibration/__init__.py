"""Calibration: curves, link laws and configs from measured timings, each with its held-out error and source."""
