"""The events of a PyTorch profiler trace as columns: launches, kernels, copies, and host operations."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from simulator.errors import Problem, format_value
from simulator.models.curves import Floats
from simulator.models.exchange import Ints

MAX_PROBLEMS = 20
MOST = 2**62
"""Largest number of elements, bytes and so on: two of them still fit into an int64."""
MOST_TIME = 1e18
"""Microseconds: 30,000 years."""
MAX_DIMENSIONS = 64
ACCUMULATE = "torch::autograd::AccumulateGrad"
EVALUATE = "autograd::engine::evaluate_function: "
TO_GRADIENT = "torch.distributed.ddp.reducer::copy_bucket_to_grad"
COMMUNICATION = ("nccl:", "record_param_comms")
ITEMSIZE = {
    **dict.fromkeys(("float", "float32", "int", "int32", "unsigned int"), 4),
    **dict.fromkeys(("double", "float64", "long", "long int", "int64", "complexfloat"), 8),
    **dict.fromkeys(("half", "c10::half", "float16", "bfloat16", "c10::bfloat16", "short", "int16"), 2),
    **dict.fromkeys(("byte", "char", "bool", "unsigned char", "signed char", "int8", "uint8"), 1),
}
_KINDS = {"kernel": "kernel", "cuda_runtime": "runtime", "runtime": "runtime", "cuda_driver": "runtime"}
_KINDS |= {"cpu_op": "operation", "operator": "operation", "user_annotation": "operation"}
_KINDS |= {"gpu_memcpy": "copy", "memcpy": "copy"}


@dataclass(frozen=True, slots=True)
class Operation:
    """A host operation: an autograd node, a forward operation, an accumulation, or communication.

    Times in microseconds. `elements` and `itemsize` of its first tensor, 0 where not recorded.
    """

    thread: int
    start: float
    end: float
    name: str
    sequence: int
    backward: bool
    elements: int
    itemsize: int


class Events:
    """The events of a trace that are needed, one column of numbers per field. Times in microseconds, as in the file."""

    def __init__(self, path: Path) -> None:
        self.path, self.problems = path, list[Problem]()
        self.device, self.workers, self.count = "", 0, 0
        self.operations: list[Operation] = []
        self.steps: list[tuple[float, float]] = []
        self.nccl: list[tuple[int, float, float, str, dict[str, Any]]] = []
        self.launch_id, self.launch_thread, self.launch_time = array("q"), array("q"), array("d")
        self.kernel_id, self.kernel_start, self.kernel_seconds = array("q"), array("d"), array("d")
        self.copy_id, self.copy_bytes = array("q"), array("d")
        self._threads: dict[str, int] = {}

    def add(self, event: Any) -> None:
        """Keep what is needed of one event; a malformed one is a problem with its number."""
        self.count += 1
        try:
            kind = _KINDS.get(str(event.get("cat", "")).lower()) if event.get("ph") == "X" else None
            if kind is not None:
                start, length = float(event["ts"]), float(event["dur"])
                if not (abs(start) <= MOST_TIME and 0 <= length <= MOST_TIME):
                    raise ValueError
                getattr(self, f"_{kind}")(event, event.get("args") or {}, start, length)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            if len(self.problems) < MAX_PROBLEMS:
                where = f"{self.path}: event {self.count}"
                self.problems.append(Problem(where, "an event with ts and dur in microseconds", format_value(event)))

    def _runtime(self, event: dict[str, Any], args: dict[str, Any], start: float, length: float) -> None:
        if "correlation" in args:
            number, thread = whole(args["correlation"]), self._thread(event["tid"])
            self.launch_id.append(number)
            self.launch_thread.append(thread)
            self.launch_time.append(start)

    def _kernel(self, event: dict[str, Any], args: dict[str, Any], start: float, length: float) -> None:
        name, number = text_of(event["name"]), whole(args.get("correlation", -1))
        if name.startswith("nccl"):
            shape_of(args), whole(args.get("Group size") or 0)  # raises where the event is malformed
        self.kernel_id.append(number)
        self.kernel_start.append(start)
        self.kernel_seconds.append(length)
        if name.startswith("nccl"):
            self.nccl.append((number, start, length, name, args))

    def _copy(self, event: dict[str, Any], args: dict[str, Any], start: float, length: float) -> None:
        if "DtoD" in str(event["name"]) and "bytes" in args:
            number, nbytes = whole(args.get("correlation", -1)), whole(args["bytes"])
            self.copy_id.append(number)
            self.copy_bytes.append(nbytes)

    def _operation(self, event: dict[str, Any], args: dict[str, Any], start: float, length: float) -> None:
        name, numbered = text_of(event["name"]), "Sequence number" in args
        if name.startswith("ProfilerStep#"):
            self.steps.append((start, start + length))
        elif numbered or name.endswith((ACCUMULATE, TO_GRADIENT)) or name.startswith(COMMUNICATION):
            sequence = whole(args["Sequence number"]) if numbered else -1
            backward = numbered and whole(args.get("Fwd thread id", 0)) > 0
            made = (self._thread(event["tid"]), start, start + length, name, sequence, backward, *shape_of(args))
            self.operations.append(Operation(*made))

    def _thread(self, name: Any) -> int:
        return self._threads.setdefault(str(name), len(self._threads))


def whole(value: Any) -> int:
    """A whole number from JSON. Raises ValueError for anything else, and beyond the range of an int64."""
    number = int(value)
    if abs(number) > MOST:
        raise ValueError(number)
    return number


def text_of(value: Any) -> str:
    """A name as text; halves of surrogate pairs, which JSON allows and files do not, become question marks."""
    return str(value).encode(errors="replace").decode()


def shape_of(args: dict[str, Any]) -> tuple[int, int]:
    """Elements and bytes per element of the first tensor of an operation; 0 where they are not recorded.

    For NCCL kernels and `record_param_comms`, the larger of `In msg nelems` and `Out msg nelems` (since PyTorch 2.2).
    """
    if "In msg nelems" in args:
        most = max(whole(args.get(key) or 0) for key in ("In msg nelems", "Out msg nelems"))
        return max(0, most), ITEMSIZE.get(str(args.get("dtype", "")).lower(), 0)
    shapes = args.get("Input Dims") or ()
    kinds = args.get("Input type") or ("float",) * len(shapes)
    for shape, kind in zip(shapes, kinds, strict=False):
        if (
            isinstance(shape, list)
            and 0 < len(shape) <= MAX_DIMENSIONS
            and all(isinstance(size, int) and 0 <= size <= MOST for size in shape)
        ):
            return whole(math.prod(shape)), ITEMSIZE.get(str(kind).lower(), 0)
    return 0, 0


Table = dict[int, tuple[Floats, Floats]]
"""For each host thread: launch times (m,), and rows (m, c) in the same order."""


class Launches:
    """Kernels (start, end, length) and copies (bytes) in the order of their launch, per host thread."""

    def __init__(self, events: Events) -> None:
        order = np.argsort(np.array(events.launch_id), kind="stable")
        self._ids = np.array(events.launch_id, dtype=np.int64)[order]
        self._threads = np.array(events.launch_thread, dtype=np.int64)[order]
        self._times = np.array(events.launch_time)[order]
        start, length = np.array(events.kernel_start), np.array(events.kernel_seconds)
        self.kernels = self._table(np.array(events.kernel_id), np.stack([start, start + length, length], axis=1))
        self.copies = self._table(np.array(events.copy_id), np.array(events.copy_bytes)[:, None])

    def launch(self, ids: Ints) -> tuple[Ints, Floats]:
        """Host thread (-1: not in the trace) and time of launches by correlation id, both (m,)."""
        if not len(self._ids):
            return np.full(len(ids), -1), np.zeros(len(ids))
        at = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        known = self._ids[at] == ids
        return np.where(known, self._threads[at], -1), np.where(known, self._times[at], 0.0)

    def _table(self, ids: Ints, rows: Floats) -> Table:
        threads, times = self.launch(ids)
        made = {}
        for thread in np.unique(threads[threads >= 0]).tolist():
            mine = np.flatnonzero(threads == thread)
            mine = mine[np.argsort(times[mine], kind="stable")]
            made[thread] = times[mine], rows[mine]
        return made


def launched(table: Table, thread: int, start: float, end: float) -> Floats:
    """Rows launched by `thread` from `start` to `end`, both included."""
    if thread not in table:
        return np.zeros((0, 3))
    times, rows = table[thread]
    return rows[np.searchsorted(times, start) : np.searchsorted(times, end, side="right")]
