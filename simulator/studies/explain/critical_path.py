"""Where compute waits for an exchange, and what that exchange spends the time on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from simulator.engine.plan.kernels import Kernel
from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.plan import Plan
from simulator.engine.plan.prices import price_steps
from simulator.engine.plan.stages import Stage
from simulator.engine.rounds.fold import fold
from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Route
from simulator.models.timeline import Iteration, Span, covered_time
from simulator.models.wiring import Wiring
from simulator.scenario.scenario import Scenario

PARTS = ("start_up", "transfer", "software", "kernel", "sharing")
"""What an exchange's seconds are split into; `sharing` are those that others on the same links cost it."""
_START_UP, _TRANSFER, _SOFTWARE, _KERNEL, _SHARING = range(len(PARTS))
_SAME = 1e-9


@dataclass(slots=True)
class Exposure:
    """The seconds in which compute stood still, (5,) by `PARTS` where it is an array.

    `own`: of the exchanges that compute waited for. `queued`: those exchanges waited behind others, which spent it on
    this. `held_back`: the runtime had not started them yet (its cycle, its launches). `every`: all exchanges, hidden
    or not; None where they overlap one another. `waited_for` and `before`: the buckets in question.
    """

    own: Floats = field(default_factory=lambda: np.zeros(len(PARTS)))
    queued: Floats = field(default_factory=lambda: np.zeros(len(PARTS)))
    held_back: float = 0.0
    every: Floats | None = None
    waited_for: set[int] = field(default_factory=set)
    before: set[int] = field(default_factory=set)

    @property
    def kernels(self) -> float:
        """Seconds of kernels inside the exchanges."""
        return float(self.own[_KERNEL] + self.queued[_KERNEL])

    def scaled(self, network: float) -> Exposure:
        """The same split of `network` seconds, kernels left out."""
        own, queued = self.own.copy(), self.queued.copy()
        own[_KERNEL] = queued[_KERNEL] = 0.0
        total = float(own.sum() + queued.sum()) + self.held_back
        if total <= 0 and self.every is not None:  # nothing was exposed in the iteration at hand, but in others
            own = self.every.copy()
            own[_KERNEL] = 0.0
            total = float(own.sum())
        if total <= 0:
            own[_TRANSFER], total = 1.0, 1.0
        factor = network / total
        return replace(self, own=own * factor, queued=queued * factor, held_back=self.held_back * factor)


def exposure(scenario: Scenario, plan: Plan, iteration: Iteration) -> Exposure:
    """What compute waited for in one iteration."""
    spans = iteration.spans()
    compute = sorted((span for span in spans if span.stream == "compute"), key=lambda span: (span.start, span.end))
    exchanges = [span for span in spans if span.stream != "compute"]
    splitter, made = _Splitter(scenario, plan), Exposure()
    placed = _placed(exchanges)
    if not plan.live:
        made.every = np.sum([splitter.split(*placed[i]) for i in range(len(exchanges))] or [made.own], axis=0)
    of_bucket: dict[int, list[int]] = defaultdict(list)
    for number, span in enumerate(exchanges):
        of_bucket[span.bucket].append(number)
    for start, stop in _waits(compute, max((span.end for span in exchanges), default=0.0), plan):
        ending = _ends_at(exchanges, stop, iteration.time)
        if ending is None:
            made.held_back += stop - start
            continue
        made.waited_for.add(ending)
        own = _clipped(of_bucket[ending], exchanges, start, stop)
        for number, share in own:
            made.own += share * splitter.split(*placed[number])
        for low, high in _rest([exchanges[number] for number, _ in own], start, stop):
            others = _clipped(range(len(exchanges)), exchanges, low, high)
            made.before |= {exchanges[n].bucket for n, _ in others}
            busy = covered_time([(exchanges[n].start, exchanges[n].end) for n, _ in others], low, high)
            spent = sum((share * splitter.split(*placed[n]) for n, share in others), np.zeros(len(PARTS)))
            if spent.sum() > 0:
                made.queued += spent * (busy / spent.sum())
            made.held_back += high - low - busy
    return made


def _placed(exchanges: Sequence[Span]) -> list[tuple[int, int, float]]:
    """Bucket, place among the bucket's stages, and seconds of each span."""
    seen: dict[int, int] = defaultdict(int)
    placed: list[tuple[int, int, float]] = [(0, 0, 0.0)] * len(exchanges)
    for number in sorted(range(len(exchanges)), key=lambda i: (exchanges[i].start, exchanges[i].end, i)):
        span = exchanges[number]
        placed[number] = (span.bucket, seen[span.bucket], span.duration)
        seen[span.bucket] += 1
    return placed


def _waits(compute: Sequence[Span], last: float, plan: Plan) -> list[tuple[float, float]]:
    """Holes in the compute stream, up to the end of the last exchange.

    The wait for data before a gated forward pass is not one.
    """
    small = _SAME * max((span.end for span in compute), default=last)
    holes, now, loading = [], 0.0, plan.work.input_time if plan.scheduler.gated else 0.0
    for span in compute:
        if loading and span.label not in ("backward", "selection"):
            now, loading = now + loading, 0.0
        if span.start - now > small:
            holes.append((now, span.start))
        now = max(now, span.end)
    return [*holes, (now + loading, last)] if last - now - loading > small else holes


def _ends_at(exchanges: Sequence[Span], moment: float, time: float) -> int | None:
    """The bucket whose exchange ends then."""
    ending = [span for span in exchanges if abs(span.end - moment) <= _SAME * time]
    return max(ending, key=lambda span: span.duration).bucket if ending else None


def _clipped(numbers: Sequence[int], spans: Sequence[Span], start: float, stop: float) -> list[tuple[int, float]]:
    """Spans that reach into an interval, each with the share of it that does."""
    made = []
    for number in numbers:
        span = spans[number]
        inside = min(span.end, stop) - max(span.start, start)
        if inside > 0 and span.duration > 0:
            made.append((number, inside / span.duration))
    return made


def _rest(spans: Sequence[Span], start: float, stop: float) -> list[tuple[float, float]]:
    """What of an interval the spans leave free."""
    free, now = [], start
    for span in sorted(spans, key=lambda item: item.start):
        if span.start > now:
            free.append((now, min(span.start, stop)))
        now = max(now, span.end)
    if stop > now:
        free.append((now, stop))
    return [(low, high) for low, high in free if high > low]


class _Splitter:
    """Splits the seconds of a stage by pricing it again without latency, on the same links."""

    def __init__(self, scenario: Scenario, plan: Plan) -> None:
        self.scenario, self.plan = scenario, plan
        self.instant = without_latency(plan.wiring)
        self.known: dict[tuple[int, int], Floats] = {}
        self.chains = [(*chain, *half) for chain, half in zip(plan.work.chains, plan.work.halves, strict=True)]
        self.stages = [[*first, *second] for first, second in zip(plan.exchanges, plan.second_halves, strict=True)]
        self.start_up = np.zeros(len(plan.work.steps)) if plan.live else self._start_up()

    def _start_up(self) -> Floats:
        """Share of every step's price that goes with latency, by the link law."""
        plan, scenario = self.plan, self.scenario
        law = scenario.cluster.network.model_copy(update={"measured": ()})
        wires = NetworkSetup(scenario.topology, law, plan.wiring, scenario.fidelity, plan.disturbances)
        whole = price_steps(plan.work.steps, (), wires).seconds if plan.prices.curves else plan.prices.seconds
        bytes_only = price_steps(plan.work.steps, (), replace(wires, wiring=self.instant)).seconds
        return 1 - np.divide(bytes_only, whole, out=np.ones_like(whole), where=whole > 0)

    def split(self, bucket: int, place: int, seconds: float) -> Floats:
        """Seconds of one stage by `PARTS`; they sum to `seconds`."""
        stage = self.stages[bucket][place]
        if not stage.collective:
            return _only(_KERNEL, seconds)
        if (bucket, place) not in self.known:
            self.known[bucket, place] = self._meeting(stage) if self.plan.live else self._alone(bucket, place)
        parts = self.known[bucket, place]
        total = float(parts.sum())
        if total <= 0:
            return _only(_TRANSFER, seconds)
        if seconds > total * (1 + _SAME):
            parts = parts.copy()
            parts[_SHARING] = seconds - total
            return parts
        return parts * (seconds / total)

    def _alone(self, bucket: int, place: int) -> Floats:
        item = self.chains[bucket][place]
        if isinstance(item, Kernel):
            return _only(_KERNEL, item.seconds)
        priced = float(self.plan.prices.seconds[item])
        made = _only(_START_UP, priced * float(self.start_up[item]))
        made[_TRANSFER] = priced - made[_START_UP]
        made[_SOFTWARE] = self.stages[bucket][place].seconds - priced
        return made

    def _meeting(self, stage: Stage) -> Floats:
        """A stage whose rounds share links with others, as if it had them to itself."""
        overhead = self.plan.runtime.message_overhead
        whole = self._folded(stage, self.plan.wiring, overhead)
        bare = self._folded(stage, self.plan.wiring, 0.0) if overhead else whole
        bytes_only = self._folded(stage, self.instant, 0.0)
        made = _only(_START_UP, bare - bytes_only)
        made[_TRANSFER], made[_SOFTWARE] = bytes_only, stage.seconds + whole - bare
        return made

    @staticmethod
    def _folded(stage: Stage, wiring: Wiring, overhead: float) -> float:
        return float(fold(stage.rounds or [], wiring, np.zeros(len(wiring.node)), overhead=overhead).max())


def _only(part: int, seconds: float) -> Floats:
    made = np.zeros(len(PARTS))
    made[part] = seconds
    return made


def without_latency(wiring: Wiring) -> Wiring:
    """The same links, every message arriving as it leaves."""

    def instant(route: Route) -> Route:
        return route._replace(latency=np.zeros_like(route.latency))

    def across(src: Ints, dst: Ints) -> Route:
        return instant(wiring.across(src, dst))

    def inside(src: Ints, dst: Ints) -> Route:
        return instant(wiring.inside(src, dst))

    return replace(wiring, across=across, inside=inside)
