"""Warnings: what a reader should know of where a prediction comes from, each with its size and its direction."""
