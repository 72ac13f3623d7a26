"""The sparsifier family: what is selected, what the selection costs, and how it is exchanged."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import field_validator

from simulator.bounds import Count
from simulator.component import Component, expected
from simulator.errors import InputError, Problem, SparsimError, suggest_nearest
from simulator.models.curves import Floats
from simulator.models.exchange import Bucket, Compute, Ints, Selection, Step, alike
from simulator.models.gradients import Block, Choice, Outcome, State, Values, count_selected, take_sent, top
from simulator.models.overlap import Overlap, union_density
from simulator.records import replace
from simulator.sparsifiers.implementation import (
    COUNT_BYTES,
    GOOD,
    GOOD_CODE,
    GRACE,
    RELEASED,
    RELEASED_CODE,
    SIZE_BYTES,
    Implementation,
    Steps,
    Style,
    by_size,
    each_sends,
    pairs_gathered,
    per_call,
    split_evenly,
    sum_step,
)
from simulator.units import Density

__all__ = [
    "COUNT_BYTES",
    "SIZE_BYTES",
    "LocalSelection",
    "Selective",
    "Sparsifier",
    "Style",
    "each_sends",
    "pairs_gathered",
    "per_call",
    "split_evenly",
    "sum_step",
]


_ROUND: Mapping[str, Callable[[float], int]] = {"nearest": round, "down": math.floor, "up": math.ceil}
_LARGEST = 1e18
"""Magnitudes that methods are given are below it, so that norms and sums over workers fit into float32."""
_CHUNK = 2**16
"""Elements that are added and checked at once, few enough for the processor's cache."""


class Sparsifier(Component, family="sparsifier"):
    """Base of all sparsifiers and compressors.

    A Selection comes from `select`, the published algorithm on replayed gradients, or from `expect`, its closed form.
    From there on both are treated alike: `compute` gives the kernels before the exchange, on the compute stream, and
    `exchange` the communication with the kernels between and after it. `style` is that of the topology: sums and
    gathers among peers, or push and pull.

    A member implements `choose`: given u = residual + gradient of every worker, it returns the coordinates that each
    worker sends. Of equal magnitudes it takes the first ones, so that results do not depend on the processor. `select`
    does the error feedback and the counting, and checks what `choose` returns.

    - `implementation`: which software carries the method out: `released` (the default: the code that was released with
      it, or that most people run), `good` (one fused call per kernel over all tensors of a bucket, no reads by the
      host), or another one that the member knows, such as `grace` (GRACE's TensorFlow code).
    """

    implementation: str = RELEASED

    implementations: ClassVar[Mapping[str, Implementation]] = {}
    """Further implementations of the member, by the names that `implementation` takes."""

    drops_globally: ClassVar[bool] = False
    """Whether the sum may lack elements that a worker selected, so that k_i may be above K."""

    exclusive: ClassVar[bool] = False
    """Whether workers select in disjoint parts of the gradient, so that nothing builds up."""

    keeps: ClassVar[tuple[str, ...]] = ("residual",)
    """The entries of its state that have a value for each element of the gradient."""

    peers_only: ClassVar[str] = ""
    """Why servers cannot carry it, and what can; empty where they can."""

    whole_only: ClassVar[str] = ""
    """Why it cannot be replayed on a sample of coordinates; empty where it can."""

    reads_samples: ClassVar[bool] = False
    """Whether a `choose` that does not come with the package counts, of a sample, the elements that a coordinate stands
    for (`block.weight`); those of the package do, or have a reason in `whole_only`.
    """

    alone: ClassVar[bool] = False
    """Whether what a worker sends and keeps follows from its own gradients, whoever else takes part."""

    @property
    def selects_alone(self) -> bool:
        """Whether that is so with these parameters: replays of some workers are then the rows of one replay of all."""
        return self.alone

    @property
    def follows_gradients(self) -> bool:
        """Whether how much it sends depends on the gradients, as of methods with a density: a replay then knows more
        than the closed form, which of others holds for any gradients."""
        return hasattr(self, "density")

    @property
    def has_residual(self) -> bool:
        """Whether it selects from the gradients plus a residual, so that kernels work in the residual's format.

        Of methods with the parameter `error_feedback`, those where it is on.
        """
        return bool(getattr(self, "error_feedback", True))

    def state_values(self, pieces: tuple[int, ...]) -> float:
        """Values that a worker keeps on the GPU from one iteration to the next, for tensors of these sizes.

        Each of `keeps` per element; the residual where it keeps one. A method that keeps less says so; single numbers,
        such as thresholds, are not counted.
        """
        return float(sum(pieces) * (len(self.keeps) - (not self.has_residual)))

    @field_validator("implementation")
    @classmethod
    def _is_known(cls, value: str) -> str:
        known = cls.known_implementations()
        if value not in known:
            raise expected(f"one of {', '.join(known)}", value, suggest_nearest(value, known))
        return value

    @classmethod
    def known_implementations(cls) -> dict[str, Implementation]:
        """What `implementation` may name; a method that is derived from another one has its own."""
        member = cls.registry.get(cls.kind, cls)
        grace = {"grace": GRACE[cls.kind]} if cls.kind in GRACE else {}
        return {RELEASED: RELEASED_CODE, GOOD: GOOD_CODE, **grace, **member.__dict__.get("implementations", {})}

    def carry_out(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> Steps:
        """The kernels of the selection, and the exchange, as the chosen implementation carries them out.

        Raises an expected-error for `push_pull` where only peers can exchange what it sends.
        """
        if style == "push_pull" and self.peers_only:
            raise expected(f"an exchange that {self.kind} can use", "push and pull", self.peers_only)
        chosen = self.known_implementations()[self.implementation]
        return chosen.steps(self, selection, bucket, workers, style)

    def start(self, block: Block) -> State:
        """The state before the first iteration: what `keeps` names, all zeros."""
        return {name: np.zeros_like(block.values) for name in self.keeps}

    def encode(self, values: Values, block: Block) -> Values:
        """Gradients or residuals (n, m) as the method holds them: themselves, unless it transforms them."""
        return values

    def accumulate(self, state: State, block: Block) -> Values:
        """The values to select from, (n, m): the gradients of this iteration are added to the residual, in place."""
        total: Values = state["residual"]
        total += block.values
        return total

    def at(self, iteration: int) -> Self:
        """The method with its parameters in this iteration of training; they differ only during a warm-up."""
        return self

    def at_density(self, density: float | None) -> Self:
        """The method at a bucket's own density (None: the method's). Raises an expected-error if it has no density."""
        if density is None:
            return self
        if "density" not in type(self).model_fields:
            raise expected("a sparsifier with a density", self.kind, "the scheduler sets the density of every layer")
        return self.model_copy(update={"density": density})

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """What each worker sends of u (n, m). It may change its own entries of `state`, but not `residual`."""
        raise NotImplementedError

    def target(self, bucket_numel: int) -> float:
        """Elements of a bucket that each worker should select (or all workers together, if selection is exclusive)."""
        return float(bucket_numel)

    def after(self, state: State, left: Values, choice: Choice) -> None:
        """Update `residual` after the choice: what is `left` of u (n, m) stays in it."""
        state["residual"] = left

    def select(self, state: State, block: Block) -> Outcome:
        """One iteration on replayed gradients; `state` is then that of the next iteration, its arrays overwritten.

        Raises InputError on a sample of coordinates where the method needs all of them, and if gradients or residuals
        are too large to compute with; SparsimError if `choose` returns coordinates that do not exist or values that are
        not finite.
        """
        return self.send(state, self.collect(state, block), block)

    def collect(self, state: State, block: Block) -> Values:
        """The first half of `select`: u, the values to select from, (n, m), checked."""
        self.refuse_sample(block)
        with np.errstate(over="ignore", invalid="ignore"):  # what is too large is refused
            u = self.accumulate(state, block)
        for start in range(0, u.shape[1], _CHUNK):
            part = u[:, start : start + _CHUNK]
            if not (part.min() > -_LARGEST and part.max() < _LARGEST):
                where, what = f"sparsifier {self.kind}, iteration {block.iteration}", f"values within {_LARGEST:g}"
                got = "larger ones" if np.isfinite(part).all() else "infinite ones, or ones that are not numbers"
                hint = "did the training diverge?"
                raise InputError(Problem(where, f"{what} of gradients and residuals", got, hint))
        return u

    def refuse_sample(self, block: Block) -> None:
        """Raise InputError on a sample of coordinates, where the method needs all or does not say that it reads one."""
        if not block.sampled:
            return
        why, chooses = self.whole_only, next(each for each in type(self).__mro__ if "choose" in vars(each))
        if not why and not self.reads_samples and not chooses.__module__.startswith("simulator."):
            why = f"{chooses.__name__} does not say that its `choose` counts what a coordinate stands for"
            why += " (`reads_samples = True`)"
        if why:
            hint = f"{why}; record whole gradients to replay it"
            raise InputError(Problem(f"sparsifier {self.kind}", "a trace of all coordinates", "a sample of them", hint))

    def send(self, state: State, u: Values, block: Block) -> Outcome:
        """The second half of `select`: what is sent is taken out of u (n, m), in place."""
        choice = self.choose(u, block, state)
        if not choice.is_valid(u.shape):
            what = f"increasing coordinates below {u.shape[1]} of {u.shape[0]} workers, and finite values"
            raise SparsimError(f"sparsifier {self.kind}: choose must return {what}")
        sent, energies, losses = take_sent(choice, u, block)
        self.after(state, u, choice)
        return Outcome(self.counted(choice, block), choice, sent, u, energies, losses)

    def counted(self, choice: Choice, block: Block) -> Selection:
        """The counts of a choice."""
        return replace(count_selected(choice, block, self.target(block.numel)), exclusive=self.exclusive)

    def combine(self, outcome: Outcome, block: Block) -> Values:
        """What every worker makes of all that was sent, (m,): the sum divided by the number of workers."""
        return outcome.mean()

    def expect(self, bucket: Bucket, workers: int, concentration: Overlap) -> Selection:
        """The selection in one bucket in closed form; `concentration` of the overlap law (infinite: independence).

        Here all elements on every worker.
        """
        d = float(bucket.numel)
        return Selection(alike(workers, d), d, d, d)

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """The kernels of the selection, before anything is sent."""
        raise NotImplementedError

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        """The communication steps in order, with the kernels between and after them."""
        raise NotImplementedError

    def parts_used(self, workers: int) -> int:
        """Equal parts of the vector from each of which elements are selected by themselves."""
        return 1


class Selective(Sparsifier):
    """Base of methods that select a share of the elements.

    `density`: the share to select. `warmup`: densities at the start of the training, each for `warmup_length`
    iterations, before `density` holds (DGC: 0.25, 0.0625, 0.015625, 0.004, an epoch each). Replay follows the warm-up;
    the closed form is for the time after it.
    """

    density: Density
    warmup: tuple[Density, ...] = ()
    warmup_length: Count = 100

    def at(self, iteration: int) -> Self:
        """The method with its density in this iteration of training."""
        step = iteration // self.warmup_length
        return self.model_copy(update={"density": self.warmup[step]}) if step < len(self.warmup) else self

    def target(self, bucket_numel: int) -> float:
        """density * d."""
        return self.density * bucket_numel


class LocalSelection(Selective):
    """Base of methods whose workers each select about density * n elements of every unit of n elements.

    `granularity`: the unit is each tensor, the whole bucket, or the whole model.

    - `rounding`: how k = density * n is rounded to a whole number, at least 1: to the `nearest` one (the default, by
      which small tensors keep their density on average), `down` as in the released code of Top-k, GaussianK and RedSync
      (hclhkbu/GaussianK-SGD; kljp/exdyna), or `up` as in that of DGC (synxlin/deep-gradient-compression).
    """

    builds_up: ClassVar[bool] = True
    """Whether the sum has more elements than each worker selects where workers select different ones."""

    granularity: Literal["layer", "bucket", "model"] = "layer"
    rounding: Literal["nearest", "down", "up"] = "nearest"

    def units(self, bucket: Bucket) -> tuple[int, ...]:
        """Elements of each unit."""
        return bucket.pieces if self.granularity == "layer" else (bucket.numel,)

    def unit_sizes(self, bucket: Bucket) -> tuple[float, ...]:
        """Elements of each unit, as kernels take them."""
        return tuple(float(n) for n in self.units(bucket))

    def counts(self, bucket: Bucket) -> Floats:
        """k of each unit."""
        return np.array(by_size(self.wanted, self.units(bucket)), dtype=float)

    def wanted(self, numel: int) -> int:
        """k of a unit of `numel` elements: density * numel, rounded by `rounding`, at least 1."""
        return max(1, _ROUND[self.rounding](self.density * numel))

    def top(self, u: Values, block: Block) -> list[Ints]:
        """The coordinates of the k largest magnitudes of each unit, for each worker; of equal ones the first."""
        return top(u, block, self.granularity, self.wanted)

    def top_counts(self, block: Block) -> Floats:
        """Elements that `top` selects of each worker, (n,)."""
        return np.full(block.workers, float(sum(self.wanted(n) for _, n in block.units(self.granularity))))

    def expect(self, bucket: Bucket, workers: int, concentration: Overlap) -> Selection:
        """k of every worker, and K by the beta-binomial law unit by unit; K = k for any n where nothing builds up."""
        counts, units = self.counts(bucket), self.units(bucket)
        k = float(counts.sum())
        if not self.builds_up:
            return Selection(alike(workers, k), k, k, self.target(bucket.numel))
        wanted = dict(zip(units, counts.tolist(), strict=True))
        unions = by_size(lambda n: n * union_density(wanted[n] / n, workers, concentration), units)
        return Selection(alike(workers, k), math.fsum(unions), k, self.target(bucket.numel))

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """Exact Top-k of each unit: residual add, absolute value and top-k, clearing of the selected elements."""
        units = self.unit_sizes(bucket)
        return [
            per_call("residual_add", units, 1),
            per_call("topk", units, 0),
            per_call("residual_clear", tuple(self.counts(bucket).tolist()), 1),
        ]

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        """All-gather of values and of indices at the largest count; pairs to and from servers."""
        return pairs_gathered(selection, bucket, len(self.units(bucket)), workers, style)
