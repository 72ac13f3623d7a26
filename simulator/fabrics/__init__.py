"""Fabrics: over which wires messages travel."""
