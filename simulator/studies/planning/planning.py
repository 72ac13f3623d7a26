"""Answer what is needed so that a target is met: each unknown by itself, with its interval."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from simulator.errors import InputError, Problem
from simulator.prediction.doubts.own_error import MODEL
from simulator.prediction.doubts.spread import compare_spreads
from simulator.prediction.doubts.verdict import command_of, measurements_of
from simulator.prediction.doubts.workload import COMPUTE
from simulator.prediction.run import Prediction, run, with_responses
from simulator.records import replace
from simulator.reporting.answers.planned import (
    BackwardsPlan,
    NarrowingMeasurement,
    PlanNow,
    TargetNow,
    UnknownNeeded,
)
from simulator.scenario.bandwidths import WORDS, met_rates
from simulator.scenario.changes import value_at, with_value
from simulator.scenario.cluster import LEFT_OUT
from simulator.scenario.scenario import Scenario
from simulator.sparsifiers.dense import Dense
from simulator.studies.compare.opponent import Opponent, best_dense
from simulator.studies.planning.targets import (
    FASTER,
    NODE,
    PlanTarget,
    Training,
    Unknown,
    lasting_time,
    parse_target,
    unknowns_of,
)
from simulator.studies.variants.crossing import (
    Along,
    AskedPoint,
    Gap,
    PointAnswer,
    Search,
    find_change,
    gaps_and_changes,
    search_together,
    without_replay,
)
from simulator.units import join_words, show_bandwidth


def plan_backwards(
    scenario: Scenario,
    target: str = FASTER,
    vary: Sequence[str] = (),
    training: Training | None = None,
    tell: Callable[[float], None] | None = None,
) -> BackwardsPlan:
    """What a scenario needs to meet a target, such as `compute utilisation 90 %`; by default, to be faster than dense.

    Dense is taken at its best on the same cluster (`versus: best_dense`), and changes with the bandwidth and the nodes;
    doubts that both share cancel. `tell` is told the seconds that a long search takes, about, before it begins.

    Each unknown in `vary` (default: all that the scenario has) is solved for while all else stays. At the ends of the
    interval of an answer the target is met if everything takes as much longer, or shorter, as the 90 % interval of the
    prediction at the answer says.

    Raises InputError for a target or an unknown that does not exist, and where the scenario cannot be run.
    """
    wanted = parse_target(target, training or Training())
    unknowns = unknowns_of(scenario, vary)
    scenario, note = without_replay(scenario)
    if wanted.name == FASTER and scenario.sparsifier.kind == Dense.kind:
        hint = "it sends dense gradients: give a target, such as --for 'scaling efficiency 80 %'"
        raise InputError(Problem(f"target '{FASTER}'", "a scenario with another method", f"'{scenario.name}'", hint))
    opponent = best_dense(scenario) if wanted.name == FASTER else None
    began = time.perf_counter()
    now = run(scenario)
    alone = time.perf_counter() - began
    if wanted.name == NODE:
        wanted = replace(wanted, training=wanted.training._replace(node_rate=_rate_of_a_node(scenario)))
    unknowns = [_where_feasible(unknown, now) for unknown in unknowns]
    began = time.perf_counter()
    now = with_responses(now)
    together, ends = time.perf_counter() - began, 2 * sum(item.exact for item in now.spread.responses)
    each = together / (1 + ends) if ends else alone  # of a batch, or by itself where messages are followed
    points = sum(len(unknown.tried) + _SEARCHED for unknown in unknowns)
    seconds = (2 if opponent else 1) * (each * points + together * len(unknowns))
    if tell is not None and seconds > _LONG:
        tell(seconds)
    result = now.result_without_lists
    if opponent is not None:
        wanted = _against(wanted, lasting_time(run(opponent.scenario, intervals=False).result_without_lists))
    reached = wanted.reached(result)
    notes = [f"Runs use {note}."] if note else []
    notes += [LEFT_OUT] if scenario.cluster.membership and wanted.quantity.over_compute else []
    against = opponent.words if opponent else wanted.quantity.against
    return BackwardsPlan(
        scenario=scenario.name,
        target=TargetNow(target, wanted.name, wanted.value, wanted.show(wanted.value), against),
        now=PlanNow(reached, wanted.show(reached), wanted.margin(result) >= 0),
        answers=search_together([_answer(scenario, wanted, unknown, opponent) for unknown in unknowns]),
        measurement=_measurement(now),
        note=" ".join(notes),
    )


def _where_feasible(unknown: Unknown, now: Prediction) -> Unknown:
    """Of nodes only few, where every message is followed now, or would be among these few."""
    if unknown.name != "nodes":
        return unknown
    cluster, largest = now.scenario.cluster, now
    most = max(2 * cluster.nodes, _MOST_FOLLOWED // cluster.gpus_per_node)
    few = replace(unknown, tried=tuple(value for value in unknown.tried if value <= most))
    if few != unknown and now.result_without_lists.fidelity.tier != "flows":
        with suppress(InputError):  # as many nodes cannot be run
            largest = run(few.at(now.scenario, few.tried[-1]), intervals=False)
    return few if largest.result_without_lists.fidelity.tier == "flows" else unknown


def _against(target: PlanTarget, dense_time: float) -> PlanTarget:
    return replace(target, training=target.training._replace(dense_time=dense_time))


def _rate_of_a_node(scenario: Scenario) -> float:
    """Samples per second of each GPU in one node by itself, dense, whether the model fits into its memory or not.

    Where more GPUs than a node has share a model, those of the node share it. Raises InputError where one node cannot
    be such a cluster.
    """
    nodes = Unknown("cluster.nodes", (1.0,), whole=True, name="nodes", least=True)
    if (value_at(scenario, "scheduler.shard") or 1) > scenario.cluster.gpus_per_node:
        scenario = with_value(scenario, "scheduler.shard", None)
    try:
        alone = with_value(with_value(nodes.at(scenario, 1), "sparsifier", Dense()), "ignore_memory", True)
        result = run(alone, intervals=False).result_without_lists
    except InputError as error:
        what = "a scenario that can be run on one node by itself, too, which it is compared with"
        got = str(replace(error.problems[0], where=f"'{scenario.name}' on one node"))
        raise InputError(
            Problem(f"target '{NODE}'", what, got, "a scaling efficiency compares with one GPU instead")
        ) from None
    return (result.throughput or 0.0) / result.workers


class _DenseRuns:
    """Dense runs along an axis; the fastest at a value is the one to be beaten there."""

    def __init__(self, unknown: Unknown) -> None:
        self.unknown, self.runs = unknown, list[Along]()

    def add(self, opponent: Opponent) -> Search[bool]:
        """Add one more, unless it is there; whether it was added."""
        made = opponent.scenario
        if any((made.scheduler, made.topology) == (it.scenario.scheduler, it.scenario.topology) for it in self.runs):
            return False
        shared = value_at(made, self.unknown.key) is not None
        self.runs.append(Along(self.unknown if shared else replace(self.unknown, key=""), made))
        yield [AskedPoint(self.runs[-1], value) for value in self.unknown.tried]
        return True

    def fastest(self, value: float) -> Along | None:
        """That with the least time at a value that was evaluated; None where none can be run."""
        known = [
            (lasting_time(made.result), place)
            for place, it in enumerate(self.runs)
            if (made := it.at(value)) is not None
        ]
        return self.runs[min(known)[1]] if known else None


def _answer(
    scenario: Scenario, target: PlanTarget, unknown: Unknown, opponent: Opponent | None = None
) -> Search[UnknownNeeded]:
    """What one unknown has to be, as a search along it; `opponent`: the dense run that is to be slower, and at the
    answer so is the one that is the fastest there."""
    along, dense = Along(unknown, scenario), _DenseRuns(unknown)
    yield [AskedPoint(along, value) for value in unknown.tried]
    if opponent is not None:
        yield from dense.add(opponent)

    def wanted_at(value: float) -> PlanTarget | None:
        """The target at a value, where dense has a time of its own; None where it cannot be run."""
        if opponent is None:
            return target
        rival = dense.fastest(value)
        return None if rival is None else _against(target, lasting_time(rival.evaluated(value).result))

    def missed(value: float, longer: float = 1.0) -> Search[float | None]:
        """By which share the target is missed, if everything takes `longer` times as long; met exactly is met."""
        yield [AskedPoint(side, value) for side in (along, *dense.runs)]
        known, wanted = along.at(value), wanted_at(value)
        if known is None or wanted is None:
            return None
        return -wanted.margin(known.result, longer) or -sys.float_info.min

    def find(longer: float, close: float = _CLOSE) -> Search[Solution | None]:
        gap = partial(missed, longer=longer)
        return find_border(gap, unknown.tried, unknown.least, unknown.whole, close=close)

    def shown(name: str, value: float, key: str) -> dict[str, Any]:
        """A value and the quantity there, each also with its unit, under the keys that an answer has for them."""
        reached = (wanted_at(value) or target).reached(along.evaluated(value).result)
        return {
            name: round(value) if unknown.whole and name == "needed" else value,
            f"{name}_shown": unknown.show(value),
            key: reached,
            f"{key}_shown": target.show(reached),
        }

    stated = value_at(scenario, unknown.key)
    made = UnknownNeeded(
        name=unknown.name,
        key=unknown.key,
        now=stated,
        now_shown=unknown.show(stated),
        tried=(unknown.tried[0], unknown.tried[-1]),
        status="refused",
    )
    found = yield from find(1.0)
    for _ in range(_OPPONENTS if opponent is not None else 0):
        if found is None or found.value is None:
            break
        if not (yield from dense.add(best_dense(unknown.at(scenario, found.value)))):
            break
        found = yield from find(1.0)
    if found is None:
        refusals = [
            item for side in (along, *dense.runs) for item in side.known.values() if isinstance(item, InputError)
        ]
        return replace(made, reason=str(refusals[-1]))
    made = replace(made, status=found.status, upwards=found.upwards, again=found.again)
    if found.status == "never":
        made = replace(made, reason=_limit_elsewhere(scenario, unknown))
    if found.value is None:
        return replace(made, **shown("best", found.best, "best_reached"))
    # The answers if everything takes as long as at the ends of the interval at the answer; None: beyond the range.
    sides = [along, *dense.runs]
    yield [AskedPoint(side, found.value, "full") for side in sides]
    at_answer = along.evaluated(found.value, "full")
    if (rival := dense.fastest(found.value)) is None:
        factors = _longer(target, at_answer)
    else:
        ratio = compare_spreads(at_answer.spread, rival.evaluated(found.value, "full").spread)
        factors = tuple(ratio.value / end for end in ratio.interval()[::-1])
    ends = list[float | None]()
    for longer in factors:
        border = yield from find(longer, close=_CLOSE_END)
        ends.append(None if border is None else border.value)
    low, high = ends if found.upwards else ends[::-1]
    interval_shown = [None if end is None else unknown.show(end) for end in (low, high)]
    return replace(made, **shown("needed", found.value, "reached"), interval=(low, high), interval_shown=interval_shown)


def _limit_elsewhere(scenario: Scenario, unknown: Unknown) -> str | None:
    """What stays as it is, whatever the bandwidth that was varied: the narrowest other rate, or what software carries.

    None where nothing does.
    """
    network, most = scenario.cluster.network, unknown.tried[-1]
    if unknown.name != "bandwidth":
        return None
    other = next((item for item in met_rates(scenario) if item.key != unknown.key), None)
    carried = network.carried_by_nic(most, scenario.cluster.nodes) if network.transport is not None else most
    if other is not None and other.rate < carried:
        return f"the {other.words} stays {show_bandwidth(other.rate)}, since only the {WORDS[unknown.key]} was varied"
    if carried >= most or network.transport is None:
        return None
    return f"{network.transport.kind} carries at most {show_bandwidth(carried)} over a NIC, however fast it is"


class Solution(NamedTuple):
    """`value`: the border, on the side where the target is met; None where no value tried meets it, or all do.

    `status`: `found`, `always` or `never`. `best`: the value tried with the largest margin. `upwards`: whether the
    target is met from the value on; otherwise up to it. `again`: whether it is met and missed in turn elsewhere.
    """

    status: str
    best: float
    value: float | None = None
    upwards: bool = True
    again: bool = False


def find_border(
    missed: Gap, tried: Sequence[float], least: bool, whole: bool = False, *, close: float
) -> Search[Solution | None]:
    """Where the target begins to be met; None where no value tried could be run.

    `missed`: by which share the target is missed at a value, below 0 where it is met. `tried` rise. Of several
    stretches that meet the target, that which holds the end where most is spent counts: a larger value if the `least`
    is asked for; where that end misses it, the stretch at the other end, or any. `close`: the share of the target
    by which it is met at most, where it is met without a jump.
    """
    known, changes = yield from gaps_and_changes(missed, tried)
    if not known:
        return None
    best, met = min(known, key=lambda value: known[value]), [found < 0 for found in known.values()]
    if not changes:
        return Solution("always" if met[0] else "never", best)
    # Inside or outside of a stretch, what is asked for is its least, or most, value.
    upwards = least if met[0] == met[-1] else met[-1]
    low, high = next(pair for pair in changes[:: -1 if upwards else 1] if (known[pair[1]] < 0) == upwards)
    ends = (high, low) if upwards else (low, high)
    close = 0.0 if whole else close
    border, _ = yield from find_change(missed, *ends, _TIGHT * close, whole=whole, close=close)
    return Solution("found", best, border, upwards, len(changes) > 1)


def _longer(target: PlanTarget, prediction: PointAnswer) -> tuple[float, ...]:
    """The ends of a factor on the time, or on all of it that is not compute, in nine of ten cases.

    An input of compute that makes the iteration longer by the share d makes compute as much longer: of its share s of
    the time, all else over compute, (1 - s)/s, becomes s/(s + d) of that. Other inputs leave compute as it is: all else
    becomes 1 + d/(1 - s) times as long. Doubts are added in squares as logarithms of these factors, so that all else
    stays above 0 whatever they are.
    """
    spread = prediction.spread
    if not target.quantity.over_compute:
        low, high = spread.interval()
        return (low / spread.time, high / spread.time) if spread.time else (1.0, 1.0)
    share = prediction.result.compute_utilisation
    made = []
    for item in spread.responses:
        kind, what = item.key
        of_compute = kind == COMPUTE or (kind == MODEL and what.startswith("compute of "))
        of, sign = (share, -1) if of_compute else (1 - share, 1)
        left = (1 + math.expm1(end) / max(of, _SMALL) for end in (item.low, item.high))
        lost = [sign * math.log(max(factor, _LEAST)) for factor in left]
        made.append(item._replace(low=lost[0], high=lost[1]))
    return replace(spread, time=1.0, responses=tuple(made)).interval()


_TIGHT = 0.1
"""Share of `close` within which the search encloses the border: it ends there where the target is met by a jump."""
_MOST_FOLLOWED = 64
"""GPUs that are tried where every message is followed: a run takes about as long as their square."""
_LONG = 10.0
"""Seconds from which on a search says how long it takes."""
_OPPONENTS = 4
"""Most dense runs that an answer is compared with: the fastest one need not be the same everywhere."""
_SEARCHED = 16
"""Points that the searches of one unknown need, about: of its answer and of both ends of its interval."""
_CLOSE, _CLOSE_END = 1e-6, 1e-4
"""Shares of the target by which it is met at most, by the answer and at the ends of its interval."""
_SMALL = 1e-9
_LEAST = 0.1
"""Least share of its time that compute, or all else, is taken to need at an end of an interval."""


def _measurement(prediction: Prediction) -> NarrowingMeasurement | None:
    """The measurement that would narrow the answers most: of the input with the largest effect on the time."""
    responses = sorted(prediction.spread.responses, key=lambda item: -max(abs(item.low), abs(item.high)))
    whole = sum(max(abs(item.low), abs(item.high)) ** 2 for item in responses)
    for response in responses:
        if found := measurements_of(response):
            share = max(abs(response.low), abs(response.high)) ** 2 / whole if whole else 0.0
            width = max(item.width for item in response.doubts if item.measurement in found)
            what, minutes = join_words([item.what for item in found]), math.fsum(item.minutes for item in found)
            return NarrowingMeasurement(what, command_of(found), minutes, width, share)
    return None
