"""Simulator of data-parallel training with gradient sparsification."""
