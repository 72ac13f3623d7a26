"""Drawing iterations on tracks: slices of spans, arrows between them, and counters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from simulator.engine.plan.plan import Plan
from simulator.errors import InputError, Problem
from simulator.models.curves import Floats
from simulator.models.sharding import AXIS_OF
from simulator.models.timeline import Arrow, Counter, Iteration, Slice, Span, Track, number_stages
from simulator.prediction.run import Prediction
from simulator.records import Struct, field, replace
from simulator.reporting.timeline.counters import Points, link_points, sum_intervals
from simulator.reporting.timeline.stage_traffic import StageTraffic

MOST_SLICES = 300_000
COMMUNICATION, KERNEL, QUEUED = "communication", "exchange kernel", "waiting for links"
"""Categories of slices on communication streams; those on compute streams are the terms of the breakdown. An exchange
that queues behind others before its first message gets its links is two slices."""
_LEFT_OUT = "left out"
_TRAINING, _NETWORK = "training", "network"
_NAMED = 3
_NO_DETAILS: Mapping[str, float] = {}
_SAME = 1e-9
"""Share of an iteration by which two times may differ and still count as the same."""


class Drawing(Struct, dict=True):
    """What is drawn so far: tracks by group and name, arrows, and the exchanges of each iteration with their bytes."""

    prediction: Prediction
    traffic: StageTraffic
    workers: dict[int, str]
    tracks: dict[tuple[str, str], Track] = field(default_factory=dict)
    numbers: dict[tuple[str, str], int] = field(default_factory=dict)
    arrows: list[Arrow] = field(default_factory=list)
    exchanges: dict[int, list[tuple[Span, float, Floats]]] = field(default_factory=dict)
    slices: int = 0

    @property
    def plan(self) -> Plan:
        return self.prediction.plan

    def iteration(self, number: int) -> Iteration:
        """A counted iteration; where all iterations are alike, one represents all."""
        kept = self.prediction.iterations
        return kept[min(number, len(kept) - 1)]

    def start_of(self, number: int) -> float:
        """When a counted iteration starts, in seconds after the first one."""
        kept = self.prediction.iterations
        if len(kept) == 1:
            return number * kept[0].time
        if kept[-1].start:
            return kept[number].start - kept[0].start
        return sum(item.time for item in kept[:number])

    def draw_iteration(self, number: int) -> None:
        """Draw one iteration of every chosen worker."""
        iteration, base = self.iteration(number), self.start_of(number)
        for worker, group in self.workers.items():
            spans = iteration.spans_of(worker)
            compute = [span for span in spans if span.stream == "compute"]
            exchanges = number_stages([span for span in spans if span.stream != "compute"])
            self.exchanges[number] = sent = []
            self._count_slices(len(spans))
            computed = [(span, self._add_slice((group, "compute"), base, span, span.term)) for span in compute]
            targets: dict[int, tuple[int, float]] = {}
            for (span, place), lane in zip(exchanges, _assign_lanes([span for span, _ in exchanges]), strict=True):
                name = COMMUNICATION if lane == 0 else f"{COMMUNICATION} {lane + 1}"
                kernel = span.stream != COMMUNICATION
                if kernel:
                    self._add_slice((group, name), base, span, KERNEL)
                    continue
                exchange = replace(span, start=self.traffic.queued_until(span, place))
                total, on_links = self.traffic.bytes_of(span, place)
                sent.append((exchange, total, on_links))
                if exchange.start > span.start:
                    self._count_slices(1)
                    self._add_slice((group, name), base, replace(span, label=QUEUED, end=exchange.start), QUEUED)
                at = self._add_slice((group, name), base, exchange, COMMUNICATION, {"bytes_sent_by_all": total})
                if span.label not in AXIS_OF:
                    targets.setdefault(span.bucket, at)
            self._add_arrows(computed, targets)

    def _add_slice(
        self,
        key: tuple[str, str],
        base: float,
        span: Span,
        category: str,
        more: Mapping[str, float] = _NO_DETAILS,
    ) -> tuple[int, float]:
        """Add a slice to its track; returns the number of the track and the start of the slice."""
        if key not in self.tracks:
            self.tracks[key] = Track(*key)
            self.numbers[key] = len(self.tracks)  # 0 is the track of the iterations
        slices = self.tracks[key].slices
        # Equal times may differ by rounding, since they were added up in different orders.
        start = max(base + span.start, slices[-1].end if slices else 0.0)
        label = span.label if span.bucket < 0 else f"{span.label}, bucket {span.bucket}"
        more = {"slowed_by_communication_s": span.slowed, **more} if span.slowed else more
        slices.append(Slice(label, start, max(start, base + span.end), category, {**self._details(span), **more}))
        return self.numbers[key], start

    def _details(self, span: Span) -> Mapping[str, Any]:
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
            "gradient_bytes": bucket.value_bytes * bucket.numel,
        }
        if span.stream != "compute":
            details["selected_density"] = float(selection.selected.mean()) / bucket.numel
            details["aggregated_density"] = selection.aggregated / bucket.numel
        return details

    def _add_arrows(
        self, computed: Sequence[tuple[Span, tuple[int, float]]], targets: dict[int, tuple[int, float]]
    ) -> None:
        """Add arrows from the slice that makes a bucket ready on a worker to its first collective."""
        ready: dict[int, tuple[int, float]] = {}
        for span, at in computed:
            if span.label in ("backward", "selection") and at[1] <= targets.get(span.bucket, at)[1]:
                ready[span.bucket] = at
        source = None
        for bucket in sorted({*ready, *targets}):
            source = ready.get(bucket, source)  # without a backward pass of its own it is ready with the one before
            if source is not None and bucket in targets:
                self.arrows.append(Arrow(f"gradient of bucket {bucket}", source, targets[bucket]))

    def _count_slices(self, slices: int) -> None:
        self.slices += slices
        if self.slices > MOST_SLICES:
            hint = "choose fewer workers (--workers 0) or iterations (--iterations 0)"
            raise InputError(Problem("timeline", f"at most {MOST_SLICES:,} slices", "more", hint))

    def iteration_track(self, shown: Sequence[int]) -> Track:
        """The track of the iterations, with those between them that are not drawn."""
        track = Track(_TRAINING, "iterations")
        for place, number in enumerate(shown):
            start, iteration = self.start_of(number), self.iteration(number)
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
        """Counters of bytes in flight, density and utilisation of links, in the iterations that are drawn."""
        links = self.traffic.links.tolist()
        flight: Points = []
        density: Points = []
        used: list[Points] = [[] for _ in links]
        for number, exchanges in sorted(self.exchanges.items()):
            iteration, base = self.iteration(number), self.start_of(number)
            sent = [exchange for exchange in exchanges if exchange[1]]
            _append_points(
                flight, sum_intervals([(s.start, s.end, total) for s, total, _ in sent], iteration.time), base
            )
            _append_points(density, self._densities([span for span, _, _ in sent], iteration.time), base)
            for place, link in enumerate(links):
                points = link_points(iteration, self.plan, link)
                if not points:
                    width = float(self.plan.wiring.capacity[link])
                    shares = [(s.start, s.end, on[place] / width / s.duration) for s, _, on in sent if s.duration > 0]
                    points = sum_intervals(shares, iteration.time)
                _append_points(used[place], points, base)
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


def _append_points(into: Points, points: Iterable[tuple[float, tuple[float, ...]]], base: float) -> None:
    """Add an iteration's points. Where two iterations meet, equal times may differ by rounding."""
    for moment, values in points:
        into.append((max(base + moment, into[-1][0] if into else 0.0), values))


def _assign_lanes(spans: Sequence[Span]) -> list[int]:
    """The first lane that is free for each span, in the order of time."""
    free_at: list[float] = []
    kept = []
    for span in spans:
        slack = _SAME * (1.0 + span.start) * 1e-3
        lane = next((i for i, free in enumerate(free_at) if free <= span.start + slack), len(free_at))
        if lane == len(free_at):
            free_at.append(0.0)
        free_at[lane] = span.end
        kept.append(lane)
    return kept
