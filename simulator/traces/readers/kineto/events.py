"""The events of a PyTorch profiler trace as columns: launches, kernels, copies, and host operations."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from struct import Struct
from typing import Any

import numpy as np

from simulator.errors import Problem, format_value
from simulator.models.precision import NumberFormat, format_named
from simulator.records import Record

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
LIBRARIES = ("nccl", "rccl", "mscclKernel")
"""How the names of kernels of NCCL, RCCL and MSCCL begin."""
_KINDS = {"kernel": "kernel", "cuda_runtime": "runtime", "runtime": "runtime", "cuda_driver": "runtime"}
_KINDS |= {"cpu_op": "operation", "operator": "operation", "user_annotation": "operation"}
_KINDS |= {"gpu_memcpy": "copy", "memcpy": "copy", "gpu_memset": "copy", "memset": "copy"}
STEP, LOADER, OPTIMISER = "ProfilerStep#", "enumerate(DataLoader)", "Optimizer.step#"
COMPUTE, COLLECTIVE, FROM_HOST, COPY = range(4)
"""What the GPU does: a kernel, one of NCCL, a copy from the host's memory, another copy or a memset."""
ISSUE, WAIT, CALL = range(3)
"""What a call of the CUDA runtime does: it hands over work, it waits for the GPU, or something else."""
_OPTIMISER_CLASS = re.compile(r"Optimizer\.step#(\w+)\.step")
_NUMBER = re.compile(r"\d{1,18}$")
_CALL, _WORK = Struct("<qddbq"), Struct("<qddbd?")
_FIELDS = [("id", "<i8"), ("start", "<f8"), ("length", "<f8"), ("kind", "i1")]


class Operation(Record):
    """A host operation: an autograd node, a forward operation, an accumulation, or communication.

    Times in microseconds. `elements` and `itemsize` of its first tensor, 0 where not recorded; `number`: its format,
    such as bf16, None where it is not recorded or another.
    """

    thread: int
    start: float
    end: float
    name: str
    sequence: int
    backward: bool
    elements: int
    itemsize: int
    number: NumberFormat | None = None


class Events:
    """The events of a trace that are needed, one column of numbers per field. Times in microseconds, as in the file."""

    def __init__(self, path: Path) -> None:
        self.path, self.problems = path, list[Problem]()
        self.device, self.workers, self.count = "", 0, 0
        self.rank: int | None = None
        self.settings: list[str] = []
        self.operations: list[Operation] = []
        self.steps: list[tuple[float, float, int]] = []
        self.loading: list[tuple[float, float]] = []
        self.optimiser: list[tuple[float, float]] = []
        self.optimiser_names = set[str]()
        self.nccl: list[tuple[int, float, float, str, Mapping[str, Any]]] = []
        self._calls, self._work = bytearray(), bytearray()
        self._threads: dict[str, int] = {}

    @property
    def calls(self) -> np.ndarray:
        """Calls of the CUDA runtime: `id` of the correlation, `start`, `length`, `kind`, and `thread` of the host."""
        return np.frombuffer(self._calls, [*_FIELDS, ("thread", "<i8")])

    @property
    def work(self) -> np.ndarray:
        """What the GPU did: `id`, `start`, `length`, `kind`, and of copies the `bytes`, and whether from `pageable`."""
        return np.frombuffer(self._work, [*_FIELDS, ("bytes", "<f8"), ("pageable", "?")])

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

    def _runtime(self, event: Mapping[str, Any], args: Mapping[str, Any], start: float, length: float) -> None:
        name = str(event.get("name", ""))
        waits = "Synchronize" in name
        if "correlation" in args or waits:
            number, thread = whole(args.get("correlation", -1)), self._thread(event["tid"])
            kind = WAIT if waits else ISSUE if "Launch" in name or "Mem" in name else CALL
            self._calls += _CALL.pack(number, start, length, kind, thread)

    def _kernel(self, event: Mapping[str, Any], args: Mapping[str, Any], start: float, length: float) -> None:
        name, number = text_of(event["name"]), whole(args.get("correlation", -1))
        if name.startswith(LIBRARIES):
            shape_of(args), whole(args.get("Group size") or 0), whole(args.get("stream", -1))  # raises if malformed
            self.nccl.append((number, start, length, name, args))
        kind = COLLECTIVE if name.startswith(LIBRARIES) else COMPUTE
        self._work += _WORK.pack(number, start, length, kind, 0.0, False)

    def _copy(self, event: Mapping[str, Any], args: Mapping[str, Any], start: float, length: float) -> None:
        name, number = str(event["name"]), whole(args.get("correlation", -1))
        nbytes = whole(args["bytes"]) if "DtoD" in name and "bytes" in args else 0
        kind = FROM_HOST if "HtoD" in name else COPY
        self._work += _WORK.pack(number, start, length, kind, nbytes, "Pageable" in name)

    def _operation(self, event: Mapping[str, Any], args: Mapping[str, Any], start: float, length: float) -> None:
        name, numbered = text_of(event["name"]), "Sequence number" in args
        if name.startswith(STEP):
            found = _NUMBER.search(name)
            self.steps.append((start, start + length, int(found[0]) if found else len(self.steps)))
        elif name.startswith(LOADER):
            self.loading.append((start, start + length))
        elif name.startswith(OPTIMISER):
            self.optimiser.append((start, start + length))
            named = _OPTIMISER_CLASS.match(name)
            self.optimiser_names.add(named[1] if named else "")
        elif numbered or name.endswith((ACCUMULATE, TO_GRADIENT)) or name.startswith(COMMUNICATION):
            sequence = whole(args["Sequence number"]) if numbered else -1
            backward = numbered and whole(args.get("Fwd thread id", 0)) > 0
            thread, (elements, itemsize) = self._thread(event["tid"]), shape_of(args)
            when = thread, start, start + length
            self.operations.append(Operation(*when, name, sequence, backward, elements, itemsize, format_of(args)))

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


def shape_of(args: Mapping[str, Any]) -> tuple[int, int]:
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


def format_of(args: Mapping[str, Any]) -> NumberFormat | None:
    """The format of the first tensor of an operation or of a message, such as bf16; None where it is not recorded."""
    kinds = args.get("Input type") or ()
    name = args.get("dtype") or (kinds[0] if isinstance(kinds, list) and kinds else "")
    return format_named(str(name))
