"""Measuring on this machine with PyTorch: kernels, a model's layers, its gradients, collectives.

Needs the extra `torch`, but for merging what others recorded.
"""
