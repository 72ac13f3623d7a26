"""Validation: predicted against measured, tables of measured rows, and the error of the model."""
