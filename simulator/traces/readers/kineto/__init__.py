"""Profiles of torch.profiler: their steps, gradients, collectives and host, and the workload that they describe."""
