"""Whether a method pays at bandwidths and numbers of nodes around a scenario's own."""

from __future__ import annotations

import math
from collections.abc import Iterator

from simulator.errors import InputError
from simulator.prediction.doubts.verdict import judge
from simulator.prediction.run import run
from simulator.records import Record
from simulator.scenario.changes import value_at, with_value, without_randomness
from simulator.scenario.scenario import Scenario
from simulator.serving.forms import bandwidth_key
from simulator.studies.compare.opponent import choose_opponent

_FACTORS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Bandwidths of the map over the scenario's own."""
_DOUBLINGS = (-2, -1, 0, 1, 2)
_MOST_NODES = 512


class Nearby(Record):
    """The values that are tried: bandwidths in bytes per second and numbers of nodes, both ascending."""

    key: str
    bandwidths: tuple[float, ...]
    nodes: tuple[int, ...]
    here: tuple[float, int]


class Cell(Record):
    """One point: how many times faster the method is than the fastest dense run, and the verdict.

    `speed_up`: None where one of them cannot run. `time`, `other`: seconds of an iteration.
    """

    bandwidth: float
    nodes: int
    speed_up: float | None
    verdict: str = ""
    time: float = 0.0
    other: float = 0.0
    rival: str = ""


def grid_around(scenario: Scenario) -> Nearby:
    """Seven bandwidths and up to five numbers of nodes around the scenario's own."""
    cluster, key = scenario.cluster, bandwidth_key(scenario)
    inside, own = "intra_node" in key, float(value_at(scenario, key))
    nodes = {cluster.nodes} if inside else {round(cluster.nodes * 2.0**step) for step in _DOUBLINGS} | {cluster.nodes}
    lowest = 1 if inside else 2
    tried = sorted(number for number in nodes if lowest <= number <= max(_MOST_NODES, cluster.nodes))
    factors = [factor for factor in _FACTORS if 1e3 <= own * factor <= 1e15]
    # All but the scenario's own to two digits in bits.
    bandwidths = tuple(own if factor == 1 else float(f"{8 * own * factor:.1e}") / 8 for factor in factors)
    return Nearby(key, bandwidths, tuple(tried or [cluster.nodes]), (own, cluster.nodes))


def cells_around(scenario: Scenario, grid: Nearby) -> Iterator[Cell]:
    """The cells of a grid, the scenario's own number of nodes first; bandwidths ascending in each row.

    Random differences between iterations are left out, and intervals are those of first order.
    """
    steady = without_randomness(scenario.model_copy(update={"versus": None, "measured": None, "question": ""}))
    for nodes in sorted(grid.nodes, key=lambda number: abs(math.log(number / grid.here[1]))):
        for bandwidth in grid.bandwidths:
            try:
                point = with_value(with_value(steady, grid.key, bandwidth), "cluster.nodes", nodes)
                yield _cell(point, bandwidth, nodes)
            except InputError:
                yield Cell(bandwidth, nodes, None)


def _cell(scenario: Scenario, bandwidth: float, nodes: int) -> Cell:
    opponent = choose_opponent(scenario, None)
    if opponent is None:
        return Cell(bandwidth, nodes, None)
    prediction, rival = run(scenario), run(opponent.scenario)
    time, other = prediction.spread.time, rival.spread.time
    verdict = judge(prediction.spread, rival.spread).word if time and other else "alike"
    return Cell(bandwidth, nodes, other / time if time else None, verdict, time, other, opponent.words)
