"""Figures as interactive drawings: one function a kind, from the same table that the picture shows."""
