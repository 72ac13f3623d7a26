"""For every method: below which bandwidth and with how many workers it is faster than dense."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from simulator.errors import InputError
from simulator.prediction.run import plan_of
from simulator.progress import Watch
from simulator.reporting.answers.advised import BreakEven
from simulator.scenario.changes import without_measured_collectives, without_randomness
from simulator.scenario.scenario import Scenario
from simulator.studies.advice.break_even import Duel, Stretch, TimedPoint, Win, Wins, find_wins, timed_along
from simulator.studies.advice.candidates import Candidate, dense_candidate
from simulator.studies.advice.search import TimedCombination
from simulator.studies.processes.mapping import map_watched
from simulator.studies.variants.crossing import Along, VariedKey
from simulator.studies.variants.names import schedule_name, topology_name
from simulator.studies.variants.sharded import sharded_part
from simulator.units import show_bandwidth

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
    scenario: Scenario, others: Sequence[TimedCombination], watch: Watch | None = None, processes: int | None = None
) -> list[BreakEven]:
    """One row per method, compared with dense on the scenario's own schedule and topology: where it is faster.

    Each row has numbers (None where there is no border) and words, by the link law alone and without random
    differences. Borders of the scenario's own method and of the fastest, `CLOSE` in all, have intervals, the first
    `SIMULATED` of them from simulated responses and the others to first order; all other borders are rough. Methods
    whose messages share links are compared in buckets of 25 MiB, roughly, and over bandwidths only, unless it is the
    scenario's own method; with parameter servers, where all exchanges share links, only the first `FEW`. After an
    interruption the rows so far are returned.
    """
    watch = watch or Watch()
    own = [item for item in others if item.candidate.sparsifier is None]
    ordered = [*own, *(item for item in others if item not in own and not item.rounded)]
    ordered = ordered[: FEW if any(item.live for item in others) else None]
    numbered = list(enumerate(ordered))
    together = [numbered[first : first + TOGETHER] for first in range(0, len(ordered), TOGETHER)]
    part, steps = "the break-even points", STEPS * TOGETHER
    found = map_watched(_Crossings(scenario), together, watch, part, processes, steps=steps)
    rows = {number: row for some in found.values() for number, row in some.items()}
    return [row for _, row in sorted(rows.items())]


def bandwidth_axis(scenario: Scenario, per_decade: int = PER_DECADE) -> VariedKey:
    """The bandwidth of the NICs, or inside the node where there is only one node."""
    inside = scenario.cluster.nodes == 1 and scenario.cluster.network.intra_node is not None
    low, high = DECADES
    tried = tuple(10 ** (low + i / per_decade) for i in range(per_decade * (high - low) + 1))
    return VariedKey("cluster.network.intra_node.bandwidth" if inside else "cluster.network.bandwidth", tried)


def nodes_axis(scenario: Scenario) -> VariedKey:
    """The number of nodes, or of GPUs where there is only one node."""
    cluster = scenario.cluster
    one = cluster.nodes == 1 and cluster.gpus_per_node > 1
    each = 1 if one else cluster.gpus_per_node
    most = max(MOST_WORKERS // each, 2)
    tried = tuple(float(2**i) for i in range(17) if (1 if each > 1 else 2) <= 2**i <= most)
    return VariedKey("cluster.gpus_per_node" if one else "cluster.nodes", tried, whole=True)


def bandwidth_border(scenario: Scenario, method: Candidate, dense: Candidate) -> Bandwidths:
    """Below which bandwidth one combination is faster than another, each with its own schedule and topology."""
    base = without_randomness(without_measured_collectives(scenario))
    axis = bandwidth_axis(base)
    first, second = (timed_along(axis, candidate.of(base)) for candidate in (method, dense))
    (found,) = find_wins([Duel(first, second, simulated=False)])
    return _bandwidths(found)


class _Crossings:
    """Finds where methods are faster than dense. Dense with one schedule and topology is simulated once."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.base = without_randomness(without_measured_collectives(scenario))
        self.nodes = nodes_axis(self.base)
        self.dense: dict[tuple[Candidate, bool], tuple[Along[TimedPoint], Along[TimedPoint]]] = {}
        self.fitting: dict[Candidate, bool] = {}

    def __call__(self, several: Sequence[Sequence[tuple[int, TimedCombination]]]) -> list[dict[int, BreakEven]]:
        """The rows of methods that are compared together, by their places in the order.

        Methods that cannot run beside dense have none.
        """
        return [self._rows(methods) for methods in several]

    def _rows(self, methods: Sequence[tuple[int, TimedCombination]]) -> dict[int, BreakEven]:
        duels: dict[tuple[int, bool], Duel] = {}
        placed: dict[int, tuple[TimedCombination, Scenario]] = {}
        for number, item in methods:
            place = self._common_place(item)
            if place is None:
                continue
            own = item.candidate.sparsifier is None
            rough = not own and (item.heavy or number >= CLOSE)
            method = Candidate(item.candidate.sparsifier, place.scheduler, place.topology, item.candidate.density)
            changed = method.of(self.base)
            placed[number] = item, changed
            for by_nodes, against in enumerate(self._dense(place, rough)):
                if not (by_nodes and item.heavy and not own):
                    along = timed_along(against.axis, changed)
                    duels[number, bool(by_nodes)] = Duel(along, against, not rough, number < SIMULATED)
        found = dict(zip(duels, find_wins([*duels.values()]), strict=True))
        return {
            number: self._row(item, changed, found[number, False], found.get((number, True), NOT_TRIED))
            for number, (item, changed) in placed.items()
        }

    def _row(self, item: TimedCombination, changed: Scenario, bandwidths: Wins, nodes: Wins) -> BreakEven:
        names = item.method, "dense", schedule_name(changed), topology_name(changed)
        return BreakEven(*(*names, *_bandwidths(bandwidths), *_workers(nodes, self.nodes, self.scenario)))

    def _common_place(self, item: TimedCombination) -> Candidate | None:
        """Schedule and topology that both methods run on: the scenario's, else fewer buckets, else the method's own."""
        own = item.candidate
        places = [Candidate(), Candidate(scheduler=COARSE), Candidate(scheduler=own.scheduler, topology=own.topology)]
        if sharded_part(self.base.scheduler) is not None:
            del places[1]
        for place in places[1:] if item.heavy or item.live else places:
            method = Candidate(own.sparsifier, place.scheduler, place.topology, own.density)
            if self._fits(method) and self._fits(dense_candidate(self.base, place.scheduler, place.topology)):
                return place
        return None

    def _fits(self, candidate: Candidate) -> bool:
        """Whether the parts of a combination can work together."""
        if candidate not in self.fitting:
            try:
                plan_of(candidate.of(self.base))
            except InputError:
                self.fitting[candidate] = False
            else:
                self.fitting[candidate] = True
        return self.fitting[candidate]

    def _dense(self, place: Candidate, rough: bool) -> tuple[Along[TimedPoint], Along[TimedPoint]]:
        """Dense with a schedule and a topology, along the bandwidths and along the numbers of workers."""
        if (place, rough) not in self.dense:
            dense = dense_candidate(self.base, place.scheduler, place.topology).of(self.base)
            bandwidths = bandwidth_axis(self.base, 1) if rough else bandwidth_axis(self.base)
            self.dense[place, rough] = timed_along(bandwidths, dense), timed_along(self.nodes, dense)
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
    if found.everywhere:
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
