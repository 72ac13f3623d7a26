"""Sparsifiers: what travels, and what choosing it costs the GPU."""
