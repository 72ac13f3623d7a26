"""Schedulers: when gradients travel, and which travel together."""
