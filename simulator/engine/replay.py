"""Replay: the algorithm of a sparsifier runs on recorded gradients of every worker, with error feedback."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from simulator.errors import InputError, Problem
from simulator.models.curves import Floats
from simulator.models.exchange import Bucket, Ints, Selection
from simulator.models.gradients import ALL, Block, Cut, State, Values
from simulator.models.sampling import sums_of_squares
from simulator.progress import OBSERVED, Watch
from simulator.records import Record, replace
from simulator.sparsifiers.base import Sparsifier

if TYPE_CHECKING:
    from simulator.traces.format.trace import Trace

TOGETHER = 16
"""Iterations at the end of a replay, if it has so many, in which it is counted how often each coordinate was sent."""


class ReplayedStep(Record):
    """One iteration of one bucket, or of all buckets together: what was selected, and what was lost.

    With u = residual + gradient and C(u), what was sent of it, summed over workers and weighted where coordinates were
    sampled: `energy` = ||u||^2 and `lost` = ||u - C(u)||^2. `residual` = ||residual||^2 after the iteration, mean over
    workers. `never_sent`: how many of the `numel` coordinates no worker has sent so far. `sent_times`: after the last
    iteration, how many coordinates all workers together sent 0, 1, 2, ... times in the last `TOGETHER` iterations.
    """

    iteration: int
    selection: Selection
    energy: float
    lost: float
    residual: float
    never_sent: float
    numel: float
    sent_times: Floats | None = None

    @property
    def energy_kept(self) -> float:
        """1 - ||u - C(u)||^2 / ||u||^2, which is 1 if everything was sent."""
        return 1.0 - self.lost / self.energy if self.energy else 1.0

    def row(self) -> dict[str, float]:
        """The step as a tidy row; densities are shares of all elements.

        For comparison with the energy kept: what k random coordinates keep, k/d, and the lower bound for the k largest
        of a bell-shaped distribution, (2kd - k^2)/d^2 (Shi et al. 2019, 1911.08772).
        """
        chosen, d = self.selection, self.numel
        selected = float(chosen.selected.mean())
        share = selected / d
        return {
            "iteration": self.iteration,
            "selected": selected / d,
            "aggregated": chosen.aggregated / d,
            "aggregated_error": chosen.aggregated_error / d,
            "build_up": chosen.aggregated / chosen.without_overlap if selected else 1.0,
            "padding": chosen.largest / selected if selected else 1.0,
            "imbalance": float(chosen.selected.max()) / selected if selected else 1.0,
            "smallest": float(chosen.selected.min()) / selected if selected else 1.0,
            "energy_kept": self.energy_kept,
            "random_k_bound": share,
            "top_k_bound": 2 * share - share * share,
            "residual_norm": self.residual**0.5,
            "never_sent": self.never_sent / d,
        }


class Replay:
    """A method at work on the gradients of one bucket; `advance` takes one iteration.

    Its state (residual, momentum, thresholds, borders) lives through all iterations, whatever their numbers are, and so
    does the record of what no worker has sent. Warm-ups and rotations follow the numbers. `groups` of the workers, of
    each of which there is a step, are for methods whose workers select alone.
    """

    def __init__(self, sparsifier: Sparsifier, groups: Sequence[slice] = (ALL,)) -> None:
        self.sparsifier, self.groups = sparsifier, groups
        self._state: State | None = None
        self._times: list[Ints] = []
        self._before: list[Ints] = []
        self._counted = 0

    def advance(self, block: Block, residual: Values | None = None, ahead: int | None = None) -> list[ReplayedStep]:
        """Select from one iteration's gradients; `residual` (n, m), if given, takes the place of the method's own.

        `ahead`: how many iterations follow, if that is known.
        """
        if self._state is None:
            self._state = self.sparsifier.start(block)
            self._times = [np.zeros(block.values.shape[1], dtype=int) for _ in self.groups]
        if ahead is not None and ahead < TOGETHER and not self._before:
            self._before, self._counted = [times.copy() for times in self._times], ahead + 1
        if residual is not None:
            self._state["residual"][:] = self.sparsifier.encode(residual, block)
        member = self.sparsifier.at(block.iteration)
        done = member.select(self._state, block)
        kept = self._state["residual"]
        # Where the residual is all that is left of u, its squares are known.
        weight, known = block.weight_of(ALL), kept is done.left
        residuals = done.losses if known else sums_of_squares(kept, weight)
        groups = list(zip(self.groups, self._times, strict=True))
        for worker, (places, values) in enumerate(zip(done.choice.sent_places, done.sent, strict=True)):
            touched = np.flatnonzero(values)
            touched = touched if isinstance(places, slice) else places[touched]
            for group, times in groups:
                if worker in range(block.workers)[group]:
                    times[touched] += 1
        return [
            ReplayedStep(
                iteration=block.iteration,
                selection=done.selection if group == ALL else member.counted(done.choice.of(group), block),
                energy=math.fsum(done.energies[group]),
                lost=math.fsum(done.losses[group]),
                residual=math.fsum(residuals[group]) / len(residuals[group]),
                never_sent=float(block.weight[times == 0].sum() if block.sampled else (times == 0).sum()),
                numel=float(block.numel),
                sent_times=self._sent_times(number, block) if ahead == 0 else None,
            )
            for number, (group, times) in enumerate(groups)
        ]

    def _sent_times(self, number: int, block: Block) -> Floats:
        """Elements that a group sent 0, 1, 2, ... times in the iterations that are counted."""
        most = self._counted * len(range(block.workers)[self.groups[number]])
        weight = block.weight if block.sampled else None
        return np.bincount(self._times[number] - self._before[number], weight, most + 1).astype(float)


def add_steps(steps: Sequence[ReplayedStep]) -> ReplayedStep:
    """The steps of several buckets in one iteration as one step."""
    chosen = [step.selection for step in steps]
    counts: dict[str, Any] = {name: math.fsum(_values(chosen, name)) for name in ("aggregated", "largest", "target")}
    energies = {name: math.fsum(_values(steps, name)) for name in ("energy", "lost", "residual", "never_sent")}
    times = [step.sent_times for step in steps if step.sent_times is not None]
    return ReplayedStep(
        iteration=steps[0].iteration,
        selection=Selection(
            selected=np.sum([item.selected for item in chosen], axis=0),
            **counts,
            aggregated_error=float(np.hypot.reduce(_values(chosen, "aggregated_error"))),
            exclusive=chosen[0].exclusive,
        ),
        **energies,
        numel=sum(step.numel for step in steps),
        sent_times=np.sum(times, axis=0) if times else None,
    )


def mean_selection(selections: Sequence[Selection]) -> Selection:
    """The mean of a bucket's selections over iterations, by which its exchange is priced."""
    names = ("aggregated", "largest", "target", "scanned", "passes", "aggregated_error")
    means: dict[str, Any] = {name: float(np.mean(_values(selections, name))) for name in names}
    return Selection(
        selected=np.mean([item.selected for item in selections], axis=0),
        **means,
        detail={key: float(np.mean([item.detail[key] for item in selections])) for key in selections[0].detail},
        exclusive=selections[0].exclusive,
    )


def _values(items: Sequence[object], name: str) -> list[float]:
    """A field of each."""
    return [getattr(item, name) for item in items]


_HELD = 2**28
"""Bytes of residuals that replays hold together; those that do not fit beside others read the trace again."""
Steps = list[list[ReplayedStep]]
"""The steps of a replay: those of all buckets, in order, for each iteration."""


class _Shared(NamedTuple):
    """A method on some recorded workers in a row, of which several replays are made: of each of `groups` of them."""

    sparsifier: Sparsifier
    workers: range
    groups: tuple[slice, ...]


def replay_methods(
    asked: Sequence[tuple[Sparsifier, range]], buckets: Sequence[Bucket], trace: Trace, watch: Watch | None = None
) -> Iterator[Steps]:
    """The steps of several replays, each of a method on some recorded workers in a row.

    The state of the method lives through all recorded iterations, across gaps in the recording as well. Where residuals
    were recorded at the start of a run of iterations, they take the place of the method's own; where none were, its own
    is kept. Recorded residuals are those of the method of the recorded training, and so only a guess for any other.

    A method whose workers select alone is replayed once, on all workers that are asked for in a row, and the steps of
    fewer are taken from it. An iteration is read once for as many replays as hold their residuals in 256 MiB together.
    `watch` counts the iterations that are read; with it, an interruption (Ctrl-C) ends the replays with those that are
    done, once there is one, and leaves out replays that were not begun. Raises InputError where the trace is a sample
    that does not resolve a method's density or parts.
    """
    batches: list[list[_Shared]] = []
    held = 0
    for one in _shared(asked):
        more = 4 * len(one.workers) * len(trace.keys.layer)
        if not batches or held + more > _HELD:
            batches.append([])
            held = 0
        batches[-1].append(one)
        held += more
    kept, watch = watch is not None, watch or Watch(OBSERVED.get())
    watch.expect(len(batches) * len(trace.spec.iterations))
    for batch in batches:
        each: list[list[list[ReplayedStep]]] = []
        with watch.part("the replays"):
            for steps in _advance(batch, buckets, trace):
                each.append(steps)
                watch.step()
        if watch.interrupted and not (kept and each):
            raise KeyboardInterrupt
        yield from map(list, zip(*each, strict=True))
        if watch.interrupted:
            return


def _shared(asked: Sequence[tuple[Sparsifier, range]]) -> Iterator[_Shared]:
    """The replays that give all that are asked for, in order."""
    for sparsifier, same in groupby(asked, lambda one: one[0]):
        each = [workers for _, workers in same]
        for workers in [each] if sparsifier.selects_alone else [[one] for one in each]:
            whole = range(min(one.start for one in workers), max(one.stop for one in workers))
            groups = [slice(one.start - whole.start, one.stop - whole.start) for one in workers]
            everyone = slice(0, len(whole))
            yield _Shared(sparsifier, whole, tuple(ALL if one == everyone else one for one in groups))


def _advance(batch: Sequence[_Shared], buckets: Sequence[Bucket], trace: Trace) -> Iterator[Steps]:
    """For each iteration, the steps of every group of every replay in the batch."""
    for one in batch:
        check_resolution(one.sparsifier, trace, len(one.workers))
    first = min(one.workers.start for one in batch)
    read = range(first, max(one.workers.stop for one in batch))
    replays = [
        (
            slice(one.workers.start - first, one.workers.stop - first),
            [Replay(one.sparsifier.at_density(bucket.density), one.groups) for bucket in buckets],
        )
        for one in batch
    ]
    cuts: list[Cut] = []
    ahead = len(trace.spec.iterations)
    for block, residual in blocks_with_residuals(trace, read):
        ahead -= 1
        cuts = cuts or [block.cut(bucket.layers, bucket.offset, bucket.pieces) for bucket in buckets]
        parts = [(cut.of(block), None if residual is None else cut.values(residual)) for cut in cuts]
        made: Steps = []
        for rows, each in replays:
            of_buckets = [
                one.advance(replace(part, values=part.values[rows]), None if left is None else left[rows], ahead)
                for one, (part, left) in zip(each, parts, strict=True)
            ]
            made += map(list, zip(*of_buckets, strict=True))
        yield made


def blocks_with_residuals(trace: Trace, workers: int | Sequence[int]) -> Iterator[tuple[Block, Values | None]]:
    """The iterations of a trace, each with the residuals (n, m) that were recorded before it; None where none were."""
    starts = {first: number for number, (first, _) in enumerate(trace.spec.runs())}
    for block in trace.blocks(workers):
        number = starts.get(block.iteration)
        yield block, None if number is None else trace.residuals(number, workers)


def check_resolution(sparsifier: Sparsifier, trace: Trace, workers: int) -> None:
    """Raise an InputError where a sampled trace does not resolve what the method selects.

    A method without a density of its own is not checked. The smallest density that it has during a warm-up, or later,
    counts.
    """
    density = getattr(sparsifier, "density", None)
    if density is None:
        return
    granularity = getattr(sparsifier, "granularity", "model")
    where, floor = f"{trace.folder}: sparsifier {sparsifier.kind}", trace.floor(granularity)
    hint = "the trace is a sample of coordinates, of which `sparsim trace check` says what it resolves"
    if min((density, *getattr(sparsifier, "warmup", ()))) < floor:
        by = f"a density of at least {floor:g} by {'layer' if granularity == 'layer' else 'model'}"
        raise InputError(Problem(where, by, f"{density:g}", hint))
    parts = sparsifier.parts_used(workers)
    if parts > 1 and parts > trace.pieces():
        raise InputError(Problem(where, f"at most {trace.pieces()} parts of the model", f"{parts}", hint))
