"""Readers of the files of other tools: profilers, NCCL logs, MPI benchmarks."""
