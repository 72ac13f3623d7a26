"""Figures as interactive drawings: one function for each kind, from the table that its picture shows."""
