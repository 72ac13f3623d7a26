"""The sparsifier family: selection in closed form, its cost, and the exchange of what was selected."""

from __future__ import annotations

from typing import Literal

import numpy as np

from simulator.component import Component, expected
from simulator.models.curves import Floats
from simulator.models.exchange import Bucket, Compute, Phase, Selection, Step
from simulator.models.layers import VALUE_BYTES
from simulator.models.overlap import union_density
from simulator.units import Density

INDEX_BYTES = 4
"""Bytes of an int32 index."""
LONG_INDEX_BYTES = 8
"""Bytes of torch's own int64 index."""

Style = Literal["collective", "push_pull"]


class Sparsifier(Component, family="sparsifier"):
    """Base of all sparsifiers and compressors.

    Three questions per bucket: `expect` (what is selected), `compute` (kernels before the exchange, on the compute
    stream), `exchange` (communication, and the kernels between and after). `style` is the topology's: sums and gathers
    among peers, or push and pull.
    """

    def expect(self, bucket: Bucket, workers: int, concentration: float) -> Selection:
        """Closed-form selection in one bucket; `concentration` is the overlap law's (infinite: independence)."""
        raise NotImplementedError

    def compute(self, bucket: Bucket) -> list[Compute]:
        """Kernels that select, before anything is sent."""
        raise NotImplementedError

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        """Communication steps in order, with the kernels between and after them."""
        raise NotImplementedError

    def needs_whole_model(self) -> bool:
        """Whether one selection spans all gradients, so that there can be only one bucket."""
        return False


class LocalSelection(Sparsifier):
    """Base of methods that choose about density * n elements of each unit by themselves.

    `granularity`: the unit is each tensor, the whole bucket, or the whole model.
    """

    density: Density
    granularity: Literal["layer", "bucket", "model"] = "layer"

    def needs_whole_model(self) -> bool:
        """True for `granularity: model`."""
        return self.granularity == "model"

    def units(self, bucket: Bucket) -> tuple[int, ...]:
        """Elements of each unit that is selected from on its own."""
        return bucket.pieces if self.granularity == "layer" else (bucket.numel,)

    def counts(self, bucket: Bucket) -> Floats:
        """k of each unit: max(1, round(density * n))."""
        return np.maximum(1.0, np.rint(self.density * np.array(self.units(bucket), dtype=float)))

    def expect(self, bucket: Bucket, workers: int, concentration: float) -> Selection:
        """k of every worker, and K by the beta-binomial law unit by unit."""
        counts = self.counts(bucket)
        union = sum(
            n * union_density(k / n, workers, concentration) for n, k in zip(self.units(bucket), counts, strict=True)
        )
        k = float(counts.sum())
        return Selection(np.full(workers, k), float(union), k, self.density * bucket.numel)


def per_call(kernel: str, elements: tuple[float, ...], launches: int, phase: Phase = "selection") -> Compute:
    """One kernel per entry of `elements`, each with `launches` framework calls around it."""
    return Compute(kernel, elements, launches * len(elements), phase)


def pairs_gathered(selection: Selection, bucket: Bucket, units: int, workers: int, style: Style) -> list[Step]:
    """Exchange of (value, int32 index) pairs: 8 bytes per selected element.

    Among peers, one all-gather of the values and one of the indices, then a scatter-add per worker and unit (n*k
    elements in all); three framework calls each. With servers, push the pairs and pull the union's pairs, then one
    scatter-add per unit.
    """
    from simulator.models.exchange import AllGather, PushPull

    pair = VALUE_BYTES + INDEX_BYTES
    if style == "push_pull":
        mean = float(selection.selected.mean())
        per_unit = (selection.aggregated / units,) * units
        return [
            PushPull(pair * mean, pair * selection.aggregated),
            per_call("scatter_add", per_unit, 3, "combine"),
        ]
    per_unit = (selection.largest / units,) * (units * workers)
    values = tuple(VALUE_BYTES * selection.selected)
    indices = tuple(INDEX_BYTES * selection.selected)
    return [AllGather(values), AllGather(indices), per_call("scatter_add", per_unit, 3, "combine")]


def refuse(method: str, what: str, hint: str) -> Exception:
    """The error for an exchange that a method's payload can't take."""
    return expected(f"an exchange that {method} can use", what, hint)
