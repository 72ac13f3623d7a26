"""Where along an axis one method is faster than another: of every method against dense, by bandwidth and workers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from simulator.errors import InputError
from simulator.prediction.doubts.spread import compare_spreads
from simulator.prediction.run import plan_of
from simulator.progress import Watch
from simulator.records import Record, replace
from simulator.reporting.answers.advised import BreakEven
from simulator.scenario.bandwidths import bandwidth_key
from simulator.scenario.changes import value_at, without_measured_collectives, without_randomness
from simulator.scenario.scenario import Scenario
from simulator.studies.advice.candidates import Candidate, dense_candidate
from simulator.studies.advice.search import Combination
from simulator.studies.processes.executors import map_watched
from simulator.studies.variants.crossing import (
    Along,
    AskedPoint,
    Intervals,
    Search,
    VariedKey,
    find_change,
    gaps_and_changes,
    search_together,
)
from simulator.studies.variants.names import schedule_name, sharded_part, topology_name
from simulator.units import show_bandwidth

_TIGHT, _ROUGH, _WHOLE_ROUGH = 1e-3, 2e-2, 1 / 8
_EXACT = 1e-12
"""A logarithm that is smaller than this is 0 but for rounding."""

Stretch = tuple[float | None, float | None]
"""From and to; None: up to the end of what was tried."""


class Win(Record):
    """A stretch of an axis on which a method is faster, and the intervals of its two borders.

    On an axis of whole numbers, the borders are inside the stretch. A border's 90 % interval follows from that of the
    ratio of the two times at the border, in which the errors that both share cancel: it reaches from where the method
    is predicted to be faster by as much as it may lose, to where it is predicted to be slower by as much as it may
    gain. An end that no value tried reaches is None.
    """

    start: float | None
    stop: float | None
    start_interval: Stretch | None
    stop_interval: Stretch | None


class Wins(Record):
    """Where a method is faster; `tried`: the smallest and largest value that could be run (None: no value could)."""

    wins: tuple[Win, ...]
    tried: tuple[float, float] | None


class Duel(Record):
    """A method and another one that it is compared with, along the same axis.

    `intervals`: how those of the borders are made. With `none` borders are rough, for what takes long to simulate.
    """

    method: Along
    against: Along
    intervals: Intervals = "full"

    def search(self) -> Search[Wins]:
        """The stretches on which the method is faster, and the intervals of their borders."""
        tried = self.method.axis.tried
        yield [AskedPoint(along, value) for value in tried for along in (self.method, self.against)]
        gaps, changes = yield from gaps_and_changes(self._gap, tried)
        if not gaps:
            return Wins((), None)
        places = [*gaps]
        edges: list[tuple[float | None, Stretch | None]] = [(None, None)] if gaps[places[0]] < 0 else []
        for low, high in changes:
            border = yield from self._border(low, high, tight=self.intervals != "none")
            edges.append((border, (yield from self._interval(border, places, stop=gaps[low] < 0))))
        edges += [(None, None)] * (len(edges) % 2)
        pairs = zip(edges[::2], edges[1::2], strict=True)
        return Wins(tuple(Win(start, stop, a, b) for (start, a), (stop, b) in pairs), (places[0], places[-1]))

    def _gap(self, value: float, error: float = 0.0) -> Search[float | None]:
        """Logarithm of the method's time over that of the other, less an error; None where one of them is refused."""
        yield [AskedPoint(self.method, value), AskedPoint(self.against, value)]
        one, other = self.method.at(value), self.against.at(value)
        if one is None or other is None:
            return None
        a, b = one.spread.time, other.spread.time
        return (math.log(a / b) if a and b else a - b) - error

    def _interval(self, border: float, places: Sequence[float], *, stop: bool) -> Search[Stretch | None]:
        """The interval of a border, behind which the method is slower (`stop`) or faster; None where none is asked for.

        The spread of the ratio is taken to be near the border as it is there.
        """
        if self.intervals == "none" or (yield from self._gap(border)) is None:
            return None
        # Where messages share links, responses are not simulated.
        points = [
            AskedPoint(along, border, "first_order" if along.evaluated(border).followed else self.intervals)
            for along in (self.method, self.against)
        ]
        yield points
        ratio = compare_spreads(*(point.along.evaluated(border, point.intervals).spread for point in points))
        worst, best = (math.log(end) - ratio.log for end in ratio.interval())
        before, after = [x for x in reversed(places) if x < border], [x for x in places if x > border]
        low, high = (worst, best) if stop else (best, worst)
        first = yield from self._end(low, border, before, not stop)
        return first, (yield from self._end(high, border, after, stop))

    def _end(self, error: float, border: float, places: Sequence[float], wins: bool) -> Search[float | None]:
        """Where the method's advantage is lost if the logarithm of the ratio is wrong by an error.

        From the border on, over places in one direction, as long as the method `wins`, or does not.
        """
        if abs(error) < _EXACT:
            return border
        gaps, changes = yield from gaps_and_changes(partial(self._gap, error=error), (border, *places))
        if (gaps[border] < 0) != wins:
            return border
        return (yield from self._border(*changes[0], error)) if changes else None

    def _border(self, low: float, high: float, error: float = 0.0, *, tight: bool = False) -> Search[float]:
        """The value between two others at which the sign changes; of whole numbers, the last one that is faster."""
        ends = (low, high) if ((yield from self._gap(low, error)) or 0.0) < 0 else (high, low)
        whole = self.method.axis.whole
        precision = (0.0 if whole else _TIGHT) if tight else _WHOLE_ROUGH if whole else _ROUGH
        won, lost = yield from find_change(partial(self._gap, error=error), *ends, precision, whole=whole)
        return won if whole else math.sqrt(won * lost)


DECADES = (7, 11)
"""Powers of ten, in bytes per second, between which bandwidths are tried."""
PER_DECADE = 2
MOST_WORKERS = 256
COARSE = {"kind": "bucketed", "bucket_size": "25 MiB"}
"""The schedule on which methods are compared whose messages share links: tensor by tensor takes long to simulate."""
FEW = 3
"""Methods that are compared where exchanges share links, which takes long to simulate."""
CLOSE = 10
"""Methods whose borders have intervals."""
SIMULATED = 5
"""Methods whose intervals follow from simulating both ends of every input."""
TOGETHER = 4
"""Methods whose borders are looked for together, which is faster than one by one."""
STEPS = 10
"""A method takes about as long as so many runs."""
NOT_TRIED = Wins((), None)
WholeStretch = tuple[int | None, int | None]
Bandwidths = tuple[float | None, Stretch | None, str]
Workers = tuple[int | None, WholeStretch | None, int | None, WholeStretch | None, str]
_NO_BORDERS = Win(None, None, None, None)


def crossings(
    scenario: Scenario, others: Sequence[Combination], watch: Watch | None = None, processes: int | None = None
) -> list[BreakEven]:
    """One row per method, compared with dense on the scenario's own schedule and topology: where it is faster.

    By the link law alone and without random differences. Methods whose messages share links are compared over
    bandwidths only, unless it is the scenario's own method. After an interruption the rows so far are returned.
    """
    watch = watch or Watch()
    own = [item for item in others if item.candidate.sparsifier is None]
    ordered = [*own, *(item for item in others if item not in own and not item.rounded)]
    ordered = ordered[: FEW if any(item.live for item in others) else None]
    numbered, part, steps = list(enumerate(ordered)), "the break-even points", STEPS * TOGETHER
    together = [numbered[first : first + TOGETHER] for first in range(0, len(ordered), TOGETHER)]
    found = map_watched(_Crossings(scenario), together, watch, part, processes, steps=steps)
    return [row for _, rows in sorted(found.items()) for row in rows if row is not None]


def bandwidth_axis(scenario: Scenario, per_decade: int = PER_DECADE) -> VariedKey:
    """The bandwidth that `plan` varies, too, from below what it is; inside the node where there is only one node."""
    key, (low, high) = bandwidth_key(scenario), DECADES
    low = math.floor(math.log10(min(10.0**low, value_at(scenario, key))))
    tried = tuple(10 ** (low + i / per_decade) for i in range(per_decade * (high - low) + 1))
    return VariedKey(key, tried)


def nodes_axis(scenario: Scenario) -> VariedKey:
    """The number of nodes, or of GPUs where there is only one node."""
    cluster = scenario.cluster
    one = cluster.nodes == 1 and cluster.gpus_per_node > 1
    each = 1 if one else cluster.gpus_per_node
    most = max(MOST_WORKERS // each, 2)
    tried = tuple(float(2**i) for i in range(17) if (1 if each > 1 else 2) <= 2**i <= most)
    return VariedKey("cluster.gpus_per_node" if one else "cluster.nodes", tried, whole=True)


def bandwidth_borders(scenario: Scenario, pairs: Sequence[tuple[Candidate, Candidate]]) -> list[Bandwidths]:
    """Below which bandwidth one combination is faster than another, each with its own schedule and topology."""
    base = without_randomness(without_measured_collectives(scenario))
    axis = bandwidth_axis(base)
    duels = [Duel(Along(axis, one.of(base)), Along(axis, other.of(base)), "first_order") for one, other in pairs]
    return [_bandwidths(found) for found in search_together([duel.search() for duel in duels])]


class _Crossings:
    """Finds where methods are faster than dense. Dense with one schedule and topology is simulated once."""

    def __init__(self, scenario: Scenario) -> None:
        self.base = without_randomness(without_measured_collectives(scenario))
        self.nodes = nodes_axis(self.base)
        self.dense: dict[tuple[Candidate, bool], tuple[Along, Along]] = {}

    def __call__(self, several: Sequence[Sequence[tuple[int, Combination]]]) -> list[list[BreakEven | None]]:
        """The rows of methods that are compared together, each with its place in the order."""
        return [search_together([self._row(*numbered) for numbered in methods]) for methods in several]

    def _row(self, number: int, item: Combination) -> Search[BreakEven | None]:
        place = self._common_place(item)
        if place is None:
            return None
        own, found = item.candidate.sparsifier is None, [NOT_TRIED, NOT_TRIED]
        rough = not own and (item.heavy or number >= CLOSE)
        intervals: Intervals = "none" if rough else "full" if number < SIMULATED else "first_order"
        changed = replace(place, sparsifier=item.candidate.sparsifier).of(self.base)
        for by_nodes, against in enumerate(self._dense(place, rough)):
            if not (by_nodes and item.heavy and not own):
                found[by_nodes] = yield from Duel(Along(against.axis, changed), against, intervals).search()
        names = item.row.method, "dense", schedule_name(changed), topology_name(changed)
        return BreakEven(*(*names, *_bandwidths(found[0]), *_workers(found[1], self.nodes, self.base)))

    def _common_place(self, item: Combination) -> Candidate | None:
        """Schedule and topology that both methods run on: the scenario's, else fewer buckets, else the method's own."""
        own = item.candidate
        places = [Candidate(), Candidate(scheduler=COARSE), Candidate(scheduler=own.scheduler, topology=own.topology)]
        if sharded_part(self.base.scheduler) is not None:
            del places[1]
        for place in places[1:] if item.heavy or item.live else places:
            method = replace(place, sparsifier=own.sparsifier)
            with suppress(InputError):  # where one of both cannot run
                for each in (method, dense_candidate(self.base, place.scheduler, place.topology)):
                    plan_of(each.of(self.base))
                return place
        return None

    def _dense(self, place: Candidate, rough: bool) -> tuple[Along, Along]:
        """Dense with a schedule and a topology, along the bandwidths and along the numbers of workers."""
        if (place, rough) not in self.dense:
            dense = dense_candidate(self.base, place.scheduler, place.topology).of(self.base)
            bandwidths = bandwidth_axis(self.base, 1) if rough else bandwidth_axis(self.base)
            self.dense[place, rough] = Along(bandwidths, dense), Along(self.nodes, dense)
        return self.dense[place, rough]


def _bandwidths(found: Wins) -> Bandwidths:
    """The highest bandwidth at which the method is still faster, its interval, and both in words."""
    last = found.wins[-1] if found.wins else _NO_BORDERS
    return (
        last.stop,
        last.stop_interval,
        _describe(found, partial(show_bandwidth, digits=3), ("below", "above"), "bandwidth"),
    )


def _workers(found: Wins, axis: VariedKey, scenario: Scenario) -> Workers:
    """The workers from which on, and up to which, the method is faster, each with its interval; and all in words."""
    each = 1 if axis.key.endswith("gpus_per_node") else scenario.cluster.gpus_per_node

    def times(value: float | None) -> int | None:
        return None if value is None else round(value) * each

    def both(interval: Stretch | None) -> WholeStretch | None:
        return None if interval is None else (times(interval[0]), times(interval[1]))

    first, last = (found.wins[0], found.wins[-1]) if found.wins else (_NO_BORDERS, _NO_BORDERS)
    words = _describe(found, lambda value: f"{times(value)}", ("up to", "from"), "number of workers", " workers")
    return times(first.start), both(first.start_interval), times(last.stop), both(last.stop_interval), words


def _describe(found: Wins, show: Callable[[float], str], sides: tuple[str, str], what: str, unit: str = "") -> str:
    """Where a method is faster, in words; `sides` are the words for the two sides of a border."""
    if found is NOT_TRIED:
        return "not computed: takes long to simulate"
    if found.tried is None:
        return f"could not be run at another {what}"
    tried = " to ".join(show(value) for value in found.tried) + unit
    if found.wins == (_NO_BORDERS,):
        return f"always faster (tried: {tried})"
    if not found.wins:
        return f"never faster (tried: {tried})"
    parts = []
    for win in found.wins:
        if win.start is not None and win.stop is not None:
            parts.append(f"{sides[1]} {show(win.start)} to {show(win.stop)}{unit}")
        elif win.stop is not None:
            parts.append(f"{sides[0]} {show(win.stop)}{unit}{_describe_interval(win.stop_interval, show)}")
        elif win.start is not None:
            parts.append(f"{sides[1]} {show(win.start)}{unit}{_describe_interval(win.start_interval, show)}")
    return f"faster {' and '.join(parts)}"


def _describe_interval(interval: Stretch | None, show: Callable[[float], str]) -> str:
    """An interval in brackets, without an end that lies beyond what was tried."""
    if interval is None:
        return ""
    low, high = (None if value is None else show(value) for value in interval)
    if low is not None and high is not None:
        return f" ({low} to {high})" if low != high else ""
    return f" (at least {low})" if low is not None else f" (at most {high})" if high is not None else ""
