"""Measurements to constants."""
