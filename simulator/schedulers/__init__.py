"""Schedulers: when gradients travel."""
