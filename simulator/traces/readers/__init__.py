"""Readers of files of other tools: profilers, NCCL logs, MPI benchmarks."""
