"""The law of iterations to a target over density, workers and batch, chosen by leaving whole settings out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import product
from statistics import fmean

import numpy as np

from simulator.models.curves import Floats, map_each
from simulator.models.linear_algebra import multiply, solve_symmetric, weigh
from simulator.models.widths import student_95
from simulator.records import Record, field
from simulator.trainings.runs import Setting

LEAST_SETTINGS = 5
"""Settings below which no law is fitted."""
_STEPS = 32
"""Values of a factor of a law that are tried."""
_SPARE = 2
"""Settings that a law has beyond its factors, at the least."""


_SUMS = {"b": "b / B", "c": "c (1 / density - 1)"}
_POWERS = {"w": "workers^w", "p": "density^-p"}
_AXES = {"b": "batch", "c": "density", "w": "workers", "p": "density"}
"""What has to vary for a factor to be fitted."""


class LawForm(Record):
    """steps = S (1 + b / B + c (1 / density - 1)) workers^w density^-p, with some of the factors, B = workers x batch.

    b is the critical batch, where noise and curvature count alike (McCandlish et al., arXiv:1812.06162, 2018:
    steps = S (1 + b / B)). c: with error feedback the compression adds a term of lower order, which grows as one over
    the share that is sent (Stich et al., arXiv:1809.07599, 2018; Karimireddy et al., arXiv:1901.09847, 2019). p and w:
    plain powers, for what that does not describe.
    """

    factors: str = ""

    @property
    def parameters(self) -> int:
        """Numbers to fit, S included."""
        return 1 + len(self.factors)

    @property
    def sums(self) -> str:
        """The factors among b and c."""
        return "".join(name for name in self.factors if name in _SUMS)

    def __str__(self) -> str:
        sums, powers = ([text for name, text in of.items() if name in self.factors] for of in (_SUMS, _POWERS))
        return " ".join([f"S (1 + {' + '.join(sums)})" if sums else "S", *powers])


FORMS = tuple(LawForm("".join(each)) for each in product(("", "b"), ("", "c", "p"), ("", "w")))


class LawPoints(Record, dict=True):
    """Settings with the logarithms of their typical iterations; `own`: those whose errors count."""

    settings: tuple[Setting, ...]
    logs: tuple[float, ...]
    own: tuple[bool, ...]

    def without(self, place: int) -> LawPoints:
        """All but one."""
        kept = [each for each in range(len(self.logs)) if each != place]
        rest = LawPoints(*zip(*((self.settings[each], self.logs[each], self.own[each]) for each in kept), strict=True))
        # What was computed once for all settings is used again: a law is fitted without each of them.
        rest.__dict__["grid"] = {key: (pairs, values[:, kept]) for key, (pairs, values) in self.grid.items()}
        return rest

    def axis(self, name: str) -> list[float]:
        """The values of an axis: density, workers, batch_size, or the global batch."""
        return [_value(setting, name) for setting in self.settings]

    @cached_property
    def grid(self) -> dict[str, tuple[list[tuple[float, float]], Floats]]:
        """By which of b and c a form has: the pairs (b, c) that are tried, and ln(1 + b / B + c (1 / density - 1)) for
        each of them and each setting (pairs, settings)."""
        batches, densities = self.axis("batch"), self.axis("density")
        b, least = _geometric(min(batches) / 8, 8 * max(batches)), 1 / min(densities) - 1
        c = _geometric(0.01 / least, 30 / least) if least > 0 else [0.0]
        made = {}
        for sums in ("", "b", "c", "bc"):
            pairs = list(product(b if "b" in sums else [0.0], c if "c" in sums else [0.0]))
            first, second = (np.array(side)[:, None] for side in zip(*pairs, strict=True))
            values = 1 + first / np.array(batches) + second * (1 / np.array(densities) - 1)
            made[sums] = pairs, map_each(math.log, values)
        return made


class Law(Record):
    """A fitted law: its form and its factors, and what settings that were left out showed of it.

    `deviation`: root of the mean squared ln(measured / predicted) of own settings, each left out; the mean is over the
    freedom, since the form was chosen by the same settings. `freedom`: their number less the parameters. `range`:
    lowest and highest value of each axis, outside of which it says nothing.
    """

    form: LawForm
    scale: float
    factors: Mapping[str, float]
    deviation: float
    freedom: int
    range: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def log(self, setting: Setting) -> float:
        """ln of the typical iterations of a setting."""
        b, c, w, p = (self.factors.get(name, 0.0) for name in "bcwp")
        sums = 1 + b / (setting.workers * setting.batch_size) + c * (1 / setting.density - 1)
        return self.scale + math.log(sums) + w * math.log(setting.workers) - p * math.log(setting.density)

    @property
    def half_width(self) -> float:
        """Half of the 90 % interval of that logarithm, by Student's quantile."""
        return self.deviation * student_95(self.freedom)

    def outside(self, setting: Setting) -> tuple[str, str] | None:
        """The range of an axis on which a setting lies outside of what was run, and its own value; None inside."""
        for name, (low, high) in self.range.items():
            value = _value(setting, name)
            if not low * (1 - 1e-9) <= value <= high * (1 + 1e-9):
                return f"{name} from {low:g} to {high:g}", f"{value:g}"
        return None


def fit_law(points: LawPoints) -> Law | None:
    """The simplest law that predicts settings left out as well as the best one does; None for too few settings.

    A law with more parameters is taken where its mean squared error on settings left out is smaller by more than one
    standard error of the difference (Breiman et al., Classification and Regression Trees, 1984: the rule of one
    standard error), so that it does not follow noise.
    """
    if sum(points.own) < LEAST_SETTINGS:
        return None
    tried = {form: made for form in FORMS if (made := left_out_errors(form, points)) is not None}
    means = {form: fmean(error * error for error in errors) for form, (errors, _) in tried.items()}
    best = min(tried, key=lambda form: (means[form], form.parameters))
    enough = [form for form in tried if not _is_worse(tried[form][0], tried[best][0])]
    form = min(enough, key=lambda form: (form.parameters, means[form]))
    scale, factors = _fit(form, points, tried[form][1])
    own = [setting for setting, mine in zip(points.settings, points.own, strict=True) if mine]
    freedom = len(own) - form.parameters
    deviation = math.sqrt(means[form] * len(own) / freedom)
    axes = {name: [_value(item, name) for item in own] for name in ("density", "workers", "batch_size")}
    reach = {name: (min(each), max(each)) for name, each in axes.items()}
    return Law(form, scale, factors, deviation, freedom, reach)


def left_out_errors(form: LawForm, points: LawPoints) -> tuple[list[float], int] | None:
    """ln(measured / predicted) of each own setting, predicted from the others, and which pair (b, c) of those that are
    tried fits all points best; None where the form cannot be fitted.

    For given b and c the rest is a linear fit, of which each point can be left out in closed form (PRESS: Allen,
    Technometrics 16, 1974); b and c are chosen anew without each point.
    """
    found = _project(form, points)
    if found is None:
        return None
    base, residuals = found
    leverage = (base * base).sum(axis=1)
    if (leverage > 1 - 1e-6).any():
        return None
    left_out = residuals / (1 - leverage)
    squares = (residuals * residuals).sum(axis=1)
    chosen = np.argmin(squares[:, None] - residuals * left_out, axis=0).tolist()
    errors = [float(left_out[node, place]) for place, node in enumerate(chosen) if points.own[place]]
    return errors, int(np.argmin(squares))


def _fit(form: LawForm, points: LawPoints, node: int) -> tuple[float, dict[str, float]]:
    """ln S and the other factors by least squares of the logarithms."""
    pairs, sums = points.grid[form.sums]
    left = np.array(points.logs) - sums[node]
    columns, names = _columns(form, points)
    slopes = solve_symmetric(multiply(columns, columns.T), np.array([weigh(row, left) for row in columns])).tolist()
    b, c = pairs[node]
    factors = {"b": b, "c": c, **dict(zip(names, slopes[1:], strict=True))}
    return slopes[0], {name: value for name, value in factors.items() if value}


def _columns(form: LawForm, points: LawPoints) -> tuple[Floats, list[str]]:
    """The columns of the linear part, as rows, and the names of their factors; the first one is that of ln S."""
    powers = {"w": [math.log(value) for value in points.axis("workers")]}
    powers["p"] = [-math.log(value) for value in points.axis("density")]
    names = [name for name in powers if name in form.factors]
    return np.array([[1.0] * len(points.logs), *(powers[name] for name in names)]), names


def _project(form: LawForm, points: LawPoints) -> tuple[Floats, Floats] | None:
    """An orthonormal base of the linear part (settings, columns), and what that part leaves of the logarithms for each
    pair (b, c) that is tried (pairs, settings); None where an axis does not vary enough."""
    if any(len(set(points.axis(_AXES[name]))) < 2 for name in form.factors):
        return None
    if sum(points.own) < form.parameters + _SPARE:
        return None
    base: list[Floats] = []
    for column in _columns(form, points)[0]:
        rest = column
        for known in base:
            rest = rest - weigh(known, rest) * known
        length = math.sqrt(weigh(rest, rest))
        if length < 1e-6:
            return None
        base.append(rest / length)
    left: Floats = np.array(points.logs) - points.grid[form.sums][1]
    for column in np.array(base):
        left = left - (left * column).sum(axis=1)[:, None] * column
    return np.array(base).T, left


def _is_worse(errors: Sequence[float], best: Sequence[float]) -> bool:
    """Whether squared errors are larger than the best ones by more than a standard error of the difference."""
    more = [a * a - b * b for a, b in zip(errors, best, strict=True)]
    mean = math.fsum(more) / len(more)
    spread = math.fsum((value - mean) ** 2 for value in more) / max(1, len(more) - 1)
    return mean > math.sqrt(spread / len(more))


def _value(setting: Setting, name: str) -> float:
    return float(setting.workers * setting.batch_size if name == "batch" else getattr(setting, name))


def _geometric(low: float, high: float) -> list[float]:
    ratio = math.log(high / low) / (_STEPS - 1)
    return [low * math.exp(ratio * step) for step in range(_STEPS)]
