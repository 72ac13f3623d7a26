"""The kernels that methods are made of: what each does, by framework, and which of them the host runs."""

from __future__ import annotations

from typing import Literal

from simulator.errors import CodeError, Problem, format_value, suggest_nearest
from simulator.records import Record

Framework = Literal["pytorch", "pytorch-1.11", "pytorch-before-1.11", "tensorflow-1"]
"""Whose kernels a GPU runs. PyTorch's Top-k searched and gathered in one block before 1.11, gathered in one block in
1.11 (pull request 71081), and uses all blocks since 1.12 (pull request 74267, 2022)."""
KernelClass = Literal["streaming", "compaction", "random access", "hash", "selection", "sort", "host"]
"""How a kernel uses the GPU: kernels of one class are taken to be alike where nothing else is known. Streaming includes
reductions."""
Bound = Literal["memory", "multiprocessors", "one block", "one block, linear", "host"]
"""What limits a kernel: the GPU's memory bandwidth, the cycles of all its multiprocessors, those of one of them, or the
host."""


INDEX_SIZED = ("gather", "scatter_add", "residual_clear", "random_indices")
"""Kernels whose size is the number of indices (k times contributions), not the elements of the tensor."""


class KernelWork(Record):
    """What one call of a kernel does for each element.

    `kind`: its class. `values` and `indices`: bytes of gradients, and of indices, masks or codes, that are read and
    written. `launches`: kernels that the call starts. `bound`: what limits it. `parts`: other kernels that the call
    contains, each once. `same_as`: another kernel that does exactly the same. `variant`: the implementation, where
    frameworks have several.
    """

    kind: KernelClass
    values: float = 0.0
    indices: float = 0.0
    launches: int = 1
    bound: Bound = "memory"
    parts: tuple[str, ...] = ()
    same_as: str = ""
    variant: str = ""

    @property
    def nbytes(self) -> float:
        """Bytes that move through GPU memory for each element, without those of the parts."""
        return self.values + self.indices


KERNELS: dict[str, KernelWork] = {
    "elementwise": KernelWork("streaming", 12.0),  # two fp32 reads, one write
    "copy": KernelWork("streaming", 8.0),
    "residual_add": KernelWork("streaming", 12.0, same_as="elementwise"),  # one addition in place
    "update": KernelWork("streaming", 32.0, launches=3),  # as recorded: SGD with momentum in three passes
    "cast": KernelWork("streaming", 6.0),  # a number of 32 bits and one of 16, read and written
    "unscale": KernelWork("streaming", 8.0),  # reads and writes the gradient, and checks it for overflow
    # Scale, round and cast to a byte, each a call that reads and writes (simulator/record/kernels.py).
    "quantise": KernelWork("streaming", 20.0, 1.0, launches=3),
    "dequantise": KernelWork("streaming", 8.0, 1.0),
    "matmul": KernelWork("streaming", 12.0),
    "random_indices": KernelWork("streaming", 0.0, 8.0),
    "norm": KernelWork("streaming", 4.0, launches=2),  # within blocks, then over blocks
    "statistics": KernelWork("streaming", 8.0, launches=2),  # mean and standard deviation
    "pack": KernelWork("streaming", 4.0, 26.0, launches=3),  # signs as bytes, times powers of two, sum of eight
    # Both sides of blocks of 64 x 64 times matrices of cosines: two copies and two products, each in and out.
    "dct": KernelWork("streaming", 32.0, launches=4),
    # 12 bits of int64 indices as bytes, by shifts and masks of pairs, each a call (one-covenant/templar, compress.py).
    "pack_indices": KernelWork("streaming", 0.0, 66.0, launches=18),
    "unpack_indices": KernelWork("streaming", 0.0, 102.0, launches=13),
    # A mask of bytes: count, select; then the host reads how many there are.
    "nonzero": KernelWork("compaction", 0.0, 2.0, launches=3, bound="multiprocessors"),
    "masked_select": KernelWork("streaming", 4.0, parts=("nonzero",)),
    # Absolute value, comparison with the threshold to a mask, compaction of the mask.
    "threshold_scan": KernelWork("streaming", 12.0, 1.0, launches=2, parts=("nonzero",)),
    "gather": KernelWork("random access", 8.0, 8.0),  # index, scattered read, write
    "residual_clear": KernelWork("random access", 4.0, 4.0),
    "scatter_add": KernelWork("random access", 16.0, 8.0),  # index, value, scattered read and write
    # Per index, fitted to 214 M elements of which 5.2 % are hashed in 6 ms on a V100 (Zen, OSDI'25).
    "hash": KernelWork("hash", 448.0),
    # Absolute value; then 4 passes of 8 bits over fp32 keys; then two passes that gather. 12 kernels in PyTorch.
    "topk": KernelWork("selection", 32.0, launches=12, variant="all blocks"),
    # Absolute value; then one block for each row of at most 4,096, which it reads again from its cache, and a gather.
    "chunk_topk": KernelWork("selection", 16.0, launches=2),
    "radix_select": KernelWork("selection", 24.0, launches=9),  # the same without absolute value
    "radix_sort": KernelWork("sort", 36.0, launches=6, bound="multiprocessors"),  # keys alone
    "sort": KernelWork("sort", 36.0, 72.0, launches=8),  # with int64 indices
    "topk_by_sort": KernelWork("streaming", 8.0, parts=("sort",)),  # absolute value, then all in order
    "unique": KernelWork("sort", 0.0, 64.0, launches=8),  # of int64 keys
    "shuffle": KernelWork("host", 0.0, 8.0, bound="host"),  # a random permutation, copied to the GPU
    "host_op": KernelWork("host", 16.0, bound="host"),  # copied to the host, read, written, copied back
    "host_merge": KernelWork("host", launches=0),
    "host_exchange": KernelWork("host", launches=0),
}
"""What each kernel does in today's PyTorch, fp32."""

ONE_BLOCK = KernelWork("selection", 32.0, launches=2, bound="one block", variant="one block")
"""Top-k in one block of threads: n log2 n cycles of one multiprocessor (HKBU-HPML/MG-WFBP, utils.py)."""
VARIANTS: dict[tuple[str, Framework], KernelWork] = {
    ("topk", "pytorch-before-1.11"): ONE_BLOCK,
    ("topk", "pytorch-1.11"): KernelWork(
        "selection", 32.0, launches=11, bound="one block, linear", variant="gather in one block"
    ),
    ("topk", "tensorflow-1"): KernelWork("selection", 32.0, launches=2, variant="TensorFlow 1"),
    # A quantile is tf.math.top_k with all elements.
    ("sort", "tensorflow-1"): KernelWork("sort", 36.0, 72.0, launches=8, variant="TensorFlow 1"),
    ("sort", "pytorch-before-1.11"): KernelWork("sort", 36.0, 72.0, launches=8, variant="thrust"),
}
"""Implementations that differ from today's PyTorch, by kernel and framework."""

KERNEL_TRAFFIC = {
    name: work.nbytes + sum(KERNELS[part].nbytes for part in work.parts) for name, work in KERNELS.items()
}
"""Bytes that each kernel moves per element in GPU memory."""

HOST_KERNELS = {"host_merge": "host_element", "host_exchange": "exchange_element"}
"""Work of the host, not of the GPU: the field of `Runtime` that gives the seconds of each element."""


def work_of(kernel: str, framework: Framework) -> KernelWork:
    """What a kernel does in the implementation that a framework has. Raises CodeError for an unknown kernel."""
    if kernel not in KERNELS:
        what = "a known kernel, or a GPU whose config has a curve of it"
        raise CodeError(
            Problem(f"kernel {format_value(kernel)}", what, "another", suggest_nearest(str(kernel), KERNELS))
        )
    return VARIANTS.get((kernel, framework), KERNELS[kernel])


def implementation(kernel: str, framework: Framework) -> str:
    """The name of a kernel's implementation in a framework, by which measurements on several GPUs are joined.

    >>> implementation("topk", "pytorch"), implementation("gather", "tensorflow-1")
    ('topk (all blocks)', 'gather')
    """
    work = work_of(kernel, framework)
    return f"{kernel} ({work.variant})" if work.variant else work.same_as or kernel
