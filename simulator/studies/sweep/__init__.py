"""Sweeps: many runs over a grid, stored safely."""
