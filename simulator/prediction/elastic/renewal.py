"""Goodput under failures in closed form: renewals of a step, of a checkpoint, and of the machines themselves."""

from __future__ import annotations

import math

import numpy as np

from simulator.models.curves import Floats

_MOST = 700.0
"""Exponents beyond which nothing is ever completed."""


def completion_time(seconds: float, rate: float, lost: float) -> float:
    """Mean seconds until work of so many seconds is completed, if it begins anew after each failure.

    (e^(rate t) - 1) (1 / rate + lost) for failures at a constant `rate`, each of which costs `lost` seconds more: the
    renewal argument of Young (CACM 17, 1974) and Daly (FGCS 22, 2006). Infinite where it never ends.
    """
    if not rate * seconds:
        return seconds
    return math.expm1(rate * seconds) * (1 / rate + lost) if rate * seconds < _MOST else math.inf


def checkpoint_goodput(interval: float, cost: float, recovery: float, rate: float) -> float:
    """Share of the time that is work which lasts, with a checkpoint of `cost` seconds after each `interval`.

    Failures of the whole cluster come at `rate`; each is followed by a `recovery`, which failures begin anew, too:
    tau / (M e^(R/M) (e^((tau + delta)/M) - 1)) with M = 1 / rate (Daly 2006, equation 20).
    """
    if not rate:
        return interval / (interval + cost)
    if rate * (recovery + interval + cost) > _MOST:
        return 0.0
    return interval * rate / (math.exp(rate * recovery) * math.expm1(rate * (interval + cost)))


def best_interval(cost: float, rate: float) -> float:
    """The checkpoint interval with the largest goodput, to Daly's order (2006, equation 37), in seconds.

    sqrt(2 delta M) (1 + sqrt(delta / 2M) / 3 + (delta / 2M) / 9) - delta for delta < 2 M, otherwise M; the first factor
    is Young's (1974). Infinite without failures.
    """
    if not rate:
        return math.inf
    mean = 1 / rate
    if cost >= 2 * mean:
        return mean
    share = cost / (2 * mean)
    return math.sqrt(2 * cost * mean) * (1 + math.sqrt(share) / 3 + share / 9) - cost


def present_nodes(nodes: int, up: float, down: float) -> Floats:
    """Probabilities (nodes + 1,) of how many nodes are there, each up for a mean of `up` seconds and down for `down`.

    Binomial, whatever the distributions of the two (Engset's formula; insensitivity of the repair model).
    """
    if up / (up + down) == 1:
        certain: Floats = np.eye(nodes + 1)[nodes]
        return certain
    there = up / (up + down)
    count = np.arange(nodes + 1)
    log = [math.lgamma(nodes + 1) - math.lgamma(k + 1) - math.lgamma(nodes - k + 1) for k in count.tolist()]
    made: Floats = np.exp(np.array(log) + count * math.log(there) + (nodes - count) * math.log1p(-there))
    return made


def continued_goodput(
    nodes: int, step: float, *, mtbf: float, healing: float, detection: float, least: int = 1
) -> float:
    """Share of the undisturbed progress of nodes that go on with fewer after a failure, which loses one step.

    sum over n >= `least` of (P(n) - D P(n + 1) (n + 1) / M) (n / N) t / C(n), with P of `present_nodes`, whose nodes
    are away for D + `healing` seconds. The subtrahend is the share of the time in which n nodes do nothing, since a
    failure is not noticed for D seconds (`detection`). C is the `completion_time` of a step of t seconds at the rate
    n / M, with M the `mtbf` of a node.
    """
    present = np.append(present_nodes(nodes, mtbf, healing + detection), 0.0).tolist()
    total = 0.0
    for count in range(max(1, least), nodes + 1):
        working = max(0.0, present[count] - detection * present[count + 1] * (count + 1) / mtbf)
        total += working * count / nodes * step / completion_time(step, count / mtbf, 0.0)
    return total
