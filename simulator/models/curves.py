"""Cost curves: seconds by number of elements (or bytes), with their measured range and their evidence."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator, Field, field_validator

from simulator.bounds import Elements
from simulator.component import Spec, expected
from simulator.errors import suggest_nearest
from simulator.units import Fraction, PositiveSeconds, Ratio, Seconds, SecondsPerItem

Floats = npt.NDArray[np.float64]
_MOST = 709.0
"""Just below the natural logarithm of the largest float."""


def map_each(function: Callable[[float], float], values: Floats) -> Floats:
    """A function of the C library on every value: numpy's own logarithms differ between its versions."""
    return np.array([function(value) for value in values.ravel().tolist()]).reshape(values.shape)


class Evidence(Spec):
    """The evidence for a fitted curve.

    `range`: smallest and largest size measured. `spread`: relative standard deviation of one run between workers.
    `held_out_mape`: mean absolute relative error on points that were not used in the fit. `derived`: carried over from
    another GPU, or from whole iterations, not timed on this one. `width`: factor by which such a curve may be off
    either way, in nine of ten cases, if that was measured. `smallest_call`: what calls below `range` were timed at with
    the host's time in it, so that they take no longer.

    - `source`: where the measurements come from.
    """

    range: tuple[Elements, Elements] | None = None
    spread: Ratio = 0.0
    held_out_mape: Fraction | None = None
    derived: bool = False
    width: Annotated[float, Field(ge=1, le=1000)] | None = None
    smallest_call: PositiveSeconds | None = None
    source: str = ""

    def in_range(self, sizes: npt.ArrayLike) -> bool:
        """Whether every size is inside the measured range (always true if no range is stated)."""
        if self.range is None:
            return True
        values = np.asarray(sizes, dtype=float)
        return bool(values.size == 0 or (values.min() >= self.range[0] and values.max() <= self.range[1]))


class Affine(Evidence):
    """t(n) = intercept + slope * n: a start-up and a throughput.

    - `curve`: `affine`.
    - `intercept`: seconds of the smallest call.
    - `slope`: seconds per element.
    """

    curve: Literal["affine"] = "affine"
    intercept: Seconds = 0.0
    slope: SecondsPerItem = 0.0

    def time(self, sizes: npt.ArrayLike) -> Floats:
        """Seconds for each size, same shape."""
        seconds: Floats = self.intercept + self.slope * np.asarray(sizes, dtype=float)
        return seconds


class NLogN(Evidence):
    """t(n) = intercept + coefficient * n * log2(n): sorting-like kernels, old single-block top-k.

    - `curve`: `n_log_n`.
    - `intercept`: seconds of the smallest call.
    - `coefficient`: seconds per element and binary logarithm.
    """

    curve: Literal["n_log_n"] = "n_log_n"
    intercept: Seconds = 0.0
    coefficient: SecondsPerItem

    def time(self, sizes: npt.ArrayLike) -> Floats:
        """Seconds for each size, same shape."""
        n = np.asarray(sizes, dtype=float)
        seconds: Floats = self.intercept + self.coefficient * n * map_each(math.log2, np.maximum(n, 1.0))
        return seconds


Points = tuple[tuple[float, float], ...]


def rising(points: Points) -> Points:
    """The points of a piecewise curve. Raises an expected-error unless sizes rise and times are above 0."""
    sizes = [size for size, _ in points]
    if any(b <= a for a, b in pairwise(sizes)):
        raise expected("points with increasing sizes", sizes)
    if any(time <= 0 for _, time in points):
        raise expected("points with times above 0", points)
    return points


class Piecewise(Evidence):
    """Straight lines between measured points on log-log axes; outside, the last slopes continue.

    - `curve`: `piecewise`.
    - `points`: pairs of elements and seconds, sizes rising.
    """

    curve: Literal["piecewise"] = "piecewise"
    points: tuple[tuple[Elements, Seconds], ...] = Field(min_length=2)

    _checked = field_validator("points")(rising)

    @cached_property
    def _logs(self) -> tuple[Floats, Floats, Floats]:
        x, y = (map_each(math.log, np.array(axis, dtype=float)) for axis in zip(*self.points, strict=True))
        return x, y, np.diff(y) / np.diff(x)

    def time(self, sizes: npt.ArrayLike) -> Floats:
        """Seconds for each size, same shape; 0 for size 0."""
        x, y, slopes = self._logs
        n = np.asarray(sizes, dtype=float)
        logs = map_each(math.log, np.maximum(n, 1e-300))
        segment = np.clip(np.searchsorted(x, logs, side="right") - 1, 0, len(slopes) - 1)
        made = y[segment] + slopes[segment] * (logs - x[segment])
        # e to the power of each; infinite if a float cannot hold it.
        times = map_each(lambda value: math.exp(value) if value < _MOST else math.inf, made)
        return np.where(n > 0, times, 0.0)

    def covers(self, sizes: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Whether each size lies between the first and the last point, same shape."""
        n = np.asarray(sizes, dtype=float)
        return np.asarray((n >= self.points[0][0]) & (n <= self.points[-1][0]))


_CURVES = ("affine", "n_log_n", "piecewise")


def _known_curve(value: Any) -> Any:
    if isinstance(value, dict) and (kind := str(value.get("curve"))) not in _CURVES:
        raise expected("a curve kind under `curve`", kind, suggest_nearest(kind, _CURVES))
    return value


Curve = Annotated[Annotated[Affine | NLogN | Piecewise, Field(discriminator="curve")], BeforeValidator(_known_curve)]
