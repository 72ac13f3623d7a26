"""Sparsifiers: what travels, and the time that the GPU needs to select it."""
