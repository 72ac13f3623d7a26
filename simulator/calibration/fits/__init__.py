"""Fits: curve families, robust regression, selection by held-out error."""
