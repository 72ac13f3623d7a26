"""Errors of predictions, in the figures that every fit reports."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from simulator.errors import Problem
from simulator.models.curves import Floats
from simulator.models.widths import student_95
from simulator.records import Record


def errors_as_dict(signed: Floats | Sequence[float]) -> dict[str, float | int] | None:
    """Figures of signed relative errors (m,), predicted / measured - 1, as part of a result document.

    How many there are; mean, median, 95th percentile and maximum of their absolute values; and `bias`, the signed mean
    (above 0: predicted too slow). None where there are no errors.
    """
    values = np.asarray(signed, dtype=float)
    if not len(values):
        return None
    size = np.abs(values)
    return {
        "n": len(values),
        "mape": float(size.mean()),
        "median_ape": float(np.median(size)),
        "p95_ape": float(np.percentile(size, 95)),
        "max_ape": float(size.max()),
        "bias": float(values.mean()),
    }


def mean_error(signed: Floats) -> float | None:
    """The mean absolute value of signed errors; None where there are none."""
    return float(np.abs(signed).mean()) if len(signed) else None


POOR, USELESS = 0.2, 1.0
"""Mean relative errors above which a fit is warned about, and above which no config is written."""


def misses(what: str, error: float, then: str) -> list[str]:
    """The warning of a fit that is far from measurements, with what follows; none where it is near."""
    return [f"{what} by {100 * error:.0f} % on average: {then}"] if error > POOR else []


def refuse_useless(command: str, what: str, error: float, hint: str) -> list[Problem]:
    """The problem with a fit that says nothing about its measurements; none where it does."""
    if error <= USELESS:
        return []
    return [Problem(command, f"{what} within {100 * USELESS:.0f} %", f"{100 * error:.0f} % on average", hint)]


class FittedLine(Record):
    """One line of a figure: measured sizes and seconds (m,), and the seconds that the fit gives for these sizes."""

    label: str
    sizes: Floats
    measured: Floats
    fitted: Floats


def root_mean_square(values: Sequence[float]) -> float:
    """Of one or more values."""
    return math.sqrt(math.fsum(value**2 for value in values) / len(values))


PRIOR = 2.0
"""Measurements that the spread over all groups counts for, beside a group's own."""


def width_left_out(errors: Sequence[float], pooled: Mapping[str, Sequence[float]]) -> float:
    """Factor that holds nine of ten of what was left out, either way; 10 where nothing was.

    exp(t s), s^2 = (sum of e_i^2 + m s_0^2) / (n + m): the errors e_i (root mean square of logarithms) of the n members
    of a group that were left out in turn, with the mean square s_0^2 of all groups (`pooled`) counting for m = `PRIOR`
    more; t is Student's for n + m degrees of freedom (95 %).
    """
    every = [value for values in pooled.values() for value in values]
    if not every:
        return 10.0
    prior = math.fsum(value**2 for value in every) / len(every)
    weight = len(errors) + PRIOR
    variance = (math.fsum(value**2 for value in errors) + PRIOR * prior) / weight
    return math.exp(student_95(weight) * math.sqrt(variance))
