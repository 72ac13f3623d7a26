"""Calibration of a network: a link law, and a curve for every measured worker count."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pydantic_core import PydanticCustomError

from simulator.calibration.collectives import Key, Measured
from simulator.calibration.fits.accuracy import Errors, FittedLine, errors_as_dict
from simulator.calibration.fits.families import transfer_families
from simulator.calibration.fits.selection import CurveFit, Repeats, fit_curve
from simulator.calibration.link_law import LinkLaw, fit_law, law_errors
from simulator.calibration.nccl_law import (
    NcclLaw,
    describe_library,
    fit_nccl_law,
    step_inside,
    summed_in_switch,
    with_sums_in_switch,
)
from simulator.calibration.terms import CALL_TERMS, FREE, term_of
from simulator.errors import InputError, Problem
from simulator.fabrics.base import Fabric
from simulator.models.curves import Floats

LARGE = float(2**20)
_LEAST_SIZES = 3
_UPPER = 0.75
NCCL = "nccl"
_ORDER = (NCCL, "ring")
POOR = 0.2
"""Mean relative error on its own measurements above which a law is warned about."""
USELESS = 1.0
"""The same error above which no config is written."""


@dataclass(frozen=True, slots=True)
class Fit:
    """One law fitted to all series of an algorithm, and its errors on measurements left out of the fit.

    `left_out`: errors at each worker count of the law fitted to the other counts, where these determine the bandwidth;
    `nodes_left_out`: the same for numbers of nodes; `beyond`: errors in the upper quarter of the sizes (log axis) of
    the law fitted to the rest; `fitted`: errors on the measurements that the law was fitted to; `between`: errors at
    every second size of the law fitted to the others.
    """

    law: LinkLaw | NcclLaw
    free: tuple[str, ...]
    left_out: Mapping[int, Floats]
    nodes_left_out: Mapping[int, Floats]
    beyond: Floats
    fitted: Floats
    between: Floats | None = None

    @property
    def worker_errors(self) -> Floats:
        """Errors at all worker counts, each left out in turn."""
        return np.concatenate([np.zeros(0), *self.left_out.values()])

    @property
    def held(self) -> Floats:
        """Errors at numbers of nodes or workers left out, or where there are none, at sizes left out.

        These are every second size for NCCL, whose steps change with the size, and sizes beyond those fitted otherwise.
        """
        if self.nodes_left_out:
            return np.concatenate(list(self.nodes_left_out.values()))
        if self.left_out:
            return self.worker_errors
        return self.between if self.between is not None else self.beyond


@dataclass(frozen=True, slots=True)
class LawFit:
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
        """The same with further terms in the fabric of the chosen law."""
        chosen = replace(self.chosen, law=replace(self.chosen.law, fabric=fabric))
        return replace(self, links=chosen) if self.chosen is self.links else replace(self, beside=chosen)


@dataclass(frozen=True, slots=True)
class NetworkFit:
    """The result of `calibrate network`: curves by key, and a law per algorithm, of which the config gets the first."""

    base: Fabric
    measured: Measured
    curves: Mapping[Key, CurveFit]
    laws: tuple[LawFit, ...]

    @property
    def fabric(self) -> Fabric:
        """The base fabric with the fitted terms."""
        return self.laws[0].chosen.law.fabric

    @property
    def law_mape(self) -> float | None:
        """Held-out error of the law in the config."""
        errors = Errors.of(self.laws[0].chosen.held)
        return errors.mape if errors else None

    @property
    def lines(self) -> list[FittedLine]:
        """A line of the figure for each curve."""
        return [
            FittedLine(key.text, fit.measured.sizes, fit.measured.seconds, fit.chosen.predict(fit.measured.sizes))
            for key, fit in self.curves.items()
        ]

    @property
    def warnings(self) -> list[str]:
        """Laws that do not describe the measurements they were fitted to, in words."""
        made = []
        for law in self.laws:
            error = float(np.abs(law.chosen.fitted).mean())
            if error > POOR:
                made.append(
                    f"the law of {law.algorithm} misses its own measurements by {100 * error:.0f} % on average: for "
                    "other sizes and numbers of workers it is a guess; give the links of the machine with --fabric, "
                    "or fit fewer series together (--where)"
                )
        return made

    def as_dict(self) -> dict[str, Any]:
        """The result document: laws, curves, pooled errors, and what could not be read."""
        held = np.concatenate([fit.held_errors for fit in self.curves.values()])
        sizes = np.concatenate([fit.held_sizes for fit in self.curves.values()])
        return {
            "laws": [_law_as_dict(law) for law in self.laws],
            "curves": [_curve_as_dict(key, fit) for key, fit in self.curves.items()],
            "interpolation": errors_as_dict(held),
            "interpolation_from_1_mib": errors_as_dict(held[sizes >= LARGE]),
            "size_extrapolation": errors_as_dict(np.concatenate([law.chosen.beyond for law in self.laws])),
            "worker_extrapolation": errors_as_dict(np.concatenate([law.chosen.worker_errors for law in self.laws])),
            "node_extrapolation": errors_as_dict(
                np.concatenate([np.zeros(0), *(e for law in self.laws for e in law.chosen.nodes_left_out.values())])
            ),
            "warnings": self.warnings,
            "problems": [str(problem) for problem in self.measured.problems],
            "notes": self.measured.notes,
            "digests": self.measured.digests,
        }


def calibrate_network(
    measured: Measured,
    base: Fabric,
    *,
    free: Sequence[str] = (),
    algorithms: Mapping[str, str] | None = None,
    law_from: float = LARGE,
    hardware: bool = True,
) -> NetworkFit:
    """Fit curves to every series of two sizes or more, and link laws to those of payloads of at least `law_from` bytes.

    Where NCCL chose the algorithm of series between nodes, and no terms to be fitted are given (`free`), the law is
    that of NCCL, for all sizes. `hardware`: `base` describes the machine that was measured, and is not only a start.

    `algorithms`: the topology of each primitive (default: the one that the log forced, otherwise ring). Where some
    series of an algorithm were forced and others were the choice of NCCL, the law is fitted to the forced ones only.
    Raises InputError where no series has enough sizes for a law.
    """
    series = measured.series()
    alone = [key for key, item in series.items() if len(item.sizes) < 2]
    measured.notes.extend(f"{key.text} is left out: it has one size only" for key in alone)
    series = {key: item for key, item in series.items() if key not in alone}
    curves = {key: fit_curve(item, transfer_families) for key, item in series.items()}
    groups: dict[str, dict[Key, Repeats]] = {}
    across = any(key.topology == NCCL and key.workers > key.gpus_per_node for key in series)
    for key, item in series.items():
        # Inside one node NCCL's rings are those of the links; between nodes it changes algorithm and protocol.
        chosen = NCCL if across and not free else "ring"
        name = (algorithms or {}).get(key.primitive) or (chosen if key.topology == NCCL else key.topology)
        groups.setdefault(name, {})[key] = item
    laws = []
    in_switch: dict[Key, Repeats] = {}
    free_given, device, free = bool(free), " ".join(measured.devices), tuple(free) or FREE[:2]
    for name, members in sorted(groups.items(), key=lambda pair: _ORDER.index(pair[0]) if pair[0] in _ORDER else 9):
        used = members if name == NCCL else _select_large_sizes(_prefer_forced(members), law_from)
        if used and name == NCCL:
            _check_feasible(used, NcclLaw(base, device))
            described = describe_library(base, measured.settings, hardware)
            laws.append(LawFit(name, used, _fit_nccl(used, described, device), None))
        elif used:
            if name == "ring" and not (algorithms or free_given):
                in_switch = summed_in_switch(used, base, device)
                used = {key: item for key, item in used.items() if key not in in_switch} or used
            _check_feasible(used, LinkLaw(base, name))
            several = len({key.workers for key in used}) > 1
            beside = _fit(used, base, name, tuple(dict.fromkeys((*free, *CALL_TERMS)))) if several else None
            terms, start = free, base
            if not (several or free_given) and all(key.topology == NCCL for key in used):
                # One worker count does not separate steps from calls; NCCL's constant for a step inside a node does.
                terms = ("bandwidth", "collective_start_up")
                start = base.model_copy(update={"latency": base.latency or step_inside()})
            laws.append(LawFit(name, used, _fit(used, start, name, tuple(terms)), beside))
    if not laws:
        what = f"a series of {_LEAST_SIZES} sizes or more"
        raise InputError(Problem("calibrate network", what, f"{len(series) + len(alone)} shorter ones"))
    if in_switch and laws[0].algorithm == "ring":
        laws[0] = laws[0].with_fabric(with_sums_in_switch(in_switch, laws[0].chosen.law.fabric, device))
    made = NetworkFit(base, measured, curves, tuple(laws))
    _refuse_poor(made)
    return made


def _refuse_poor(fit: NetworkFit) -> None:
    """Raises InputError where the law that goes into the config says nothing about the measurements."""
    law = fit.laws[0]
    error = float(np.abs(law.chosen.fitted).mean())
    if error > USELESS:
        hint = "give the machine with --fabric (NICs, links inside a node), or fit fewer series together (--where)"
        what = f"a law of {law.algorithm} that describes the measurements within {100 * USELESS:.0f} %"
        raise InputError(Problem("calibrate network", what, f"{100 * error:.0f} % on average", hint))


def _check_feasible(series: Mapping[Key, Repeats], law: LinkLaw | NcclLaw) -> None:
    """Raises InputError where the fabric is too small for a series, or the algorithm has no such primitive."""
    for key, item in series.items():
        try:
            law.time(key, item.sizes[:1])
        except PydanticCustomError as error:
            about = error.context or {}
            where = f"{key.text} by {law.algorithm} on {law.fabric.kind}"
            problem = Problem(where, about.get("what", ""), about.get("got", ""), about.get("hint", ""))
            raise InputError(problem) from None


def _fit_nccl(series: Mapping[Key, Repeats], base: Fabric, device: str) -> Fit:
    """The law of NCCL, and its errors where worker counts, numbers of nodes and the largest sizes were left out."""

    def left_out(of: Callable[[Key], int]) -> dict[int, Floats]:
        made, counts = {}, sorted({of(key) for key in series})
        for count in counts if len(counts) > 1 else ():
            others = {key: item for key, item in series.items() if of(key) != count}
            if any(key.workers > key.gpus_per_node for key in others):
                held = {key: item for key, item in series.items() if of(key) == count}
                made[count] = law_errors(fit_nccl_law(others, base, device), held)
        return made

    lower, upper = _split_sizes(series)
    beyond = law_errors(fit_nccl_law(lower, base, device), upper) if lower else np.zeros(0)
    law = fit_nccl_law(series, base, device)
    nodes = left_out(lambda key: key.workers // key.gpus_per_node)
    odd, even = ({key: _every_second(item, start) for key, item in series.items()} for start in (0, 1))
    between = law_errors(fit_nccl_law(odd, base, device), even)
    by_workers = left_out(lambda key: key.workers)
    return Fit(law, ("bandwidth",), by_workers, nodes, beyond, law_errors(law, series), between)


def _every_second(item: Repeats, start: int) -> Repeats:
    return Repeats(item.sizes[start::2], item.seconds[start::2], item.spread)


def _split_sizes(series: Mapping[Key, Repeats]) -> tuple[dict[Key, Repeats], dict[Key, Repeats]]:
    """The series below, and above, three quarters of the range of their sizes on a log axis."""
    lower, upper = {}, {}
    for key, item in series.items():
        logs = np.log(item.sizes)
        above = logs > logs[0] + _UPPER * (logs[-1] - logs[0])
        if (~above).sum() >= _LEAST_SIZES:
            lower[key] = Repeats(item.sizes[~above], item.seconds[~above], item.spread)
            upper[key] = Repeats(item.sizes[above], item.seconds[above], item.spread)
    return lower, upper


def _fit(series: Mapping[Key, Repeats], base: Fabric, algorithm: str, free: tuple[str, ...]) -> Fit:
    left_out = {}
    counts = sorted({key.workers for key in series})
    for count in counts if len(counts) > 1 else ():
        others = {key: item for key, item in series.items() if key.workers != count}
        law = fit_law(others, base, algorithm, free)
        if not any(name.endswith("bandwidth") and name not in CALL_TERMS for name in law.unseen):
            held = {key: item for key, item in series.items() if key.workers == count}
            left_out[count] = law_errors(law, held)
    lower, upper = _split_sizes(series)
    beyond = law_errors(fit_law(lower, base, algorithm, free), upper) if lower else np.zeros(0)
    law = fit_law(series, base, algorithm, free)
    return Fit(law, free, left_out, {}, beyond, law_errors(law, series))


def _prefer_forced(series: Mapping[Key, Repeats]) -> dict[Key, Repeats]:
    """The series whose algorithm was forced, where there are any."""
    forced = {key: item for key, item in series.items() if key.topology != "nccl"}
    return forced or dict(series)


def _select_large_sizes(series: Mapping[Key, Repeats], law_from: float) -> dict[Key, Repeats]:
    """Sizes from `law_from` on, or all sizes of a series that has too few such."""
    made = {}
    for key, item in series.items():
        large = item.sizes >= law_from
        large = large if large.sum() >= _LEAST_SIZES else np.ones(len(large), dtype=bool)
        if large.sum() >= _LEAST_SIZES:
            made[key] = Repeats(item.sizes[large], item.seconds[large], item.spread)
    return made


def _law_as_dict(law: LawFit) -> dict[str, Any]:
    return {
        "algorithm": law.algorithm,
        "series": [key.text for key in law.series],
        "chosen": "links" if law.chosen is law.links else "beside",
        "links": _fit_as_dict(law.links),
        "beside": _fit_as_dict(law.beside) if law.beside else None,
    }


def _fit_as_dict(fit: Fit) -> dict[str, Any]:
    terms = {name: term_of(fit.law.fabric, name) for name in fit.free}
    return {
        "terms": {name: value if value < math.inf else None for name, value in terms.items()},
        "unseen": list(fit.law.unseen),
        "fitted": errors_as_dict(fit.fitted),
        "size_interpolation": errors_as_dict(fit.between) if fit.between is not None else None,
        "size_extrapolation": errors_as_dict(fit.beyond),
        "worker_extrapolation": {str(count): errors_as_dict(errors) for count, errors in fit.left_out.items()},
        "node_extrapolation": {str(count): errors_as_dict(errors) for count, errors in fit.nodes_left_out.items()},
        "nccl": fit.law.fabric.nccl.model_dump(exclude_defaults=True),
    }


def _curve_as_dict(key: Key, fit: CurveFit) -> dict[str, Any]:
    sizes = fit.measured.sizes
    return {
        "id": key.text,
        "sizes": len(sizes),
        "range": [float(sizes[0]), float(sizes[-1])],
        "family": fit.chosen.family,
        "interpolation": errors_as_dict(fit.held_errors),
        "interpolation_from_1_mib": errors_as_dict(fit.held_errors[fit.held_sizes >= LARGE]),
        "fitted": fit.fitted.as_dict() if fit.fitted else None,
        "repeat_spread": fit.measured.spread,
    }
