"""Calibration of a network: a link law, and a curve for every measured worker count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.calibration.accuracy import Drawn, Errors, described
from simulator.calibration.collectives import Key, Measured
from simulator.calibration.families import transfers
from simulator.calibration.link_law import LinkLaw, fit_law, law_errors, term
from simulator.calibration.selection import CurveFit, Repeats, fit_curve
from simulator.errors import InputError, Problem
from simulator.fabrics.base import Fabric
from simulator.models.curves import Floats

LARGE = float(2**20)
_LEAST_SIZES = 3
_UPPER = 0.75


@dataclass(frozen=True, slots=True)
class LawFit:
    """The link law of one algorithm, as a config can carry it and with the terms that it can't.

    `left_out`: errors at each worker count of laws fitted to the other counts, for both, where these counts show the
    bandwidth that is asked for; `beyond`: errors in the upper
    quarter of the sizes (log axis) of the law fitted below.
    """

    algorithm: str
    series: Mapping[Key, Repeats]
    plain: LinkLaw
    extended: LinkLaw
    left_out: Mapping[int, tuple[Floats, Floats]]
    beyond: Floats

    def worker_errors(self, extended: bool) -> Floats:
        """Errors at all worker counts, each left out in turn."""
        return np.concatenate([np.zeros(0), *(pair[extended] for pair in self.left_out.values())])


@dataclass(frozen=True, slots=True)
class NetworkFit:
    """What `calibrate network` found: curves by key, and a law per algorithm; the first one is the config's."""

    base: Fabric
    free: tuple[str, ...]
    measured: Measured
    curves: Mapping[Key, CurveFit]
    laws: tuple[LawFit, ...]

    @property
    def fabric(self) -> Fabric:
        """The base with the fitted terms."""
        return self.laws[0].plain.fabric

    @property
    def law_mape(self) -> float | None:
        """Held-out error of the config's law: at worker counts left out, or else at sizes beyond those fitted."""
        law = self.laws[0]
        held = law.worker_errors(extended=False)
        errors = Errors.of(held if len(held) else law.beyond)
        return errors.mape if errors else None

    @property
    def drawn(self) -> list[Drawn]:
        """A line for each curve."""
        return [
            Drawn(key.text, fit.measured.sizes, fit.measured.seconds, fit.chosen.predict(fit.measured.sizes))
            for key, fit in self.curves.items()
        ]

    def described(self) -> dict[str, Any]:
        """As one document: laws, curves, pooled errors, and what could not be read."""
        held = np.concatenate([fit.held_errors for fit in self.curves.values()])
        sizes = np.concatenate([fit.held_sizes for fit in self.curves.values()])
        return {
            "laws": [_described_law(law, self.free) for law in self.laws],
            "curves": [_described_curve(key, fit) for key, fit in self.curves.items()],
            "interpolation": described(held),
            "interpolation_from_1_mib": described(held[sizes >= LARGE]),
            "size_extrapolation": described(np.concatenate([law.beyond for law in self.laws])),
            "worker_extrapolation": described(np.concatenate([law.worker_errors(False) for law in self.laws])),
            "worker_extrapolation_extended": described(np.concatenate([law.worker_errors(True) for law in self.laws])),
            "problems": [str(problem) for problem in self.measured.problems],
            "notes": self.measured.notes,
            "digests": self.measured.digests,
        }


def calibrate_network(
    measured: Measured,
    base: Fabric,
    *,
    free: Sequence[str] = ("bandwidth", "latency"),
    algorithms: Mapping[str, str] | None = None,
    law_from: float = LARGE,
) -> NetworkFit:
    """Fit curves to every series, and link laws to those of payloads of at least `law_from` bytes.

    `algorithms` says by which topology each primitive travels (default: the one that the log forced, else ring). Where
    some series of an algorithm were forced and others were NCCL's own choice, the law rests on the forced ones alone.
    Raises InputError where no series has enough sizes for a law.
    """
    series = measured.series()
    curves = {key: fit_curve(item, transfers) for key, item in series.items()}
    groups: dict[str, dict[Key, Repeats]] = {}
    for key, item in series.items():
        name = (algorithms or {}).get(key.primitive) or ("ring" if key.topology == "nccl" else key.topology)
        groups.setdefault(name, {})[key] = item
    laws = []
    for name, members in sorted(groups.items(), key=lambda pair: pair[0] != "ring"):
        used = _enough(_forced(members), law_from)
        if used:
            laws.append(_fit(used, base, name, free))
    if not laws:
        what = f"a series of {_LEAST_SIZES} sizes or more"
        raise InputError(Problem("calibrate network", what, f"{len(series)} shorter ones"))
    return NetworkFit(base, tuple(free), measured, curves, tuple(laws))


def _fit(series: Mapping[Key, Repeats], base: Fabric, algorithm: str, free: Sequence[str]) -> LawFit:
    left_out = {}
    counts = sorted({key.workers for key in series})
    for count in counts if len(counts) > 1 else ():
        others = {key: item for key, item in series.items() if key.workers != count}
        held = {key: item for key, item in series.items() if key.workers == count}
        pair = [fit_law(others, base, algorithm, free, extended=more) for more in (False, True)]
        if not any(name.endswith("bandwidth") for name in pair[0].unseen):
            left_out[count] = (law_errors(pair[0], held), law_errors(pair[1], held))
    lower, upper = {}, {}
    for key, item in series.items():
        logs = np.log(item.sizes)
        above = logs > logs[0] + _UPPER * (logs[-1] - logs[0])
        if (~above).sum() >= _LEAST_SIZES:
            lower[key] = Repeats(item.sizes[~above], item.seconds[~above], item.spread)
            upper[key] = Repeats(item.sizes[above], item.seconds[above], item.spread)
    beyond = law_errors(fit_law(lower, base, algorithm, free), upper) if lower else np.zeros(0)
    plain, extended = (fit_law(series, base, algorithm, free, extended=more) for more in (False, True))
    return LawFit(algorithm, series, plain, extended, left_out, beyond)


def _forced(series: Mapping[Key, Repeats]) -> dict[Key, Repeats]:
    """The series whose algorithm was forced, where there are any."""
    forced = {key: item for key, item in series.items() if key.topology != "nccl"}
    return forced or dict(series)


def _enough(series: Mapping[Key, Repeats], law_from: float) -> dict[Key, Repeats]:
    """Sizes from `law_from` on, or all of a series that has too few of them."""
    made = {}
    for key, item in series.items():
        large = item.sizes >= law_from
        large = large if large.sum() >= _LEAST_SIZES else np.ones(len(large), dtype=bool)
        if large.sum() >= _LEAST_SIZES:
            made[key] = Repeats(item.sizes[large], item.seconds[large], item.spread)
    return made


def _described_law(law: LawFit, free: Sequence[str]) -> dict[str, Any]:
    extended = law.extended
    return {
        "algorithm": law.algorithm,
        "series": [key.text for key in law.series],
        "terms": {name: term(law.plain.fabric, name) for name in free},
        "unseen": list(law.plain.unseen),
        "fitted": described(law_errors(law.plain, law.series)),
        "extended_terms": {name: term(extended.fabric, name) for name in free}
        | {"start_up": extended.start_up, "local": extended.local},
        "extended_fitted": described(law_errors(extended, law.series)),
        "size_extrapolation": described(law.beyond),
        "worker_extrapolation": {str(count): described(pair[0]) for count, pair in law.left_out.items()},
        "worker_extrapolation_extended": {str(count): described(pair[1]) for count, pair in law.left_out.items()},
    }


def _described_curve(key: Key, fit: CurveFit) -> dict[str, Any]:
    sizes = fit.measured.sizes
    return {
        "id": key.text,
        "sizes": len(sizes),
        "range": [float(sizes[0]), float(sizes[-1])],
        "family": fit.chosen.family,
        "interpolation": described(fit.held_errors),
        "interpolation_from_1_mib": described(fit.held_errors[fit.held_sizes >= LARGE]),
        "fitted": fit.fitted.described() if fit.fitted else None,
        "repeat_spread": fit.measured.spread,
    }
