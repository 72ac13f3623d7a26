"""The sparsifier family: selection in closed form, its cost, and the exchange of what was selected."""

from __future__ import annotations

import math
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from simulator.component import Component, expected
from simulator.errors import SparsimError
from simulator.models.curves import Floats
from simulator.models.exchange import AllGather, Bucket, Compute, Phase, PushPull, Selection, Step, alike
from simulator.models.gradients import Block, Choice, Mask, State, Values, counted, held, top
from simulator.models.layers import VALUE_BYTES
from simulator.models.overlap import Overlap, union_density
from simulator.units import Density

INDEX_BYTES = 4
"""Bytes of an int32 index."""
LONG_INDEX_BYTES = 8
"""Bytes of torch's own int64 index."""

Style = Literal["collective", "push_pull"]


class Sparsifier(Component, family="sparsifier"):
    """Base of all sparsifiers and compressors.

    Two ways lead to a Selection: `select`, the published algorithm on replayed gradients, and `expect`, its closed
    form. One way leads on: `compute` (kernels before the exchange, on the compute stream) and `exchange`
    (communication, and the kernels between and after). `style` is the topology's: sums and gathers among peers, or push
    and pull.

    A member implements `choose`, which sees u = residual + gradient of every worker and says what each sends; `select`
    does the error feedback and the counting around it, and checks what comes back.
    """

    drops_globally: ClassVar[bool] = False
    """Whether what a worker selected may be left out of the sum, so that k_i may be above K."""

    def start(self, block: Block) -> State:
        """The state before the first iteration: nothing left behind."""
        return {"residual": np.zeros_like(block.values)}

    def accumulate(self, state: State, block: Block) -> Values:
        """What is selected from: the residual plus this iteration's gradients, (n, m)."""
        total: Values = state["residual"] + block.values
        return total

    def at(self, iteration: int) -> Self:
        """The method as it selects in this iteration of training: the same throughout, unless it has a warm-up."""
        return self

    def at_density(self, density: float | None) -> Self:
        """The method at a bucket's own density, None for the method's. Raises an expected-error if it has none."""
        if density is None:
            return self
        if "density" not in type(self).model_fields:
            raise expected("a sparsifier with a density", self.kind, "the scheduler sets the density of every layer")
        return self.model_copy(update={"density": density})

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """What each worker sends of u (n, m); may write its own entries of `state`, never `residual`."""
        raise NotImplementedError

    def target(self, bucket_numel: int) -> float:
        """Elements that the method aims to select of a bucket, per worker (or in all, where selection is exclusive)."""
        return float(bucket_numel)

    def after(self, state: State, u: Values, choice: Choice) -> None:
        """Update `residual` once it is known what was sent: what was not stays behind."""
        # The old residual is used up; writing over it saves fresh pages, the slowest part on long vectors.
        state["residual"] = np.subtract(u, choice.sent, out=state["residual"])

    def select(self, state: State, block: Block) -> tuple[State, Selection, Values, Choice]:
        """One iteration on replayed gradients: the next state, the counts, u, and what was sent of it.

        The state passed in is used up: its arrays may be written over.

        Raises SparsimError if a member returns arrays of wrong shape or values that are not finite.
        """
        state = dict(state)
        u = self.accumulate(state, block)
        choice = self.choose(u, block, state)
        if choice.chosen.shape != u.shape or choice.sent.shape != u.shape or not np.isfinite(choice.sent).all():
            raise SparsimError(f"sparsifier {self.kind}: choose must return finite arrays of shape {u.shape}")
        self.after(state, u, choice)
        return state, counted(choice, block, self.target(block.numel)), u, choice

    def expect(self, bucket: Bucket, workers: int, concentration: Overlap) -> Selection:
        """Closed-form selection in one bucket; `concentration` is the overlap law's (infinite: independence)."""
        raise NotImplementedError

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """Kernels that select, before anything is sent."""
        raise NotImplementedError

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        """Communication steps in order, with the kernels between and after them."""
        raise NotImplementedError

    def needs_whole_model(self) -> bool:
        """Whether one selection spans all gradients, so that there can be only one bucket."""
        return False


class Selective(Sparsifier):
    """Base of methods that select a share of the elements.

    `density`: the share that is asked for. `warmup`: densities that training starts with, each for `warmup_length`
    iterations, before `density` holds (DGC: 0.25, 0.0625, 0.015625, 0.004, an epoch each); replay follows it, the
    closed form is for the time after.
    """

    density: Density
    warmup: tuple[Density, ...] = ()
    warmup_length: int = Field(default=100, ge=1)

    def at(self, iteration: int) -> Self:
        """The method as it selects in this iteration of training."""
        step = iteration // self.warmup_length
        return self.model_copy(update={"density": self.warmup[step]}) if step < len(self.warmup) else self


class LocalSelection(Selective):
    """Base of methods that choose about density * n elements of each unit by themselves.

    `granularity`: the unit is each tensor, the whole bucket, or the whole model.
    """

    granularity: Literal["layer", "bucket", "model"] = "layer"

    def needs_whole_model(self) -> bool:
        """True for `granularity: model`."""
        return self.granularity == "model"

    def units(self, bucket: Bucket) -> tuple[int, ...]:
        """Elements of each unit that is selected from on its own."""
        return bucket.pieces if self.granularity == "layer" else (bucket.numel,)

    def target(self, bucket_numel: int) -> float:
        """density * d."""
        return self.density * bucket_numel

    def counts(self, bucket: Bucket) -> Floats:
        """k of each unit: max(1, round(density * n))."""
        return np.maximum(1.0, np.rint(self.density * np.array(self.units(bucket))))

    def held(self, m: int, n: int) -> int:
        """Elements to select of a unit of n elements of which m are held."""
        return held(m, n, max(1, round(self.density * n)))

    def top(self, u: Values, block: Block) -> Mask:
        """The k largest magnitudes of each unit and worker, (n, m)."""
        return top(u, block, self.granularity, self.density)

    def expect(self, bucket: Bucket, workers: int, concentration: Overlap) -> Selection:
        """k of every worker, and K by the beta-binomial law unit by unit."""
        counts = self.counts(bucket)
        union = math.fsum(
            n * union_density(k / n, workers, concentration) for n, k in zip(self.units(bucket), counts, strict=True)
        )
        k = float(counts.sum())
        return Selection(alike(workers, k), float(union), k, self.density * bucket.numel)

    def topk_kernels(self, bucket: Bucket) -> list[Compute]:
        """Exact Top-k of each unit: residual add, absolute value and top-k, clearing of what was selected."""
        units = tuple(float(n) for n in self.units(bucket))
        return [
            per_call("residual_add", units, 1),
            per_call("topk", units, 0),
            per_call("residual_clear", tuple(self.counts(bucket)), 1),
        ]


def per_call(
    kernel: str, elements: tuple[float, ...], launches: int, phase: Phase = "selection", times: int = 1
) -> Compute:
    """One kernel per entry of `elements`, each with `launches` framework calls around it."""
    return Compute(kernel, elements, launches * len(elements) * times, phase, times)


def pairs_gathered(selection: Selection, bucket: Bucket, units: int, workers: int, style: Style) -> list[Step]:
    """Exchange of (value, int32 index) pairs: 8 bytes per selected element.

    Among peers, one all-gather of the values and one of the indices, then a scatter-add per worker and unit (n*k
    elements in all); three framework calls each. With servers, push the pairs and pull the union's pairs, then one
    scatter-add per unit.
    """
    pair = VALUE_BYTES + INDEX_BYTES
    if style == "push_pull":
        mean = float(selection.selected.mean())
        per_unit = (selection.aggregated / units,) * units
        return [
            PushPull(pair * mean, pair * selection.aggregated),
            per_call("scatter_add", per_unit, 3, "combine"),
        ]
    per_unit = (selection.largest / units,) * units
    return [
        AllGather(each_sends(VALUE_BYTES * selection.selected)),
        AllGather(each_sends(INDEX_BYTES * selection.selected)),
        per_call("scatter_add", per_unit, 3, "combine", workers),
    ]


def each_sends(nbytes: Floats) -> float | tuple[float, ...]:
    """Bytes per worker (p,) as an all-gather takes them: one number where all send alike, which is quicker to price."""
    return float(nbytes[0]) if (nbytes == nbytes[0]).all() else tuple(nbytes)


def refuse(method: str, what: str, hint: str) -> Exception:
    """The error for an exchange that a method's payload can't take."""
    return expected(f"an exchange that {method} can use", what, hint)
