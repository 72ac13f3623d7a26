"""A scenario's iterations as a timeline: slices of spans on a track per worker and stream, arrows, and counters.

It is written in Chrome's Trace Event Format (JSON), which Perfetto (https://ui.perfetto.dev) and others open. Times are
in microseconds. Every group of tracks is a process and every track a thread of it, named by metadata events (`M`);
slices are complete events (`X`), arrows pairs of flow events (`s`, `f`) that bind to the slices around them, and
counters counter events (`C`). Perfetto cuts times to whole nanoseconds; the file has all digits.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import nextafter
from typing import Any

import numpy as np

from simulator.errors import InputError, Problem
from simulator.models.curves import Floats
from simulator.models.sharding import AXIS_OF
from simulator.models.timeline import Iteration, Span, number_stages
from simulator.prediction.run import Prediction, run
from simulator.records import Record, Struct, field, replace
from simulator.reporting.timeline.stage_traffic import StageTraffic
from simulator.scenario.scenario import Scenario

MOST = 4000
"""Points of one counter in one iteration; more are averaged over equal intervals, which keeps their integral."""
Points = list[tuple[float, tuple[float, ...]]]
Track = tuple[str, str]
Place = tuple[Track, float]


def sum_intervals(intervals: Iterable[tuple[float, float, float]], end: float) -> Points:
    """The sum of values that each hold from a start to an end; 0 before the first one and from `end` on.

    >>> sum_intervals([(0, 2, 1.0), (1, 3, 5.0)], 4)
    [(0, (1.0,)), (1, (6.0,)), (2, (5.0,)), (3, (0.0,))]
    """
    changes: dict[float, tuple[float, int]] = {0: (0.0, 0), end: (0.0, 0)}
    for start, stop, value in intervals:
        for moment, by, count in ((start, value, 1), (stop, -value, -1)):
            known = changes.get(moment, (0.0, 0))
            changes[moment] = (known[0] + by, known[1] + count)
    made: Points = []
    total, open_ones = 0.0, 0
    for moment in sorted(changes):
        total, open_ones = total + changes[moment][0], open_ones + changes[moment][1]
        total = total if open_ones else 0.0  # what is left is a rounding error
        if not made or made[-1][1][0] != total:
            made.append((moment, (total,)))
    return made


def cut_points(times: Floats, values: Floats, end: float) -> Points:
    """Values that hold from their times on, cut to [0, end] and to `MOST` points, with 0 at the end.

    >>> cut_points(np.array([0.0, 1.0, 2.0]), np.array([1.0, 1.0, 0.5]), 4.0)
    [(0.0, (1.0,)), (2.0, (0.5,)), (4.0, (0.0,))]
    """
    before = np.searchsorted(times, 0.0, side="right") - 1
    first = float(values[before]) if before >= 0 else 0.0
    inside = (times > 0.0) & (times < end)
    times, values = np.append(0.0, times[inside]), np.append(first, values[inside])
    if len(times) > MOST:
        bounds = np.linspace(0.0, end, MOST + 1)
        area = np.append(0.0, np.cumsum(values * np.diff(times, append=end)))
        values = np.diff(np.interp(bounds, np.append(times, end), area)) / np.diff(bounds)
        times = bounds[:-1]
    changed = np.diff(values, prepend=np.nan) != 0
    points: Points = [
        (time, (value,)) for time, value in zip(times[changed].tolist(), values[changed].tolist(), strict=True)
    ]
    return points if not points or points[-1][1] == (0.0,) else [*points, (end, (0.0,))]


MOST_SLICES = 300_000
COMMUNICATION, KERNEL, QUEUED = "communication", "exchange kernel", "waiting for links"
"""Categories of slices on communication streams; those on compute streams are the terms of the breakdown. An exchange
that queues behind others before its first message gets its links is two slices."""
_ITERATIONS, _NETWORK = ("training", "iterations"), "network"
_NAMED = 3
_NO_DETAILS: Mapping[str, float] = {}
_SAME = 1e-9
"""Share of an iteration by which two times may differ and still count as the same."""


class Slice(Record):
    """One activity on a track, in seconds; `category` groups slices for sums."""

    name: str
    start: float
    end: float
    category: str
    details: Mapping[str, Any] = {}


class Timeline(Struct, dict=True):
    """What is drawn so far of the iterations `shown`, beside the exchanges of each iteration with their bytes.

    `tracks`: slices, which never overlap, by group and name. `arrows`: a bucket, then the track and the start of the
    slices that its arrow leaves and enters.
    """

    prediction: Prediction
    traffic: StageTraffic
    workers: dict[int, str]
    shown: Sequence[int]
    tracks: dict[Track, list[Slice]] = field(default_factory=lambda: {_ITERATIONS: []})
    arrows: list[tuple[int, Place, Place]] = field(default_factory=list)
    exchanges: dict[int, list[tuple[Span, float, Floats]]] = field(default_factory=dict)
    slices: int = 0

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

    def _draw_iteration(self, number: int) -> None:
        """Draw one iteration of every chosen worker."""
        iteration, base = self.iteration(number), self.start_of(number)
        for worker, group in self.workers.items():
            spans = iteration.spans_of(worker)
            compute = [span for span in spans if span.stream == "compute"]
            exchanges = number_stages([span for span in spans if span.stream != "compute"])
            self.exchanges[number] = sent = []
            self._count_slices(len(spans))
            computed = [(span, self._add_slice((group, "compute"), base, span, span.term)) for span in compute]
            targets: dict[int, Place] = {}
            for (span, place), lane in zip(exchanges, _assign_lanes([span for span, _ in exchanges]), strict=True):
                name = COMMUNICATION if lane == 0 else f"{COMMUNICATION} {lane + 1}"
                if span.stream != COMMUNICATION:
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
        self, track: Track, base: float, span: Span, category: str, more: Mapping[str, float] = _NO_DETAILS
    ) -> Place:
        """Add a slice to a track; returns the track and the start of the slice."""
        slices = self.tracks.setdefault(track, [])
        # Equal times may differ by rounding, since they were added up in different orders.
        start = max(base + span.start, slices[-1].end if slices else 0.0)
        label = span.label if span.bucket < 0 else f"{span.label}, bucket {span.bucket}"
        more = {"slowed_by_communication_s": span.slowed, **more} if span.slowed else more
        slices.append(Slice(label, start, max(start, base + span.end), category, {**self._details(span), **more}))
        return track, start

    def _details(self, span: Span) -> Mapping[str, Any]:
        layers, work = self.prediction.scenario.workload.layers, self.prediction.plan.work
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

    def _add_arrows(self, computed: Sequence[tuple[Span, Place]], targets: dict[int, Place]) -> None:
        """Add arrows from the slice that makes a bucket ready on a worker to its first collective."""
        ready: dict[int, Place] = {}
        for span, at in computed:
            if span.label in ("backward", "selection") and at[1] <= targets.get(span.bucket, at)[1]:
                ready[span.bucket] = at
        source = None
        for bucket in sorted({*ready, *targets}):
            source = ready.get(bucket, source)  # without a backward pass of its own it is ready with the one before
            if source is not None and bucket in targets:
                self.arrows.append((bucket, source, targets[bucket]))

    def _count_slices(self, slices: int) -> None:
        self.slices += slices
        if self.slices > MOST_SLICES:
            hint = "choose fewer workers (--workers 0) or iterations (--iterations 0)"
            raise InputError(Problem("timeline", f"at most {MOST_SLICES:,} slices", "more", hint))

    def draw(self) -> None:
        """Draw what is shown, and the track of the iterations, with those between them that are not drawn."""
        slices = self.tracks[_ITERATIONS]
        alike = len(self.prediction.iterations) == 1 and self.prediction.scenario.iterations > 1
        for before, number in zip([self.shown[0] - 1, *self.shown], self.shown, strict=False):
            start, iteration, end = self.start_of(number), self.iteration(number), slices[-1].end if slices else 0.0
            if number > before + 1:
                name = f"iterations {before + 1} to {number - 1}" if number > before + 2 else f"iteration {number - 1}"
                slices.append(Slice(f"{name}, not drawn", end, max(end, start), "left out"))
            start = max(start, slices[-1].end if slices else 0.0)
            terms = {f"{term}_s": value for term, value in iteration.breakdown.items()}
            name = f"iteration {number}" + (" (all are alike)" if alike else "")
            slices.append(Slice(name, start, start + iteration.time, "iteration", terms))
            self._draw_iteration(number)

    def counters(self) -> Iterator[tuple[str, tuple[str, ...], Points]]:
        """Bytes in flight, density and utilisation of links in the iterations that are drawn: the name of a counter, of
        its series, and the values of these from a time on."""
        links, wiring = self.traffic.links.tolist(), self.prediction.plan.wiring
        flight: Points = []
        density: Points = []
        used: list[Points] = [[] for _ in links]
        for number, exchanges in sorted(self.exchanges.items()):
            iteration, base = self.iteration(number), self.start_of(number)
            sent, use = [each for each in exchanges if each[1]], iteration.link_use and iteration.link_use()
            _append_points(
                flight, sum_intervals([(s.start, s.end, total) for s, total, _ in sent], iteration.time), base
            )
            _append_points(density, self._densities([span for span, _, _ in sent], iteration.time), base)
            for place, link in enumerate(links):
                width = float(wiring.capacity[link])
                if use is None:
                    shares = [(s.start, s.end, on[place] / width / s.duration) for s, _, on in sent if s.duration > 0]
                    points = sum_intervals(shares, iteration.time)
                else:
                    points = cut_points(
                        use.times - iteration.start, use.rates[:, int(use.of_link[link])] / width, iteration.time
                    )
                _append_points(used[place], points, base)
        yield "in flight", ("bytes",), flight
        yield "density", ("selected", "aggregated"), density
        mean = "" if self.prediction.iteration.link_use else " (mean over each exchange)"
        yield from ((f"{wiring.names[link]}{mean}", ("utilisation",), at) for link, at in zip(links, used, strict=True))

    def _densities(self, spans: Sequence[Span], end: float) -> Iterator[tuple[float, tuple[float, ...]]]:
        """Selected and aggregated density of the bucket whose exchange started last."""
        for span in sorted(spans, key=lambda span: span.start):
            details = self._details(span)
            yield span.start, (details["selected_density"], details["aggregated_density"])
        yield end, (0.0, 0.0)

    @property
    def about(self) -> Mapping[str, Any]:
        """What is drawn, of which prediction."""
        document = self.prediction.document
        kept = ("scenario", "digest", "versions", "seed", "iteration_time_s", "breakdown_s", "fidelity", "warnings")
        times = {number: self.iteration(number).time for number in self.shown}
        drawn = {"workers_drawn": list(self.workers), "iterations_drawn_s": times}
        return {key: document[key] for key in (*kept, "workers")} | drawn


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


LINKS = 8


def timeline(
    scenario: Scenario,
    workers: Sequence[int] | None = None,
    iterations: Sequence[int] | None = None,
    links: int = LINKS,
) -> Timeline:
    """Run a scenario and draw some of its workers and counted iterations, both numbered from 0.

    Default: worker 0 and the first and the last worker to finish their own part in the last iteration (only worker 0
    where all are alike), and the first and the last iteration. `links`: how many have counters, busiest first.
    Raises InputError for unknown workers or iterations, and for more than `MOST_SLICES` slices.
    """
    count = scenario.iterations
    shown = sorted({0, count - 1} if iterations is None else set(iterations))
    _check("iterations", shown, count, "counted iterations, without the warm-up, are numbered from 0")
    _check("workers", workers or (), scenario.cluster.workers, "workers are numbered from 0")
    prediction = run(scenario, keep_iterations=True)
    if len(prediction.iterations) == 1 and iterations is None:
        shown = [0]
    plan = prediction.plan
    traffic = StageTraffic(scenario, plan, plan.wiring.busiest_links(plan.prices.traffic.links, links))
    drawn = Timeline(prediction, traffic, _name_workers(prediction, workers), shown)
    drawn.draw()
    return drawn


def _check(option: str, numbers: Sequence[int], count: int, hint: str) -> None:
    wrong = [number for number in numbers if not 0 <= number < count]
    if wrong:
        raise InputError(Problem(f"--{option}", f"numbers from 0 to {count - 1}", ", ".join(map(str, wrong)), hint))


def _name_workers(prediction: Prediction, workers: Sequence[int] | None) -> dict[int, str]:
    """The workers that are drawn, each with its name on the timeline."""
    computed, count = prediction.iteration.computed(), prediction.scenario.cluster.workers
    if len(computed) == 1:
        alike = f" (all {count} are alike)" if count > 1 else ""
        return {worker: f"worker {worker}{alike}" for worker in sorted(set(workers or (0,)))}
    known = {
        int(computed.argmin()): " (first to finish its own part)",
        int(computed.argmax()): " (last to finish its own part)",
    }
    numbers = {0, *known} if workers is None else set(workers)
    return {worker: f"worker {worker}{known.get(worker, '')}" for worker in sorted(numbers)}


_MICRO = 1e6


def trace_bytes(timeline: Timeline, compressed: bool = True) -> bytes:
    """The file's content; the same timeline gives the same bytes."""
    document = {
        "traceEvents": list(_events(timeline)),
        "displayTimeUnit": "ms",
        "otherData": timeline.about,
    }
    text = json.dumps(document, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return gzip.compress(text.encode(), mtime=0) if compressed else text.encode()


def _events(timeline: Timeline) -> Iterator[dict[str, Any]]:
    groups = dict.fromkeys([_ITERATIONS[0], _NETWORK, *(group for group, _ in timeline.tracks)])
    process = {group: number for number, group in enumerate(groups, 1)}
    for group, pid in process.items():
        yield {"ph": "M", "pid": pid, "name": "process_name", "args": {"name": group}}
        yield {"ph": "M", "pid": pid, "name": "process_sort_index", "args": {"sort_index": pid}}
    places = {track: {"pid": process[track[0]], "tid": tid} for tid, track in enumerate(timeline.tracks, 1)}
    for track, place in places.items():
        yield {"ph": "M", **place, "name": "thread_name", "args": {"name": track[1]}}
        yield {"ph": "M", **place, "name": "thread_sort_index", "args": {"sort_index": place["tid"]}}
    for track, slices in timeline.tracks.items():
        yield from ({"ph": "X", **places[track], **_slice_event(each)} for each in slices)
    for number, (bucket, (source, left), (target, arrives)) in enumerate(timeline.arrows, 1):
        common = {"cat": "gradient", "name": f"gradient of bucket {bucket}", "id": number}
        yield {"ph": "s", **places[source], "ts": left * _MICRO, **common}
        yield {"ph": "f", "bp": "e", **places[target], "ts": arrives * _MICRO, **common}
    for name, series, points in timeline.counters():
        for moment, values in points:
            counted = {"ts": moment * _MICRO, "args": dict(zip(series, values, strict=True))}
            yield {"ph": "C", "pid": process[_NETWORK], "name": name, **counted}


def _slice_event(item: Slice) -> Mapping[str, Any]:
    start, end = item.start * _MICRO, item.end * _MICRO
    # A reader adds the two up again, and may first cut each to nanoseconds; neither may reach into the next slice.
    cut = int(end * 1e3) - int(start * 1e3)
    duration = end - start
    if int(duration * 1e3) > cut:
        duration = cut / 1e3
    while start + duration > end:  # by the last digit
        duration = nextafter(duration, 0.0)
    made = {"name": item.name, "cat": item.category, "ts": start, "dur": duration}
    return made | {"args": item.details} if item.details else made
