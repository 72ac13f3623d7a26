"""Fabrics: how the network is built, its switches, links and NICs."""
