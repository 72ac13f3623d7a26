"""What a measurement of a job says of the doubts of its prediction, and of those of other jobs that share them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from simulator.errors import InputError, Problem, unless_refused
from simulator.models.curves import Floats
from simulator.models.linear_algebra import multiply, solve_symmetric, weigh, weigh_rows
from simulator.models.small_cache import LatestResults
from simulator.prediction.doubts.collect import collect_doubts
from simulator.prediction.doubts.doubt import Doubt
from simulator.prediction.doubts.own_error import MODEL, shipped_tails
from simulator.prediction.doubts.software import find_slowed
from simulator.prediction.doubts.spread import (
    Asked,
    Gains,
    Response,
    Spread,
    group_shared,
    is_heavy,
    moved,
    respond,
    respond_linearly,
)
from simulator.prediction.measured import WHOLE, conditioning_values, simulated_seconds
from simulator.prediction.simulated import Simulated, simulate_batch, simulate_scenario
from simulator.records import Record
from simulator.scenario.changes import without_randomness
from simulator.scenario.scenario import Measured, Scenario
from simulator.units import show_time

_Key = tuple[str, str]
_FARTHEST = 3.0
"""Half-widths of the 90 % interval by which a measurement may lie off: nearly five standard deviations."""
_STEPS = 12
"""Simulations with the doubts moved to where they are thought to be."""
_CLOSE = 0.3
"""Share of the noise within which a measurement is met."""


class SettledQuantity(NamedTuple):
    """A measured quantity of a job: its seconds, what was predicted of it without and with the measurement, and how
    many half-widths of the 90 % interval it lies `off`."""

    quantity: str
    measured: float
    before: float
    after: float
    off: float


class Known(Record, eq=False):
    """What a measurement says of the doubts of its job.

    A doubt has the value 0 where its figure is what it is taken to be, and -1 and 1 at its ends. Before, values are
    independent normal variables whose 5th and 95th percentiles are the ends. `means`: after the measurement, by the key
    of responses. `gains`: of each doubt in the vectors g with which the values of all have the covariance I - g1 g1' -
    g2 g2' ..., one for each measured quantity, by the effects of the ends that make it smaller and larger; `linear`:
    theirs for responses of first order, from such slopes of the whole iteration: where gains and responses
    are taken alike, no more than its noise is left of the measured job itself. `sizes`: the logarithm of each doubt's
    width at this job. `digest`: of the job.
    """

    digest: str
    settled: tuple[SettledQuantity, ...]
    means: Mapping[_Key, float]
    gains: Mapping[_Key, Gains]
    linear: Mapping[_Key, Gains]
    sizes: Mapping[_Key, float]


class Carried(Record, eq=False):
    """What a measurement says of a scenario: `prior`: its simulation without it, with its `doubts`; `means`, `gains`
    and `linear` as of `Known`, in the ends of this scenario."""

    asked: Scenario
    known: Known
    prior: Simulated
    doubts: Sequence[Doubt]
    means: Mapping[_Key, float]
    gains: Mapping[_Key, Gains]
    linear: Mapping[_Key, Gains]

    @property
    def scenario(self) -> Scenario:
        """The scenario with its figures at their means."""
        return moved(self.prior.scenario, group_shared(self.doubts), self.means)

    def narrowed(self, responses: Sequence[Response]) -> tuple[Response, ...]:
        """Responses with what is known of each."""
        return tuple(it._replace(gains=(self.gains if it.exact else self.linear).get(it.key, ())) for it in responses)


def describe_settled(carried: Carried, spread: Spread) -> str | None:
    """What a measurement says: what was predicted of it, how it moves this prediction and its interval, and which of
    its figures it moves most; None where it says nothing."""
    if not carried.known.settled:
        return None
    parts = []
    for item in carried.known.settled:
        beyond = ", so that something of this job may not be described" if abs(item.off) > 1 else ""
        off = f"{abs(item.off):.1f} half-widths of the 90 % interval off{beyond}"
        name = item.quantity.replace("_", " ")
        parts.append(f"{name} {show_time(item.measured)}, predicted {show_time(item.before)} ({off})")
    if not carried.gains:
        return f"{'; '.join(parts)}. It is not carried over to this job"
    time = float(carried.prior.figures.times.mean())
    prior = Asked(carried.prior, carried.doubts, time)
    simulated = any(item.exact for item in spread.responses)
    blind = respond([prior])[0] if simulated else tuple(respond_linearly(carried.doubts, time))
    before = Spread(time, blind, spread.iterations, spread.tails)
    sides = (f"{show_time(it.time)} ({' to '.join(map(show_time, it.interval()))})" for it in (before, spread))
    moves = [(item, carried.means.get(item.key, 0.0)) for item in spread.responses]
    moves.sort(key=lambda move: -abs(move[0].towards(move[1]) * move[1]))
    told = [
        f"{item.doubts[0].what} of {item.doubts[0].id.strip('/')} by {end:+.2f} of its width"
        for item, end in moves[:_TOLD]
        if abs(item.towards(end) * end) > _LITTLE
    ]
    most = f"; it moves {', '.join(told)}" if told else ""
    return f"{'; '.join(parts)}. It takes this iteration from {' to '.join(sides)}{most}"


_TOLD = 2
"""Figures that are named."""
_LITTLE = 1e-3
"""Effects, as logarithms of the iteration's time, that are not worth a word."""
_known: LatestResults[Known] = LatestResults(16)


def carry(asked: Scenario, measured: Measured, prior: Simulated, doubts: Sequence[Doubt]) -> Carried:
    """What a measurement, which knows its job, says of a scenario. `prior`, `doubts`: its simulation without it.

    A doubt that is wider here than where it was measured has an error of its own beside the one that was measured; one
    that is narrower moves by as much less. So do the values have the correlation min(u, v) / max(u, v), with the
    logarithms u and v of the widths. The model's own error is not carried to another job: with it, intervals of other
    rows of a set-up are too narrow (validation rows). Nor is a measurement outside the job's 90 % interval: what it
    is off by is then likely to be something that is not described, which the doubts would be blamed for. Raises
    InputError where the measurement cannot be.
    """
    at: Scenario = measured.at
    known = _known.get((at.digest, measured.fingerprint), lambda: _learn(at, measured))
    here = known.digest == prior.scenario.digest
    explained = all(abs(item.off) <= 1 for item in known.settled)
    means, gains, linear = dict[_Key, float](), dict[_Key, Gains](), dict[_Key, Gains]()
    for group in group_shared(doubts):
        key = group[0].response_key
        if key in known.gains and (here or (explained and key[0] != MODEL)):
            mine, other = _size(group), known.sizes[key]
            alike = min(mine, other) / max(mine, other) if max(mine, other) else 1.0
            means[key] = alike * known.means[key]
            for into, all_gains in ((gains, known.gains), (linear, known.linear)):
                into[key] = tuple((alike * below, alike * above) for below, above in all_gains[key])
    return Carried(asked, known, prior, doubts, means, gains, linear)


def _size(group: Sequence[Doubt]) -> float:
    return math.log(max(item.width for item in group))


def _learn(at: Scenario, measured: Measured) -> Known:
    """The doubts of a job after its measurement: linear Gaussian conditioning, with the doubts moved along until the
    simulation agrees (an iterated Kalman update: Bell and Cathey, IEEE Trans. Automatic Control 38, 1993).

    What cannot be moved is noise of the measurement. Raises InputError where the measurement cannot be.
    """
    values = conditioning_values(measured, at)
    _refuse_impossible(values, at)
    prior = simulate_scenario(at)
    doubts, time = collect_doubts(prior, find_slowed([prior])[0]), float(prior.figures.times.mean())
    groups, heavy = group_shared(doubts), prior.plan.live or is_heavy(prior.plan)
    names = [name for name in values if name in WHOLE or not heavy]
    if not names or not time:
        return Known(at.digest, (), {}, {}, {}, {})
    free = [group for group in groups if any((it.change or it.shift) and not it.stepwise for it in group)]
    keys, linear = [group[0].response_key for group in free], {it.key: it for it in respond_linearly(doubts, time)}
    job = _Job(without_randomness(at), free, names, time)
    first = [(np.full(len(names), linear[key].low), np.full(len(names), linear[key].high)) for key in keys]
    ends = first if heavy else job.ends()
    begin = job.seen(prior)
    seen, wanted = begin, np.array([job.scaled(name, values[name]) for name in names])
    slopes = _slopes(ends, wanted - begin)
    fixed = math.fsum(max(abs(it.low), abs(it.high)) ** 2 for it in linear.values() if it.key not in keys)
    stretch = shipped_tails().stretch[90]  # what doubts give is stretched to an interval, which the noise is already
    noise = np.array([(measured.noise / stretch) ** 2 + (fixed if name in WHOLE else 0.0) for name in names])
    total = multiply(slopes, slopes.T) + noise * np.eye(len(names))
    half, means = stretch * np.sqrt(np.diag(total)), np.zeros(len(free))
    settled = [
        SettledQuantity(name, values[name], job.seconds(name, begin[n]), 0.0, (wanted - begin)[n] / half[n])
        for n, name in enumerate(names)
    ]
    _refuse_far(settled)
    cost, step = math.inf, weigh_rows(solve_symmetric(total, wanted - begin), slopes)
    for _ in range(_STEPS):
        trial = np.clip(step, -_FARTHEST, _FARTHEST)
        change = _weigh_each(slopes, trial) if heavy else job.changes([dict(zip(keys, trial.tolist(), strict=True))])[0]
        left, move = wanted - begin - change, trial - means
        # Slopes differ where doubts were moved to: they follow what the move has changed (Broyden 1965).
        missed = begin + change - seen - _weigh_each(slopes, move)
        slopes = slopes + np.outer(missed, move) / (weigh(move, move) or 1.0)
        unlikely = weigh(trial, trial) + weigh(left, left / noise)
        if unlikely > cost:  # too far: effects grow faster than in straight lines
            step = (means + trial) / 2
            continue
        cost, means, seen = unlikely, trial, begin + change
        if abs(left).max() < _CLOSE * measured.noise:
            break
        total = multiply(slopes, slopes.T) + noise * np.eye(len(names))
        step = weigh_rows(solve_symmetric(total, left + _weigh_each(slopes, means)), slopes)
    ends = first if heavy else job.ends(dict(zip(keys, means.tolist(), strict=True)))
    noise = np.maximum(noise, 2 * ((wanted - seen) / stretch) ** 2)  # what no doubt explains leaves room for itself
    whole = np.array([name in WHOLE for name in names])
    first = [
        (np.where(whole, least, low), np.where(whole, most, high))
        for (least, most), (low, high) in zip(first, ends, strict=True)
    ]
    return Known(
        at.digest,
        tuple(item._replace(after=job.seconds(item.quantity, seen[n])) for n, item in enumerate(settled)),
        dict(zip(keys, means.tolist(), strict=True)),
        _gains_of(keys, ends, noise),
        _gains_of(keys, first, noise),
        {group[0].response_key: _size(group) for group in free},
    )


class _Job(NamedTuple):
    """A measured job whose iterations do not differ, the doubts that can be moved, the quantities that were measured,
    and its predicted seconds."""

    steady: Scenario
    free: Sequence[Sequence[Doubt]]
    names: Sequence[str]
    time: float

    def scaled(self, name: str, seconds: float) -> float:
        """A whole iteration as the logarithm of its time, and a phase, which may be 0, as a share of the predicted
        one."""
        return math.log(seconds / self.time) if name in WHOLE else seconds / self.time

    def seconds(self, name: str, scaled: float) -> float:
        """The seconds of a scaled quantity."""
        return self.time * (math.exp(scaled) if name in WHOLE else float(scaled))

    def seen(self, made: Simulated) -> Floats:
        """All quantities of a simulation, scaled."""
        return np.array([self.scaled(name, simulated_seconds(name, made)) for name in self.names])

    def changes(self, moves: Sequence[Mapping[_Key, float]], begin: Mapping[_Key, float] = {}) -> list[Floats]:
        """What each move of doubts from where they `begin` changes; nothing where the parts no longer fit together."""
        made = simulate_batch([moved(self.steady, self.free, ends) for ends in (begin, *moves)])
        base = self.seen(unless_refused(made[0]))
        return [np.zeros(len(base)) if isinstance(each, InputError) else self.seen(each) - base for each in made[1:]]

    def ends(self, means: Mapping[_Key, float] = {}) -> list[tuple[Floats, Floats]]:
        """What each doubt changes at its lower and at its upper end from its mean, in every quantity."""
        keys = [group[0].response_key for group in self.free]
        moves = [{**means, key: means.get(key, 0.0) + end} for key in keys for end in (-1.0, 1.0)]
        made = self.changes(moves, means)
        return list(zip(made[::2], made[1::2], strict=True))


def _slopes(ends: Sequence[tuple[Floats, Floats]], signs: Floats) -> Floats:
    """The slope of every quantity in every doubt: of the end that moves the quantity the way of the sign."""
    rows = [
        [Response(("", ""), (), float(low[n]), float(high[n])).towards(math.copysign(1.0, sign)) for low, high in ends]
        for n, sign in enumerate(signs.tolist())
    ]
    return np.array(rows).reshape(len(rows), len(ends))


def _weigh_each(slopes: Floats, values: Floats) -> Floats:
    return np.array([weigh(row, values) for row in slopes])


def _gains_of(keys: Sequence[_Key], ends: Sequence[tuple[Floats, Floats]], noise: Floats) -> dict[_Key, Gains]:
    """The gains of each doubt about its lower and its upper end."""
    sides = [_gains(_slopes(ends, np.full(len(noise), side)), noise).T.tolist() for side in (-1.0, 1.0)]
    return {key: tuple(zip(below, above, strict=True)) for key, below, above in zip(keys, *sides, strict=True)}


def _gains(slopes: Floats, noise: Floats) -> Floats:
    """The gains (n, d) of each measured quantity in every doubt, one quantity after the other: what those before it
    left of its slopes C s, over the root of s' C s and its noise, where C is the covariance that they left."""
    made = np.zeros_like(slopes)
    for place, row in enumerate(slopes):
        left = row - weigh_rows(_weigh_each(made[:place], row), made[:place])
        made[place] = left / math.sqrt(weigh(row, left) + noise[place])
    return made


def _refuse_impossible(values: Mapping[str, float], at: Scenario) -> None:
    """Raise InputError where a job of this size cannot have what was measured."""
    whole = next((values[name] for name in WHOLE if name in values), math.inf)
    for name, seconds in values.items():
        if at.cluster.workers == 1 and name in ("communication", "exposed_communication"):
            hint = "one worker exchanges nothing; say at which settings it was measured, as in `at: {cluster.nodes: 8}`"
            raise InputError(Problem(f"measured.{name}", "none on one worker", show_time(seconds), hint))
        if name != "communication" and seconds > whole:
            what = f"at most the whole iteration, {show_time(whole)}"
            raise InputError(Problem(f"measured.{name}", what, show_time(seconds), "a phase is a part of it"))


def _refuse_far(settled: Sequence[SettledQuantity]) -> None:
    """Raise InputError where a measurement is farther off than what nobody knows of the job explains."""
    problems = []
    for item in settled:
        if abs(item.off) > _FARTHEST:
            hint = (
                f"that is {abs(item.off):.1f} half-widths of its 90 % interval away, which no doubt of this job "
                "explains: check the unit, the batch, the number of GPUs and the method, or say at which settings it "
                "was measured (`at`); without `measured` it is predicted all the same"
            )
            what = f"a time near the {show_time(item.before)} that are predicted of this job"
            problems.append(Problem(f"measured.{item.quantity}", what, show_time(item.measured), hint))
    if problems:
        raise InputError(problems)
