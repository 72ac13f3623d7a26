"""Validation: predicted against measured, the error of the model, and fits of runtime constants."""
