"""Topologies: how workers pass gradients on."""
