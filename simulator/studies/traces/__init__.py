"""Gradient traces: what they show, and traces made from a description."""
