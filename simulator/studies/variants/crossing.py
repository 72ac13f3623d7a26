"""Scenarios of a study: with a whole cost removed, predicted together, and searched for where an answer changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeVar

from simulator.bounds import BOUNDS
from simulator.errors import InputError, map_unless_refused, unless_refused
from simulator.hardware.runtime import RUNTIME_COSTS
from simulator.models.exchange import Bucket, Selection
from simulator.models.overlap import ScaleMixture
from simulator.prediction.doubts.spread import Spread
from simulator.prediction.result import RunResult
from simulator.prediction.run import Prediction, plan_of, run_batch, with_responses_of
from simulator.prediction.simulated import try_each
from simulator.records import Record
from simulator.scenario.changes import INFINITE, with_value, without_spread
from simulator.scenario.cluster import Stragglers
from simulator.scenario.scenario import Mixture, Scenario
from simulator.sparsifiers.base import Sparsifier, Style
from simulator.sparsifiers.implementation import GOOD, Steps

Intervals = Literal["full", "first_order", "none"]
"""From simulating both ends of each input; from the seconds that each input decides; not at all."""


def evaluate(scenarios: Sequence[Scenario], intervals: Intervals = "first_order") -> list[Prediction | InputError]:
    """The prediction of each scenario in order, or why its parts cannot work together.

    Scenarios that share work are priced and simulated together, so that a batch is faster than one by one; each
    prediction is that of the scenario by itself.
    """
    made = run_batch(scenarios, intervals=intervals != "none")
    return map_unless_refused(with_responses_of, made) if intervals == "full" else made


Found = TypeVar("Found")


class VariedKey(Record):
    """What varies: its key (empty: nothing) and the values to try first, ascending. `whole`: whole numbers only."""

    key: str
    tried: tuple[float, ...]
    whole: bool = False

    def at(self, scenario: Scenario, value: float) -> Scenario:
        """The scenario with that value. Raises InputError where it does not fit the others."""
        return with_value(scenario, self.key, round(value) if self.whole else value) if self.key else scenario


class PointAnswer(NamedTuple):
    """What is kept of the prediction of a point; `followed`: messages share links, which takes long to simulate."""

    result: RunResult
    spread: Spread
    followed: bool


class Along:
    """A scenario along an axis, and what is `known` of its points, or why one is refused."""

    def __init__(self, axis: VariedKey, scenario: Scenario) -> None:
        self.axis, self.scenario = axis, scenario
        self.known: dict[tuple[float, Intervals], PointAnswer | InputError] = {}

    def at(self, value: float, intervals: Intervals = "none") -> PointAnswer | None:
        """What is known of a point that was evaluated; None where it is refused."""
        made = self.known[value, intervals]
        return None if isinstance(made, InputError) else made

    def evaluated(self, value: float, intervals: Intervals = "none") -> PointAnswer:
        """What is known of a point that was evaluated. Raises the InputError of one that is refused."""
        return unless_refused(self.known[value, intervals])


class AskedPoint(NamedTuple):
    """A value along a scenario's axis, and how the intervals of its prediction are made."""

    along: Along
    value: float
    intervals: Intervals = "none"


Search = Generator[Sequence[AskedPoint], None, Found]
"""A search in steps: it hands out the points that it needs next, and returns what it found."""
Gap = Callable[[float], Search[float | None]]
"""A number whose sign changes along an axis; None where it is not known because a point is refused."""


def search_together(searches: Sequence[Search[Found]]) -> list[Found]:
    """What searches find; the points that all of them need next are evaluated together."""
    found: dict[int, Found] = {}
    wanted: dict[int, Sequence[AskedPoint]] = dict.fromkeys(range(len(searches)), ())
    while wanted:
        _evaluate_points([point for points in wanted.values() for point in points])
        for number in list(wanted):
            try:
                wanted[number] = next(searches[number])
            except StopIteration as ended:
                found[number] = ended.value
                del wanted[number]
    return [found[number] for number in range(len(searches))]


def _evaluate_points(points: Sequence[AskedPoint]) -> None:
    """Add what is not known yet to what is known along the axes of points."""
    new = dict.fromkeys(point for point in points if (point.value, point.intervals) not in point.along.known)
    for intervals in dict.fromkeys(point.intervals for point in new):
        asked = [point for point in new if point.intervals == intervals]
        scenarios = try_each(asked, lambda point: point.along.axis.at(point.along.scenario, point.value))
        made = map_unless_refused(partial(evaluate, intervals=intervals), scenarios)
        answers = try_each(made, lambda it: PointAnswer(it.result_without_lists, it.spread, it.plan.prices.flowed > 0))
        for point, answer in zip(asked, answers, strict=True):
            point.along.known[point.value, intervals] = answer


def gaps_and_changes(gap: Gap, values: Sequence[float]) -> Search[tuple[dict[float, float], list[tuple[float, float]]]]:
    """The gaps at those values where they are known, and the neighbours of which one is below 0 and the other not."""
    known: dict[float, float] = {}
    for value in values:
        found = yield from gap(value)
        if found is not None:
            known[value] = found
    return known, [(one, other) for one, other in pairwise(known) if (known[one] < 0) != (known[other] < 0)]


def find_change(
    gap: Gap, below: float, other: float, precision: float, *, whole: bool = False, close: float = 0.0
) -> Search[tuple[float, float]]:
    """The two values that enclose where a gap changes its sign, the one `below` 0 first, from two that do so.

    They end within a share of `precision` of each other (whole numbers: as neighbours, or within that share), or
    earlier where the gap of the first is above `-close`. The gap of a refused value counts as not below 0.

    By regula falsi on the value's logarithm: each step goes to just behind the root of the straight line through both
    ends, on the side of the further end, so that both ends close in; every fourth goes to the middle, for jumps. Of
    whole numbers every step does.
    """
    step = 0
    at_below, at_other = (yield from gap(below)) or 0.0, (yield from gap(other)) or 0.0
    while True:
        step, width = step + 1, abs(math.log(other / below))
        if abs(below - other) <= max(1, precision * min(below, other)) if whole else width <= math.log1p(precision):
            return below, other
        share = 0.5
        if step % 4 and at_below != at_other:
            root, behind = at_below / (at_below - at_other), 0.4 * precision / width
            share = min(1 - behind, max(behind, root + math.copysign(behind, 0.5 - root)))
        middle = float((below + other) // 2) if whole else below * math.exp(share * math.log(other / below))
        if middle in (below, other):
            return below, other
        value = yield from gap(middle)
        if value is not None and value < 0:
            below, at_below = middle, value
            if value > -close:
                return below, other
        else:
            other, at_other = middle, at_other if value is None else value


def with_infinite_network(scenario: Scenario) -> Scenario:
    """Infinite bandwidth and no latency on every link, and no other traffic."""
    network = scenario.cluster.network
    changes: dict[str, Any] = {"bandwidth": INFINITE, "latency": 0.0, "measured": (), "incast": (), "transport": None}
    changes |= {"collective_start_up": 0.0, "copy_bandwidth": None}
    for key, value in (("hop_latency", 0.0), ("uplink", INFINITE), ("host", INFINITE), ("oversubscription", 1.0)):
        if getattr(network, key, None) is not None:
            changes[key] = value
    changes |= network.times(INFINITE, INFINITE, 0.0)
    inside = network.intra_node
    if inside is not None:
        update = {"bandwidth": INFINITE, "latency": 0.0, "host": INFINITE if inside.host is not None else None}
        changes["intra_node"] = inside.model_copy(update=update)
    runtime = scenario.cluster.runtime.model_copy(update={"endpoint_bandwidth": None, "server_bandwidth": None})
    cluster = {"network": network.model_copy(update=changes), "runtime": runtime, "links": (), "background": ()}
    cluster |= {"link_trace": None}
    return with_value(scenario, "cluster", scenario.cluster.model_copy(update=cluster))


def with_free_selection(scenario: Scenario) -> Scenario:
    """The scenario with a selection that takes no time."""
    sparsifier = scenario.sparsifier
    fields = {name: getattr(sparsifier, name) for name in type(sparsifier).model_fields}
    return with_value(scenario, "sparsifier", _without_selection(type(sparsifier)).model_construct(**fields))


@lru_cache(maxsize=64)
def _without_selection(kind: type[Sparsifier]) -> type[Sparsifier]:
    class Free(kind):  # type: ignore[misc, valid-type]
        """A method without kernels before its exchange."""

        def carry_out(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> Steps:
            return [], kind.carry_out(self, selection, bucket, workers, style)[1]

    Free.__qualname__ = f"Free{kind.__name__}"  # the name is part of a spec's fingerprint
    return Free


def with_good_implementation(scenario: Scenario) -> Scenario:
    """The scenario with one fused call per kernel, one gather per payload, and no reads by the host."""
    return with_value(scenario, "sparsifier.implementation", GOOD)


def without_software(scenario: Scenario) -> Scenario:
    """No negotiation, launch or copy around an exchange."""
    free = dict.fromkeys((name for name, cost in RUNTIME_COSTS.items() if cost.per_call), 0.0)
    return with_value(scenario, "cluster.runtime", scenario.cluster.runtime.model_copy(update=free))


def without_stragglers(scenario: Scenario) -> Scenario:
    """All workers alike in every iteration: no jitter, slow workers, other GPUs or kernels whose time varies."""
    cluster = {"stragglers": Stragglers(), "gpu": without_spread(scenario.cluster.gpu), "other_gpus": ()}
    return with_value(scenario, "cluster", scenario.cluster.model_copy(update=cluster))


def without_replay(scenario: Scenario) -> tuple[Scenario, str]:
    """The scenario with selections in closed form, for studies of many runs, and a note that says so.

    The overlap law fitted to its trace replaces the replay, unless the scenario states one.
    """
    if not scenario.workload.gradients:
        return scenario, ""
    note = "selections from a formula instead of a replay of the trace"
    bare = with_value(scenario, "workload.gradients", "")
    if scenario.cluster.workers == 1 or scenario.overlap_concentration is not None or scenario.overlap_mixture:
        return bare, note
    from simulator.prediction.recorded_inputs import fitted_law

    law = fitted_law(scenario, plan_of(scenario).work.buckets)
    if isinstance(law, ScaleMixture) and law.spread > 0:
        bare = with_value(bare, "overlap_mixture", Mixture(spread=law.spread, core=law.core, silent=law.silent))
    elif isinstance(law, float):
        bare = with_value(bare, "overlap_concentration", min(law, BOUNDS["concentration"].largest))
    else:
        return bare, note
    return bare, f"{note}, with the overlap law fitted to that trace"
