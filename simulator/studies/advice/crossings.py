"""For every method, the bandwidth below which and the workers from which on it is faster than dense."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from simulator.errors import InputError
from simulator.prediction.run import plan_of
from simulator.scenario.scenario import Scenario
from simulator.studies.advice.break_even import Axis, Race, Stretch, Wins, bandwidth_axis, nodes_axis
from simulator.studies.advice.candidates import Candidate
from simulator.studies.advice.search import Outcome
from simulator.studies.advice.wording import method_of, schedule_name, show_rate, topology_name
from simulator.studies.explain.variation import calm, without_curves

COARSE = {"kind": "bucketed", "bucket_size": "25 MiB"}
"""The schedule that methods are compared on whose messages meet on the links: tensor by tensor takes long."""
FEW = 3
"""Methods that are compared where exchanges share links, which takes long to simulate."""
CLOSE = 10
"""Methods, fastest first, whose borders come with intervals."""
UNKNOWN = Wins((), None)


def crossings(scenario: Scenario, others: Sequence[Outcome]) -> list[dict[str, Any]]:
    """One row per method, on the scenario's own schedule and topology, dense on the same: where it wins.

    In figures (None where there is no border) and in words; by the link law alone, random differences left out. Borders
    of the scenario's own method and of the fastest `CLOSE` have intervals, those of others come roughly. Methods
    whose messages meet on the links are compared in buckets of 25 MiB, and roughly, over bandwidths only, unless it is
    the scenario's own method; with parameter servers, where all exchanges do, only the first `FEW`.
    """
    base = calm(without_curves(scenario))
    races: dict[tuple[str, ...], tuple[Race, Race]] = {}
    rows = []
    own = [item for item in others if item.candidate.sparsifier is None]
    ordered = [*own, *(item for item in others if item not in own)]
    for number, item in enumerate(ordered[: FEW if any(item.live for item in others) else None]):
        place = _place(base, item)
        if place is None:
            continue
        rough = item not in own and (item.heavy or number > CLOSE)
        key = (*place.key, str(rough))
        if key not in races:
            dense = Candidate({"kind": "dense"}, place.scheduler, place.topology).of(base)
            axis = bandwidth_axis(base, 1) if rough else bandwidth_axis(base)
            races[key] = (Race(axis, dense, not rough), Race(nodes_axis(base), dense, not rough))
        method = Candidate(item.candidate.sparsifier, place.scheduler, place.topology, item.candidate.density).of(base)
        by_bandwidth, by_nodes = races[key]
        row = {"method": method_of(scenario, item.candidate), "against": "dense"}
        row |= {"schedule": schedule_name(method), "topology": topology_name(method)}
        row |= _bandwidth(by_bandwidth.wins(method))
        found = UNKNOWN if item.heavy and item not in own else by_nodes.wins(method)
        rows.append({**row, **_workers(found, by_nodes.axis, scenario)})
    return rows


def _place(scenario: Scenario, item: Outcome) -> Candidate | None:
    """Where method and dense are compared: as the scenario stands, else in fewer buckets, else where the method ran."""
    own = item.candidate
    places = [Candidate(), Candidate(scheduler=COARSE), Candidate(scheduler=own.scheduler, topology=own.topology)]
    for place in places[1:] if item.heavy or item.live else places:
        try:
            plan_of(Candidate(own.sparsifier, place.scheduler, place.topology, own.density).of(scenario))
            plan_of(Candidate({"kind": "dense"}, place.scheduler, place.topology).of(scenario))
        except InputError:
            continue
        return place
    return None


def _bandwidth(found: Wins) -> dict[str, Any]:
    """The highest bandwidth at which the method still wins, with its interval."""
    below = found.wins[-1].stop if found.wins else None
    interval = found.wins[-1].stop_interval if found.wins else None
    return {
        "bandwidth_below_which_it_wins": below,
        "bandwidth_interval": _listed(interval),
        "bandwidth_words": _words(found, show_rate, ("below", "above"), "bandwidth"),
    }


def _workers(found: Wins, axis: Axis, scenario: Scenario) -> dict[str, Any]:
    """The workers from which on, and up to which, the method wins."""
    each = 1 if axis.key.endswith("gpus_per_node") else scenario.cluster.gpus_per_node

    def times(value: float | None) -> int | None:
        return None if value is None else round(value) * each

    first = found.wins[0] if found.wins else None
    last = found.wins[-1] if found.wins else None
    start, stop = (None, None) if first is None or last is None else (first.start_interval, last.stop_interval)
    words = _words(found, lambda value: f"{times(value)}", ("up to", "from"), "worker count", " workers")
    return {
        "workers_above_which_it_wins": times(first.start) if first else None,
        "workers_interval": None if start is None else [times(value) for value in start],
        "workers_up_to_which_it_wins": times(last.stop) if last else None,
        "workers_up_to_interval": None if stop is None else [times(value) for value in stop],
        "workers_words": words,
    }


def _listed(interval: Stretch | None) -> list[float | None] | None:
    return None if interval is None else list(interval)


def _words(found: Wins, shown: Callable[[float], str], sides: tuple[str, str], what: str, unit: str = "") -> str:
    """Where it wins, in words; `sides` are those for before and behind a border."""
    if found is UNKNOWN:
        return f"not looked at over {what}s: takes long to simulate"
    if found.tried is None:
        return f"could not be run at another {what}"
    over = " to ".join(shown(value) for value in found.tried) + unit
    if found.everywhere:
        return f"wins at every {what} tried, {over}"
    if not found.wins:
        return f"never wins, {over}"
    parts = []
    for win in found.wins:
        if win.start is not None and win.stop is not None:
            parts.append(f"{sides[1]} {shown(win.start)} to {shown(win.stop)}{unit}")
        elif win.stop is not None:
            parts.append(f"{sides[0]} {shown(win.stop)}{unit}{_between(win.stop_interval, shown)}")
        elif win.start is not None:
            parts.append(f"{sides[1]} {shown(win.start)}{unit} on{_between(win.start_interval, shown)}")
    return f"wins {' and '.join(parts)}"


def _between(interval: Stretch | None, shown: Callable[[float], str]) -> str:
    """An interval in brackets; an end that lies beyond what was tried is left out."""
    if interval is None:
        return ""
    low, high = (None if value is None else shown(value) for value in interval)
    if low is not None and high is not None:
        return f" ({low} to {high})" if low != high else ""
    return f" (at least {low})" if low is not None else f" (at most {high})" if high is not None else ""
