"""Prediction: a scenario runs, and becomes a result."""
