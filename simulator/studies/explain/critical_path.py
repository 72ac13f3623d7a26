"""Where compute waits for an exchange, and what that exchange spends the time on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, takewhile

import numpy as np

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.plan import Plan, Stage
from simulator.engine.plan.prices import Prices, price_steps
from simulator.engine.plan.work.kernels import Kernel
from simulator.engine.plan.work.shared_work import add_up
from simulator.engine.rounds.fold import fold
from simulator.models.curves import Floats
from simulator.models.exchange import Communication
from simulator.models.graph import COMPUTE
from simulator.models.sharding import AXIS_OF, LAYERS, REPLICA, SITE
from simulator.models.timeline import TERM_LABELS, Iteration, Span, covered_time, merge_intervals, number_stages
from simulator.models.wiring import Wiring
from simulator.records import Struct, field, replace
from simulator.reporting.answers.explained import ComputeWait, HiddenExchange

PARTS = ("start_up", "transfer", "software", "kernel", "sharing")
"""What an exchange's seconds are split into; `sharing` are those that other exchanges on the same links cost it."""
TRANSFER, KERNEL, SHARING = (PARTS.index(part) for part in ("transfer", "kernel", "sharing"))
SAME = 1e-9
"""Relative difference below which two times are equal."""


class StageSplitter:
    """Splits the seconds of a stage by pricing it again without latency on the same links."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.instant = plan.wiring.instant()
        self.chains = plan.work.whole_chains
        self.stages = [[*first, *second] for first, second in zip(*plan.exchanges, strict=True)]
        self.start_up_shares = np.zeros(len(plan.work.steps))
        if not plan.live:
            self.start_up_shares = self._start_up_shares(plan.work.steps, plan.prices, plan.setup.network)
        # Steps of several axes may be one collective of layers; of shards, each is one of its own.
        weights = [axis.prices.seconds if axis.axis == LAYERS else np.ones(len(axis.steps)) for axis in plan.axes]
        start_ups = (
            weight * self._start_up_shares(axis.steps, axis.prices, axis.network)
            for axis, weight in zip(plan.axes, weights, strict=True)
        )
        whole = add_up(plan.axes, weights)
        self.axis_shares = {
            label: np.divide(each, whole[label], out=np.zeros_like(each), where=whole[label] > 0)
            for label, each in add_up(plan.axes, start_ups).items()
        }

    def _start_up_shares(self, steps: Sequence[Communication], prices: Prices, network: NetworkSetup) -> Floats:
        """Share of every step's price that comes from latency, by the link law."""
        law = network.fabric.model_copy(update={"measured": ()})
        network = replace(network, fabric=law)
        priced = price_steps(steps, (), network) if prices.curves else prices
        whole = priced.seconds
        instant = price_steps(steps, (), replace(network, wiring=network.wiring.instant()))
        bytes_only = instant.seconds - instant.start_up
        return 1 - np.divide(bytes_only, whole, out=np.ones_like(whole), where=whole > 0)

    def split(self, span: Span, place: int) -> Floats:
        """Seconds of one stage by `PARTS`; they sum to its duration."""
        bucket, seconds, label = span.bucket, span.duration, span.label
        if label in self.axis_shares:
            start_up = seconds * float(self.axis_shares[label][bucket])
            return _split(start_up=start_up, transfer=seconds - start_up)
        if label in AXIS_OF:
            return _split(kernel=seconds)
        place %= len(self.stages[bucket])  # every micro-batch may exchange them again
        stage = self.stages[bucket][place]
        if not stage.collective:
            return _split(kernel=seconds)
        parts = self._split_rounds(stage) if self.plan.live else self._split_price(bucket, place)
        total = float(parts.sum())
        if total <= 0:
            return _split(transfer=seconds)
        if seconds > total * (1 + SAME):
            parts[SHARING] = seconds - total
            return parts
        return parts * (seconds / total)

    def _split_price(self, bucket: int, place: int) -> Floats:
        """A stage that has a price, by the share of it that comes from latency."""
        item = self.chains[bucket][place]
        if isinstance(item, Kernel):
            return _split(kernel=item.seconds)
        priced = float(self.plan.prices.seconds[item])
        start_up = priced * float(self.start_up_shares[item])
        software = self.stages[bucket][place].seconds - priced
        return _split(start_up=start_up, transfer=priced - start_up, software=software)

    def _split_rounds(self, stage: Stage) -> Floats:
        """A stage whose rounds share links with others, timed as if it had the links to itself."""
        overhead = self.plan.setup.runtime.message_overhead
        whole = self._fold(stage, self.plan.wiring, overhead)
        bare = self._fold(stage, self.plan.wiring, 0.0) if overhead else whole
        bytes_only = self._fold(stage, self.instant, 0.0)
        software = stage.seconds - stage.beside + whole - bare
        return _split(start_up=bare - bytes_only, transfer=bytes_only + stage.beside, software=software)

    @staticmethod
    def _fold(stage: Stage, wiring: Wiring, overhead: float) -> float:
        return float(fold(stage.rounds or [], wiring, np.zeros(len(wiring.node)), overhead=overhead).max())


def _split(**seconds: float) -> Floats:
    return np.array([seconds.get(part, 0.0) for part in PARTS])


MOST_WAITS = 8
_NO_COMPUTE = ("communication_exposed", "combine", "idle")


class Exposure(Struct):
    """The seconds in which compute waited for exchanges; arrays are (5,), split by `PARTS`.

    `own`: spent by the exchanges that compute waited for. `queued`: spent by earlier exchanges while those waited
    behind them. `held_back`: the runtime had not started the exchange yet (its cycle, its launches). `every`: all
    exchanges, exposed or hidden; None where they overlap one another. `waited_for` and `before`: the buckets of the
    exchanges in `own` and in `queued`. `on_axes`: the units and names of collectives in `own` that are among the GPUs
    which share a model or divide its layers.
    """

    own: Floats = field(default_factory=lambda: np.zeros(len(PARTS)))
    queued: Floats = field(default_factory=lambda: np.zeros(len(PARTS)))
    held_back: float = 0.0
    every: Floats | None = None
    waited_for: set[int] = field(default_factory=set)
    before: set[int] = field(default_factory=set)
    on_axes: set[tuple[int, str]] = field(default_factory=set)

    def scaled(self, network: float) -> Exposure:
        """The split of `network` seconds of exposed communication in these proportions, kernels left out."""
        own, queued = self.own.copy(), self.queued.copy()
        own[KERNEL] = queued[KERNEL] = 0.0
        total = float(own.sum() + queued.sum())
        if total <= 0 and self.every is not None:  # nothing was exposed in this iteration, but in others
            own = self.every.copy()
            own[KERNEL] = 0.0
            total = float(own.sum())
        if total <= 0:
            own[TRANSFER], total = 1.0, 1.0
        factor = network / total
        return replace(self, own=own * factor, queued=queued * factor)


def exposure(plan: Plan, iteration: Iteration) -> Exposure:
    """What compute waited for in one iteration."""
    spans = iteration.spans()
    compute = [span for span in spans if span.stream == "compute"]
    placed = number_stages([span for span in spans if span.stream != "compute"])
    exchanges, splitter, made = [span for span, _ in placed], StageSplitter(plan), Exposure()
    parts = [splitter.split(span, place) for span, place in placed]
    if not plan.live:
        made.every = np.sum(parts or [made.own], axis=0)
    of_bucket: dict[int, list[int]] = defaultdict(list)
    for number, span in enumerate(exchanges):
        of_bucket[span.bucket].append(number)
    last = max((span.end for span in exchanges), default=0.0)
    small = SAME * max((span.end for span in compute), default=last)
    for start, stop in _uncovered(compute, 0.0, last, small):
        awaited = _exchange_that_ends_at(exchanges, stop, iteration.time)
        if awaited is None:
            made.held_back += stop - start
            continue
        ending = awaited.bucket
        if awaited.label in AXIS_OF:
            made.on_axes.add((ending, awaited.label))
        else:
            made.waited_for.add(ending)
        own = _clip(of_bucket[ending], exchanges, start, stop)
        for number, share in own:
            made.own += share * parts[number]
        for low, high in _uncovered([exchanges[number] for number, _ in own], start, stop):
            others = _clip(range(len(exchanges)), exchanges, low, high)
            made.before |= {exchanges[number].bucket for number, _ in others}
            busy = covered_time([(exchanges[number].start, exchanges[number].end) for number, _ in others], low, high)
            spent = sum((share * parts[number] for number, share in others), np.zeros(len(PARTS)))
            if spent.sum() > 0:
                made.queued += spent * (busy / spent.sum())
            made.held_back += high - low - busy
    return made


def longest_waits(plan: Plan, iteration: Iteration) -> list[ComputeWait]:
    """The MOST_WAITS collectives of a sharded job that hold compute longest, each with what waits for it."""

    def unit(bucket: int) -> str:
        """A block by its number, such as `layers.7`; others by the first and the last tensor."""
        names = [plan.setup.workload.layers[layer].name.split(".") for layer in plan.work.buckets[bucket].layers]
        alike = [parts[0] for parts in takewhile(lambda parts: len({*parts}) == 1, zip(*names, strict=False))]
        words = [alike] if len(names) == 1 or (alike and alike[-1].isdigit()) else [names[0], names[-1]]
        return " to ".join(".".join(each) for each in words)

    made = defaultdict[tuple[str, str, str, str], float](float)
    exchanges, compute, workers = _spans_of_slowest(plan, iteration)
    for place in (place for place, span in enumerate(compute) if span.term == "communication_exposed"):
        if (awaited := _exchange_that_ends_at(exchanges, compute[place].end, iteration.time)) is None:
            continue
        # Copies of what has arrived, and adding it up, belong to the wait.
        held = next((each for each in compute[place:] if each.term not in _NO_COMPUTE), None)
        holds = "the next iteration" if held is None else TERM_LABELS.get(held.label, held.label)
        holds += f" of {unit(held.bucket)}" if held is not None and held.bucket not in (-1, awaited.bucket) else ""
        made[AXIS_OF.get(awaited.label, workers), awaited.label, unit(awaited.bucket), holds] += compute[place].duration
    longest = sorted(made, key=lambda key: -made[key])[:MOST_WAITS]
    return [ComputeWait(*key, made[key]) for key in longest]


def hiding_compute(plan: Plan, iteration: Iteration) -> list[HiddenExchange]:
    """For how long communication of each axis of a sharded job runs beside compute, by its term, the longest first."""
    exchanges, compute, workers = _spans_of_slowest(plan, iteration)
    made = defaultdict[tuple[str, str], float](float)
    compute = [span for span in compute if span.term not in ("communication_exposed", "idle")]
    starts, ends = (np.array([getattr(span, end) for span in compute]) for end in ("start", "end"))
    for each in exchanges:
        beside = np.minimum(ends, each.end) - np.maximum(starts, each.start)
        for place in np.flatnonzero(beside > SAME * iteration.time).tolist():
            made[AXIS_OF.get(each.label, workers), TERM_LABELS[compute[place].term]] += float(beside[place])
    return [HiddenExchange(*key, made[key]) for key in sorted(made, key=lambda key: -made[key])]


def _spans_of_slowest(plan: Plan, iteration: Iteration) -> tuple[list[Span], list[Span], str]:
    """Exchanges and compute of the slowest worker in the order in which they start, and the axis of the workers."""
    spans = sorted(iteration.spans_of(int(iteration.computed().argmax())), key=lambda span: (span.start, span.end))
    exchanges, compute = ([each for each in spans if (each.stream == COMPUTE) == own] for own in (False, True))
    return exchanges, compute, REPLICA if plan.inside is None else SITE


def _exchange_that_ends_at(exchanges: Sequence[Span], moment: float, time: float) -> Span | None:
    ending = [span for span in exchanges if abs(span.end - moment) <= SAME * time]
    return max(ending, key=lambda span: span.duration, default=None)


def _clip(numbers: Sequence[int], spans: Sequence[Span], start: float, stop: float) -> list[tuple[int, float]]:
    """Numbers of the spans that reach into an interval, each with the share of the span inside it."""
    made = []
    for number in numbers:
        span = spans[number]
        inside = min(span.end, stop) - max(span.start, start)
        if inside > 0 and span.duration > 0:
            made.append((number, inside / span.duration))
    return made


def _uncovered(spans: Sequence[Span], start: float, stop: float, small: float = 0.0) -> list[tuple[float, float]]:
    """The parts of an interval, longer than `small`, that none of the spans covers."""
    edges = [start, *chain.from_iterable(merge_intervals((span.start, span.end) for span in spans)), stop]
    return [(low, high) for low, high in zip(edges[::2], edges[1::2], strict=True) if high - low > small]
