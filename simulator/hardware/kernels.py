"""The kernels that methods are made of: what each moves in memory, and which of them the host runs."""

from __future__ import annotations

KERNEL_TRAFFIC = {
    "elementwise": 12.0,  # two fp32 reads, one write
    "copy": 8.0,  # one read, one write
    "residual_add": 12.0,
    "residual_clear": 8.0,
    "threshold_scan": 16.0,  # read, absolute value and compare to a mask, compaction of the mask
    "random_indices": 8.0,
    "gather": 16.0,  # index, value, scattered read, write
    "scatter_add": 24.0,  # index, value, scattered read and write in 32-byte sectors shared by neighbours
    "unique": 64.0,  # radix sort of int64 keys: four passes of one read and one write
    "update": 32.0,  # as recorded: SGD with momentum in three passes; plans price the workload's own optimiser
    "topk": 16.0,
    "sort": 64.0,
    "shuffle": 8.0,  # a random permutation on the host
    "host_op": 16.0,  # an operation that a framework runs on the host: copied there, read, written, copied back
    "host_merge": 0.0,  # on the host, as `HOST_KERNELS` says
    "host_exchange": 0.0,  # on the host
    "norm": 4.0,
    "statistics": 8.0,  # mean and standard deviation: two reductions
    "quantise": 5.0,  # one fp32 read, one byte written
    "dequantise": 9.0,  # one byte read, fp32 read and written
    "matmul": 12.0,
    "cast": 6.0,  # one number of 32 bits and one of 16, read and written
    "unscale": 8.0,  # reads and writes the gradient, and checks it for overflow
    "hash": 448.0,  # per index, fitted: 214 M elements of which 5.2 % are hashed take 6 ms on a V100 (Zen, OSDI'25)
}
"""Bytes that each kernel moves per element in GPU memory, for kernels without a measured curve."""

HOST_KERNELS = {"host_merge": "host_element", "host_exchange": "exchange_element"}
"""Work of the host, not of the GPU: the field of `Runtime` that gives the seconds of each element."""
