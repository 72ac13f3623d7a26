"""Measuring on this machine with PyTorch: kernels, a model's layers, its gradients, collectives.

Needs the extra `torch`, except for merging recorded traces.
"""
