"""How far a law of links is from collectives that it was not fitted to: in the rate, and in the start-up."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from simulator.calibration.collectives import Key
from simulator.calibration.fits.families import Repeats
from simulator.calibration.link_law import LinkLaw
from simulator.calibration.nccl_law import NcclLaw, split_seconds
from simulator.calibration.terms import FREE
from simulator.models.curves import Floats
from simulator.models.linear_algebra import least_squares
from simulator.records import Record

_FEWEST = 3
_HOLD = 0.05  # pull of both factors towards 1, which decides where the timings do not
_SOFT = 0.2  # errors from which a timing counts less


class PartErrors(Record):
    """Errors of a law in parts, as logarithms: 0.1 is right within 10 %. None where too few timings show a part.

    Both parts have a common factor over all timings of a machine, and what is left: error = hypot(ln factor, rest).

    - `timings`: how many were compared.
    - `rate`: of the seconds that bytes take on the links.
    - `start_up`: of all other seconds of a collective.
    """

    timings: int
    rate: float | None
    start_up: float | None


def part_errors(law: LinkLaw | NcclLaw, series: Mapping[Key, Repeats]) -> PartErrors:
    """Errors of `law` on `series`: r and s that bring r w + s (t - w) closest to what was measured, and what is left.

    t: seconds by the law; w: those that a higher rate of all links saves. A timing shows the part that takes more than
    half of its time. Every octave of payloads counts alike; errors beyond 20 % count by their size, not by its square
    (soft L1).
    """
    parts = [_parts(law, key, item.sizes) for key, item in series.items()]
    wire, rest = (np.concatenate([part[place] for part in parts]) for place in (0, 1))
    measured = np.concatenate([item.seconds for item in series.values()])
    weight = np.concatenate([_octave_weights(item.sizes) for item in series.values()])

    def residuals(logs: Floats) -> Floats:
        rate, start_up = np.exp(logs)
        off = np.log((rate * wire + start_up * rest) / measured)
        return np.concatenate([np.sqrt(weight) * off, _HOLD * logs])

    logs, _ = least_squares(residuals, np.zeros(2), soft=_SOFT)
    on_links, whole = np.exp(logs[0]) * wire, np.exp(logs[0]) * wire + np.exp(logs[1]) * rest
    off = np.log(whole / measured)

    def error(factor: float, shown: np.ndarray) -> float | None:
        if shown.sum() < _FEWEST:
            return None
        left = float(np.sum(weight[shown] * off[shown] ** 2) / weight[shown].sum())
        return math.hypot(factor, math.sqrt(left))

    of_bytes = on_links > whole / 2
    return PartErrors(len(measured), error(float(logs[0]), of_bytes), error(float(logs[1]), ~of_bytes))


def _parts(law: LinkLaw | NcclLaw, key: Key, sizes: Floats) -> tuple[Floats, Floats]:
    """Seconds that bytes take on the links, and all others."""
    rates = [name for name in FREE if name.endswith("bandwidth") and ("." not in name or law.fabric.intra_node)]
    whole, wire = split_seconds(law, key, sizes, rates)
    wire = np.clip(wire, 0.0, whole)
    return wire, whole - wire


def _octave_weights(sizes: Floats) -> Floats:
    """Weights with which every octave of payloads counts as one timing."""
    _, octave, counts = np.unique(np.round(np.log2(sizes)), return_inverse=True, return_counts=True)
    return np.asarray(1 / counts[octave])
