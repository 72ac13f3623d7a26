"""Trainings as data: their options, the folders that hold them, and their curves."""
