"""A scenario's iterations as a timeline: a track per worker and stream, arrows, and counters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from simulator.engine.plan.plan import Plan
from simulator.errors import InputError, Problem
from simulator.models.layers import VALUE_BYTES
from simulator.models.timeline import Iteration, Span
from simulator.models.tracks import Arrow, Counter, Slice, Timeline, Track
from simulator.prediction.run import Prediction, run
from simulator.reporting.timeline.counters import Points, link_points, stepwise
from simulator.reporting.timeline.stage_traffic import StageTraffic, busiest_links
from simulator.scenario.scenario import Scenario

LINKS = 8
MOST_SLICES = 300_000
COMMUNICATION, KERNEL = "communication", "exchange kernel"
"""Categories of slices on communication streams; those on compute streams are the terms of the breakdown."""
_LEFT_OUT = "left out"
_TRAINING, _NETWORK = "training", "network"
_NAMED = 3
NOTHING_MORE: Mapping[str, float] = {}
_SAME = 1e-9
"""Of an iteration: what two times may differ by that are the same."""


def timeline(
    scenario: Scenario,
    workers: Sequence[int] | None = None,
    iterations: Sequence[int] | None = None,
    links: int = LINKS,
) -> Timeline:
    """Run a scenario and draw some of its workers and counted iterations, both numbered from 0.

    Default: worker 0, the first and the last that were through with their own part in the last iteration (worker 0
    alone where all are alike), and the first and the last iteration. `links`: how many have counters, busiest first.
    Raises InputError for numbers that there are not, and for more than `MOST_SLICES` slices.
    """
    count = scenario.iterations
    shown = sorted({0, count - 1} if iterations is None else set(iterations))
    _check("iterations", shown, count, "counted iterations, without the warm-up, are numbered from 0")
    _check("workers", workers or (), scenario.cluster.workers, "workers are numbered from 0")
    prediction = run(scenario, keep_iterations=True)
    if len(prediction.iterations) == 1 and iterations is None:
        shown = [0]
    traffic = StageTraffic(scenario, prediction.plan, busiest_links(prediction.plan, links))
    drawn = _Drawn(prediction, traffic, _chosen(prediction, workers))
    for number in shown:
        drawn.add(number)
    tracks = [drawn.iterations(shown), *drawn.tracks.values()]
    return Timeline(tracks, drawn.arrows, drawn.counters(), _about(prediction, shown, drawn))


def _check(option: str, numbers: Sequence[int], count: int, hint: str) -> None:
    wrong = [number for number in numbers if not 0 <= number < count]
    if wrong:
        raise InputError(Problem(f"--{option}", f"numbers from 0 to {count - 1}", ", ".join(map(str, wrong)), hint))


def _chosen(prediction: Prediction, workers: Sequence[int] | None) -> dict[int, str]:
    """The workers that are drawn, and what they are called."""
    computed, count = prediction.iteration.computed(), prediction.scenario.cluster.workers
    if len(computed) == 1:
        alike = f" (all {count} are alike)" if count > 1 else ""
        return {worker: f"worker {worker}{alike}" for worker in sorted(set(workers or (0,)))}
    known = {int(computed.argmin()): " (first to finish its own part)", int(computed.argmax()): " (last to do so)"}
    numbers = {0, *known} if workers is None else set(workers)
    return {worker: f"worker {worker}{known.get(worker, '')}" for worker in sorted(numbers)}


def _about(prediction: Prediction, shown: Sequence[int], drawn: _Drawn) -> dict[str, Any]:
    document = prediction.document
    kept = ("scenario", "digest", "versions", "seed", "iteration_time_s", "breakdown_s", "fidelity", "warnings")
    times = {number: drawn.iteration(number).time for number in shown}
    drawn_times = {"workers_drawn": list(drawn.workers), "iterations_drawn_s": times}
    return {key: document[key] for key in kept} | {"workers": document["workers"], **drawn_times}


@dataclass
class _Drawn:
    """What has been drawn: tracks by group and name, arrows, and the spans of exchanges of each iteration."""

    prediction: Prediction
    traffic: StageTraffic
    workers: dict[int, str]
    tracks: dict[tuple[str, str], Track] = field(default_factory=dict)
    numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    arrows: list[Arrow] = field(default_factory=list)
    exchanges: dict[int, list[tuple[Span, int]]] = field(default_factory=dict)
    slices: int = 0

    @property
    def plan(self) -> Plan:
        return self.prediction.plan

    def iteration(self, number: int) -> Iteration:
        """A counted iteration; where all workers are alike, one stands for all."""
        made = self.prediction.iterations
        return made[min(number, len(made) - 1)]

    def offset(self, number: int) -> float:
        """When a counted iteration starts, in seconds after the first one."""
        made = self.prediction.iterations
        if len(made) == 1:
            return number * made[0].time
        if made[-1].start:
            return made[number].start - made[0].start
        return sum(item.time for item in made[:number])

    def add(self, number: int) -> None:
        """Draw one iteration of every chosen worker."""
        iteration, base = self.iteration(number), self.offset(number)
        for worker, group in self.workers.items():
            spans = iteration.spans_of(worker)
            compute = [span for span in spans if span.stream == "compute"]
            exchanges = _placed([span for span in spans if span.stream != "compute"])
            self.exchanges[number] = exchanges
            self._count(len(spans))
            for span in compute:
                self._put((group, "compute"), base, span, span.term)
            targets: dict[int, tuple[int, float]] = {}
            for (span, place), lane in zip(exchanges, _lanes([span for span, _ in exchanges]), strict=True):
                name = COMMUNICATION if lane == 0 else f"{COMMUNICATION} {lane + 1}"
                kernel = span.stream != COMMUNICATION
                sent = {} if kernel else {"bytes_sent_by_all": self.traffic.of(span.bucket, place)[0]}
                at = self._put((group, name), base, span, KERNEL if kernel else COMMUNICATION, sent)
                if not kernel:
                    targets.setdefault(span.bucket, at)
            self._point(group, base, compute, targets)

    def _put(
        self,
        key: tuple[str, str],
        base: float,
        span: Span,
        category: str,
        more: Mapping[str, float] = NOTHING_MORE,
    ) -> tuple[int, float]:
        """A slice on its track; which track, and where it starts there."""
        if key not in self.tracks:
            self.tracks[key] = Track(*key)
            self.numbers[key] = len(self.tracks)  # 0 is the track of the iterations
        slices = self.tracks[key].slices
        # Times that are the same have been added up in another order.
        start = max(base + span.start, slices[-1].end if slices else 0.0)
        label = span.label if span.bucket < 0 else f"{span.label}, bucket {span.bucket}"
        slices.append(Slice(label, start, max(start, base + span.end), category, {**self._details(span), **more}))
        return self.numbers[key], start

    def _details(self, span: Span) -> dict[str, Any]:
        layers, work = self.prediction.scenario.workload.layers, self.plan.work
        if span.bucket < 0:
            return {"tensor": layers[span.layer].name} if span.layer >= 0 else {}
        bucket, selection = work.buckets[span.bucket], work.selections[span.bucket]
        names = [layers[layer].name for layer in bucket.layers[:_NAMED]]
        more = len(bucket.layers) - len(names)
        details: dict[str, Any] = {
            "bucket": span.bucket,
            "tensors": ", ".join(names) + (f" and {more} more" if more else ""),
            "elements": bucket.numel,
            "gradient_bytes": VALUE_BYTES * bucket.numel,
        }
        if span.stream != "compute":
            details["selected_density"] = float(selection.selected.mean()) / bucket.numel
            details["aggregated_density"] = selection.aggregated / bucket.numel
        return details

    def _point(self, group: str, base: float, compute: Sequence[Span], targets: dict[int, tuple[int, float]]) -> None:
        """Arrows from what makes a bucket ready on a worker to its first collective."""
        track = self.numbers[group, "compute"]
        made = [place for place, span in enumerate(compute) if span.label in ("backward", "selection")]
        before = compute[: made[-1] + 1] if made else []
        last = -1
        for bucket, target in sorted(targets.items()):
            # Where a bucket has no backward pass of its own, it came out of what was before.
            while last + 1 < len(before) and before[last + 1].bucket <= bucket:
                last += 1
            if last >= 0:
                self.arrows.append(Arrow(f"gradient of bucket {bucket}", (track, base + before[last].start), target))

    def _count(self, slices: int) -> None:
        self.slices += slices
        if self.slices > MOST_SLICES:
            hint = "choose fewer workers (--workers 0) or iterations (--iterations 0)"
            raise InputError(Problem("timeline", f"at most {MOST_SLICES:,} slices", "more", hint))

    def iterations(self, shown: Sequence[int]) -> Track:
        """The track of the iterations, those that are left out between them included."""
        track = Track(_TRAINING, "iterations")
        for place, number in enumerate(shown):
            start, iteration = self.offset(number), self.iteration(number)
            if place and number > shown[place - 1] + 1:
                before = shown[place - 1] + 1
                name = f"iterations {before} to {number - 1}" if number - 1 > before else f"iteration {before}"
                end = track.slices[-1].end
                track.slices.append(Slice(f"{name}, not drawn", end, max(end, start), _LEFT_OUT))
            start = max(start, track.slices[-1].end if track.slices else 0.0)
            alike = len(self.prediction.iterations) == 1 and self.prediction.scenario.iterations > 1
            terms = {f"{term}_s": value for term, value in iteration.breakdown.items()}
            name = f"iteration {number}" + (" (all are alike)" if alike else "")
            track.slices.append(Slice(name, start, start + iteration.time, "iteration", terms))
        return track

    def counters(self) -> list[Counter]:
        """Bytes in flight, density, and the links' utilisation, in the iterations that are drawn."""
        traffic, links = self.traffic, self.traffic.links.tolist()
        flight: Points = []
        density: Points = []
        used: list[Points] = [[] for _ in links]
        for number, exchanges in sorted(self.exchanges.items()):
            iteration, base = self.iteration(number), self.offset(number)
            sent = [(span, *traffic.of(span.bucket, place)) for span, place in exchanges]
            sent = [(span, total, on) for span, total, on in sent if total]
            _append(flight, stepwise([(s.start, s.end, total) for s, total, _ in sent], iteration.time), base)
            _append(density, self._densities([span for span, _, _ in sent], iteration.time), base)
            for place, link in enumerate(links):
                points = link_points(iteration, self.plan, link)
                if not points:
                    width = float(self.plan.wiring.capacity[link])
                    shares = [(s.start, s.end, on[place] / width / s.duration) for s, _, on in sent if s.duration > 0]
                    points = stepwise(shares, iteration.time)
                _append(used[place], points, base)
        mean = "" if self.prediction.iteration.link_use else " (mean over each exchange)"
        names = [f"{self.plan.wiring.names[link]}{mean}" for link in links]
        return [
            Counter(_NETWORK, "in flight", ("bytes",), flight),
            Counter(_NETWORK, "density", ("selected", "aggregated"), density),
            *(Counter(_NETWORK, name, ("utilisation",), at) for name, at in zip(names, used, strict=True)),
        ]

    def _densities(self, spans: Sequence[Span], end: float) -> Iterator[tuple[float, tuple[float, ...]]]:
        """Selected and aggregated density of the bucket whose exchange started last."""
        for span in sorted(spans, key=lambda span: span.start):
            details = self._details(span)
            yield span.start, (details["selected_density"], details["aggregated_density"])
        yield end, (0.0, 0.0)


def _append(made: Points, points: Iterable[tuple[float, tuple[float, ...]]], base: float) -> None:
    """Add an iteration's points. Where two iterations meet, times have been added up in another order."""
    for moment, values in points:
        made.append((max(base + moment, made[-1][0] if made else 0.0), values))


def _placed(exchanges: Sequence[Span]) -> list[tuple[Span, int]]:
    """Spans of exchanges in the order of time, each with its place among its bucket's."""
    seen: dict[int, int] = defaultdict(int)
    placed = []
    for span in sorted(exchanges, key=lambda span: (span.start, span.end)):
        placed.append((span, seen[span.bucket]))
        seen[span.bucket] += 1
    return placed


def _lanes(spans: Sequence[Span]) -> list[int]:
    """The first lane that is free for each span, in the order of time."""
    free_at: list[float] = []
    made = []
    for span in spans:
        slack = _SAME * (1.0 + span.start) * 1e-3
        lane = next((i for i, free in enumerate(free_at) if free <= span.start + slack), len(free_at))
        if lane == len(free_at):
            free_at.append(0.0)
        free_at[lane] = span.end
        made.append(lane)
    return made
