"""Topologies: how the workers pass gradients on."""
