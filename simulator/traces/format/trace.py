"""A trace: a folder with the recorded gradients of every worker, checked when opened, read by iteration."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from simulator.bounds import Index, SignedMagnitude
from simulator.component import Spec, expected
from simulator.errors import InputError, Problem, collect_problems
from simulator.files import refuse_undecodable_name
from simulator.loading.csv_tables import TRUTH, read_layers, read_records
from simulator.loading.documents import read_document, validate_document
from simulator.loading.finding import TRACE_FILE
from simulator.models.exchange import Shape
from simulator.models.gradients import Block, Values
from simulator.models.layers import MAX_BATCH, Layer
from simulator.records import Record, astuple, replace
from simulator.traces.format.tables import Keys, TraceTable
from simulator.traces.sampling import most_pieces, smallest_density


class UnionPoint(Record):
    """A measured union: the share of coordinates that at least one of `workers` selected, with its standard error."""

    iteration: int
    granularity: str
    error_feedback: bool
    density: float
    workers: int
    union_density: float
    se: float


_UNIONS: dict[str, tuple[Any, ...]] = {
    "iteration": (int, "a whole number", lambda n: n >= 0),
    "granularity": (str, "layer, bucket or model", lambda s: s in ("layer", "bucket", "model")),
    "error_feedback": TRUTH,
    "density": (float, "above 0, at most 1", lambda x: 0 < x <= 1),
    "workers": (int, "a whole number from 1 up", lambda n: n >= 1),
    "union_density": (float, "from 0 to 1", lambda x: 0 <= x <= 1),
    "se": (float, "0 or more", lambda x: 0 <= x < math.inf),
}


FILES = (TRACE_FILE, "layers.csv", "gradients.parquet")
"""The files that every trace has."""
MAX_TRACE_WORKERS = 4096
Number = Annotated[int, Field(ge=0, lt=2**31)]
"""Number of an iteration, which is stored as int32."""
Edge = Annotated[int, Field(ge=0, lt=2**62)]
Scale = Annotated[float, Field(gt=0, le=1e30)]
_LEAST_SCALE = 1e-30


class TraceSpec(Spec):
    """The contents of trace.yaml: the source of the gradients, the iterations, and the scale of stored values.

    `blocks`: first and last of each run of consecutive iterations (default: the runs in `iterations`), over which
    methods with error feedback are replayed. Stored values are gradients times `gradient_scale` and residuals times
    `residual_scale`, so that small values fit into float16. `mantissa_bits`: gradients were rounded to the nearest
    number with so many bits after the leading one (2: within 1/9), to save space; not given: as the file has them.
    """

    format: Literal[1]
    model: str = ""
    framework: str = ""
    device: str = ""
    batch_size: int = Field(default=1, ge=1, le=MAX_BATCH)
    workers: int = Field(ge=1, le=MAX_TRACE_WORKERS)
    date: datetime.date | None = None
    versions: dict[str, str] = Field(default_factory=dict)
    iterations: tuple[Number, ...] = Field(min_length=1)
    blocks: tuple[tuple[Edge, Edge], ...] = ()
    loss: dict[Index, SignedMagnitude] = Field(default_factory=dict)
    data_licence: str = ""
    source: str = ""
    gradient_scale: Scale = 1.0
    residual_scale: Scale = 1.0
    sampling: str = ""
    mantissa_bits: int | None = Field(default=None, ge=0, le=52)

    def refuse_unfit(self) -> None:
        if any(b <= a for a, b in pairwise(self.iterations)) or self.iterations[0] < 0:
            raise expected("increasing iterations from 0 up", "other numbers", "each iteration is recorded once")
        if min(self.gradient_scale, self.residual_scale) < _LEAST_SCALE:
            raise expected(f"scales of at least {_LEAST_SCALE:g}", "a smaller one")
        recorded, last = set(self.iterations), -1
        for first, end in self.blocks:
            span = range(first, end + 1)
            if first <= last or not span or not recorded.issuperset(span):
                hint = "a block is [first, last] of consecutive recorded iterations, in order"
                raise expected("blocks of recorded iterations", f"[{first}, {end}]", hint)
            last = end

    def runs(self) -> tuple[tuple[int, int], ...]:
        """The blocks, or the runs of consecutive iterations where no blocks are given."""
        if self.blocks:
            return self.blocks
        breaks = [i for i in range(1, len(self.iterations)) if self.iterations[i] != self.iterations[i - 1] + 1]
        cuts = pairwise([0, *breaks, len(self.iterations)])
        return tuple((self.iterations[a], self.iterations[b - 1]) for a, b in cuts)


class Trace(Record, dict=True):
    """A checked trace folder.

    gradients.parquet: columns iteration, layer, coordinate (position in the layer), weight (elements that the
    coordinate represents) and w0, w1, ... (one per worker; float16, 32 or 64), sorted by iteration, layer, coordinate,
    the same coordinates in every iteration. layers.csv: name, numel, optionally forward_s, backward_s and shape
    (`64x3x7x7`), in forward order. Optional: residuals.parquet, the residual of each worker at the start of each
    block (columns block, layer, coordinate, w0, ...), and union.csv, measured unions of Top-k selections.
    """

    folder: Path
    spec: TraceSpec
    layers: tuple[Layer, ...]
    keys: Keys
    unions: tuple[UnionPoint, ...] = ()

    @classmethod
    def open(cls, folder: Path | str) -> Trace:
        """Read the description of a trace and check all of its files, with one iteration in memory at a time.

        Raises InputError with every problem, each with file, row and column.
        """
        folder = Path(folder)
        refuse_undecodable_name(folder)
        missing = [name for name in FILES if not (folder / name).is_file()]
        if missing:
            what, got = f"a trace folder with {', '.join(FILES)}", f"no {', '.join(missing)}"
            raise InputError(Problem(str(folder), what, got))
        problems: list[Problem] = []
        spec, layers = None, None
        unions: list[UnionPoint] = []
        with collect_problems(problems):
            spec = validate_document(TraceSpec.model_validate, read_document(folder / FILES[0]))
        with collect_problems(problems):
            layers = read_layers(folder / FILES[1])
        with collect_problems(problems):
            path = folder / "union.csv"
            unions = read_records(path, UnionPoint, _UNIONS) if path.exists() else []
        if spec is None or layers is None:
            raise InputError(problems)
        numels = [layer.numel for layer in layers]
        gradients = TraceTable(folder / FILES[2], "iteration", spec.workers)
        residuals = TraceTable(folder / "residuals.parquet", "block", spec.workers)
        with collect_problems(problems):
            keys = gradients.check(spec.iterations, numels, None, problems)
            if keys is not None and residuals.path.exists():
                residuals.check(range(len(spec.runs())), numels, keys, problems)
        if problems or keys is None:
            raise InputError(problems)
        return cls(folder, spec, layers, keys, tuple(unions))

    @property
    def numels(self) -> tuple[int, ...]:
        """Elements of each layer."""
        return tuple(layer.numel for layer in self.layers)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Those of the layers, where all are known."""
        shapes = tuple(layer.shape for layer in self.layers)
        return shapes if all(shapes) else ()

    def blocks(self, workers: int | Sequence[int] | None = None) -> Iterator[Block]:
        """The gradients, iteration by iteration, with at most one iteration and one batch of rows in memory.

        `workers`: the first so many, or those listed. `Block.iteration` is the recorded number.
        """
        chosen = self._workers(workers)
        table, spans = TraceTable(self.folder / FILES[2], "iteration", self.spec.workers), self.spec.runs()
        for iteration, row, rows in table.groups(chosen):
            if not any(first <= iteration <= last for first, last in spans):
                continue
            if len(rows) != len(self.keys.layer):
                raise table.replaced_error(row)
            values = _values(rows, chosen, self.spec.gradient_scale, table.path)
            del rows  # what was read is not kept while the values are worked on
            yield replace(self._bare, values=values, iteration=iteration)

    @cached_property
    def _bare(self) -> Block:
        """The coordinates of every iteration, in the flat vector of all layers, without values."""
        layer, coordinate, weight = astuple(self.keys)
        starts = np.concatenate([[0], np.cumsum(self.numels)[:-1]])
        none = np.empty((0, len(layer)), np.float32)
        return Block(none, layer, coordinate + starts[layer], weight, self.numels, shapes=self.shapes)

    def residuals(self, block: int, workers: int | Sequence[int] | None = None) -> Values | None:
        """The residual of each worker at the start of a block, (n, m); None where the trace has no residuals."""
        path, chosen, runs = self.folder / "residuals.parquet", self._workers(workers), self.spec.runs()
        if not 0 <= block < len(runs):
            raise InputError(Problem(str(self.folder), f"a block from 0 to {len(runs) - 1}", str(block)))
        if not path.exists():
            return None
        table = TraceTable(path, "block", self.spec.workers)
        groups = (group for group in table.groups(chosen) if group[0] == block)
        _, row, rows = next(groups, (block, 1, None))
        if rows is None or len(rows) != len(self.keys.layer):
            raise table.replaced_error(row)
        return _values(rows, chosen, self.spec.residual_scale, path)

    def floor(self, granularity: str = "model") -> float:
        """The smallest density that the sample resolves, selected from each layer or the whole model; 0 of all."""
        block = next(self.blocks())
        # The root mean square over the workers of the gradients in the first iteration.
        size = np.sqrt(np.mean(np.square(block.values, dtype=float), axis=0))
        return smallest_density(size, block.weight, block.units(granularity))

    def pieces(self) -> int:
        """Equal pieces of the model's flat vector that all hold a coordinate: the largest power of two, or all."""
        return most_pieces(self._bare.coordinate, sum(self.numels))

    def union_points(self, granularity: str, error_feedback: bool, density: float) -> dict[int, dict[int, UnionPoint]]:
        """Measured unions by iteration, and in each by the number of workers."""
        points: dict[int, dict[int, UnionPoint]] = {}
        for item in self.unions:
            if (item.granularity, item.error_feedback, item.density) == (granularity, error_feedback, density):
                points.setdefault(item.iteration, {})[item.workers] = item
        return points

    def _workers(self, workers: int | Sequence[int] | None) -> tuple[int, ...]:
        n = self.spec.workers
        chosen = tuple(range(n) if workers is None else range(workers) if isinstance(workers, int) else workers)
        if not chosen or min(chosen) < 0 or max(chosen) >= n:
            got = f"{workers}" if isinstance(workers, int) else f"{list(chosen)}"
            raise InputError(Problem(str(self.folder), f"1 to {n} workers, those of the trace", got))
        return chosen


def _values(rows: pa.Table, workers: tuple[int, ...], scale: float, path: Path) -> Values:
    values: Values = np.empty((len(workers), len(rows)), dtype=np.float32)
    with np.errstate(over="ignore"):
        for row, worker in zip(values, workers, strict=True):
            row[:] = rows[f"w{worker}"].to_numpy()
        values /= np.float32(scale)
    if scale < 1 and not np.isfinite(values).all():
        raise InputError(
            Problem(str(path), "values that float32 holds when divided by the scale", f"{scale:g} below them")
        )
    return values


def with_iterations(spec: TraceSpec, iterations: Sequence[int]) -> TraceSpec:
    """The description with other iterations, and blocks that are the runs of these."""
    bare = spec.model_copy(update={"iterations": tuple(iterations), "blocks": ()})
    return bare.model_copy(update={"blocks": bare.runs()})
