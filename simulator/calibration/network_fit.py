"""The result of `calibrate network`: laws with their errors, curves, and the document that states them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from simulator.calibration.collectives import CollectiveTimings, Key
from simulator.calibration.fits.accuracy import FittedLine, errors_as_dict, misses
from simulator.calibration.fits.families import Repeats
from simulator.calibration.fits.selection import CurveFit
from simulator.calibration.laws import FREE, LinkLaw, NcclLaw, all_seconds, all_times, split_seconds, term_of
from simulator.fabrics.base import Fabric
from simulator.models.curves import Floats
from simulator.models.linear_algebra import least_squares
from simulator.records import Record, replace

Law = LinkLaw | NcclLaw
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


def part_errors(law: Law, series: Mapping[Key, Repeats]) -> PartErrors:
    """Errors of `law` on `series`: r and s that bring r w + s (t - w) closest to what was measured, and what is left.

    t: seconds by the law; w: those that a higher rate of all links saves. A timing shows the part that takes more than
    half of its time. Every octave of payloads counts alike; errors beyond 20 % count by their size, not by its square
    (soft L1).
    """
    rates = [name for name in FREE if name.endswith("bandwidth") and ("." not in name or law.fabric.intra_node)]
    parts = [split_seconds(law, key, item.sizes, rates) for key, item in series.items()]
    seconds, wire = (np.concatenate(part) for part in zip(*parts, strict=True))
    wire = np.clip(wire, 0.0, seconds)
    rest = seconds - wire
    measured = all_seconds(series)
    octaves = [np.unique(np.round(np.log2(item.sizes)), False, True, True) for item in series.values()]
    weight = np.concatenate([1 / counts[place] for _, place, counts in octaves])

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


LARGE = float(2**20)


def law_errors(law: Law, series: Mapping[Key, Repeats]) -> Floats:
    """Signed relative errors of a law at every size of the series; none where there are none."""
    return all_times(law, series) / all_seconds(series) - 1 if series else np.zeros(0)


def _pool(errors: Iterable[Floats]) -> Floats:
    return np.concatenate([np.zeros(0), *errors])


class Fit(Record):
    """One law fitted to all series of an algorithm, and its errors on measurements left out of the fit.

    `left_out`: errors at each worker count of the law fitted to the other counts, where these determine the bandwidth;
    `nodes_left_out`: the same for numbers of nodes; `beyond`: errors in the upper quarter of the sizes (log axis) of
    the law fitted to the rest; `fitted`: errors on the measurements that the law was fitted to; `between`: errors of
    NCCL's law at every second size, fitted to the others; `parts`: the same by rate and start-up.
    """

    law: Law
    free: tuple[str, ...]
    left_out: Mapping[int, Floats]
    nodes_left_out: Mapping[int, Floats]
    beyond: Floats
    fitted: Floats
    between: Floats
    parts: PartErrors

    @property
    def worker_errors(self) -> Floats:
        """Errors at all worker counts, each left out in turn."""
        return _pool(self.left_out.values())

    @property
    def held(self) -> Floats:
        """Errors at numbers of nodes or workers left out, or where there are none, at sizes left out.

        These are every second size for NCCL, whose steps change with the size, and sizes beyond those fitted otherwise.
        """
        groups = self.nodes_left_out or self.left_out
        return _pool(groups.values()) if groups else self.between if len(self.between) else self.beyond

    def as_dict(self) -> Mapping[str, Any]:
        """The part of the result document that states it."""
        terms = {name: term_of(self.law.fabric, name) for name in self.free}
        return {
            "terms": {name: value if value < math.inf else None for name, value in terms.items()},
            "unseen": list(self.law.unseen),
            "fitted": errors_as_dict(self.fitted),
            "size_interpolation": errors_as_dict(self.between),
            "size_extrapolation": errors_as_dict(self.beyond),
            "worker_extrapolation": {str(count): errors_as_dict(errors) for count, errors in self.left_out.items()},
            "node_extrapolation": {str(n): errors_as_dict(errors) for n, errors in self.nodes_left_out.items()},
            "nccl": self.law.fabric.nccl.model_dump(exclude_defaults=True),
        }


class LawFit(Record):
    """The link law of one algorithm: `links` has terms of the links only, `beside` also the cost of a call.

    One worker count cannot separate these, so `beside` needs several; it is chosen where it has the smaller error at
    worker counts left out.
    """

    algorithm: str
    series: Mapping[Key, Repeats]
    links: Fit
    beside: Fit | None

    @property
    def chosen(self) -> Fit:
        """The law that goes into the config."""
        if self.beside is None or not (self.beside.left_out and self.links.left_out):
            return self.links
        closer = np.abs(self.beside.worker_errors).mean() < np.abs(self.links.worker_errors).mean()
        return self.beside if closer else self.links

    def with_fabric(self, fabric: Fabric) -> LawFit:
        """This fit with further terms in the fabric of the chosen law."""
        chosen = replace(self.chosen, law=replace(self.chosen.law, fabric=fabric))
        return replace(self, links=chosen) if self.chosen is self.links else replace(self, beside=chosen)


class NetworkFit(Record):
    """The result of `calibrate network`: curves by key, and a law per algorithm, of which the config gets the first."""

    base: Fabric
    measured: CollectiveTimings
    curves: Mapping[Key, CurveFit]
    laws: tuple[LawFit, ...]

    @property
    def fabric(self) -> Fabric:
        """The base fabric with the fitted terms."""
        return self.laws[0].chosen.law.fabric

    @property
    def shows_links(self) -> bool:
        """Whether the measurements show the rate of the links: sums in the switch of a node do not."""
        return "bandwidth" not in self.laws[0].chosen.law.unseen

    @property
    def lines(self) -> list[FittedLine]:
        """A line of the figure for each curve."""
        return [fit.line(key.text) for key, fit in self.curves.items()]

    @property
    def warnings(self) -> list[str]:
        """Laws that do not describe the measurements they were fitted to, in words."""
        made = []
        if not self.shows_links:
            rate = f"{self.fabric.bandwidth / 1e9:.4g} GB/s"
            made.append(
                "all of these sums were made in the switch (NVLS), which does not show the rate of the links: it stays "
                f"at {rate} with the width of links that nobody measured; for rings, measure an all_gather too"
            )
        for law in self.laws:
            error = float(np.abs(law.chosen.fitted).mean())
            then = (
                "for other sizes and numbers of workers it is a guess; give the links of the machine with --fabric, "
                "or fit fewer series together (--where)"
            )
            made += misses(f"the law of {law.algorithm} misses its own measurements", error, then)
        return made

    def as_dict(self) -> Mapping[str, Any]:
        """The result document: laws, curves, pooled errors, and what could not be read."""
        held = np.concatenate([fit.held_errors for fit in self.curves.values()])
        sizes = np.concatenate([fit.held_sizes for fit in self.curves.values()])
        chosen = [law.chosen for law in self.laws]
        return {
            "laws": [
                {
                    "algorithm": law.algorithm,
                    "series": [key.text for key in law.series],
                    "chosen": "links" if law.chosen is law.links else "beside",
                    "links": law.links.as_dict(),
                    "beside": law.beside.as_dict() if law.beside else None,
                }
                for law in self.laws
            ],
            "curves": [
                {
                    "id": key.text,
                    "sizes": len(fit.measured.sizes),
                    **fit.as_dict(),
                    "interpolation_from_1_mib": errors_as_dict(fit.held_errors[fit.held_sizes >= LARGE]),
                }
                for key, fit in self.curves.items()
            ],
            "interpolation": errors_as_dict(held),
            "interpolation_from_1_mib": errors_as_dict(held[sizes >= LARGE]),
            "size_extrapolation": errors_as_dict(_pool(fit.beyond for fit in chosen)),
            "worker_extrapolation": errors_as_dict(_pool(fit.worker_errors for fit in chosen)),
            "node_extrapolation": errors_as_dict(_pool(e for fit in chosen for e in fit.nodes_left_out.values())),
            "warnings": self.warnings,
            **self.measured.as_dict(),
        }
