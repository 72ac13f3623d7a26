"""SIDCo: a threshold from a fit of the magnitudes, in stages."""

from __future__ import annotations

import math
import sys
from typing import Any, Literal

import numpy as np
from pydantic import Field

from simulator.bounds import Count, Share
from simulator.models.curves import Floats
from simulator.models.exchange import Bucket, Compute, Selection
from simulator.models.gradients import Block, Choice, Mask, State, Values
from simulator.models.overlap import Overlap
from simulator.models.sampling import mean_of, moments_of
from simulator.records import replace
from simulator.sparsifiers.base import per_call, split_evenly
from simulator.sparsifiers.estimated import EstimatedThreshold, Unit, scans


class Sidco(EstimatedThreshold, kind="sidco"):
    """SIDCo: a threshold from a distribution fitted to the magnitudes, and fitted again to those above it.

    Stage 1 fits x = |u| / ||u|| and sets the threshold such that, by the fit, a share r1 = `first_ratio` is above it
    (with one stage: density). Each of the other M - 1 stages fits the elements above the last threshold, less their
    minimum, and leaves r = (density / r1)^(1/(M-1)) of them. With mean a and variance v of the fitted values, the
    thresholds are

    - `exponential`: -a ln r;
    - `pareto`: s (1 - r^c) / c, s = a (a^2/v + 1) / 2, c = (a^2/v - 1) / 2;
    - `gamma`: first stage b gammaincinv(A, 1 - r), A = (3 - l + sqrt((l-3)^2 + 24 l)) / (12 l), b = a / A,
      l = ln a - mean(ln x); the stages after it are generalised Pareto.

    The last threshold selects in a final scan. Every `interval` iterations the mean ratio of selected to wanted
    elements is checked: above 1 + `slack` there is one stage less, below 1 - `slack` one more, within
    [1, log2(1/density)] (Abdelmoniem et al., MLSys 2021, 2101.10761; constants of sands-lab/SIDCo). Passes count the
    scans of ever fewer elements and the final one, as multiples of the unit's length. The closed form is k after
    `stages` stages. Pairs are gathered at the largest count.

    - `distribution`: that is fitted.
    - `adapt`: whether the number of stages changes.
    """

    distribution: Literal["exponential", "gamma", "pareto"] = "exponential"
    stages: int = Field(default=1, ge=1, le=30)
    adapt: bool = True
    first_ratio: Share = 0.25
    interval: Count = 5
    slack: Share = 0.2

    def expect(self, bucket: Bucket, workers: int, concentration: Overlap) -> Selection:
        """k of every worker; the passes of `stages` stages with exact fits."""
        passes, left = 1.0, 1.0
        stages, later = self._ratios(self.stages)
        for stage in range(stages - 1):
            passes += left
            left *= self.first_ratio if stage == 0 else later
        return replace(super().expect(bucket, workers, concentration), passes=passes)

    def _ratios(self, stages: int) -> tuple[int, float]:
        """The number of stages (1 if the density is high), and the ratio of each stage after the first."""
        if stages == 1 or self.density >= self.first_ratio:
            return 1, 1.0
        return stages, (self.density / self.first_ratio) ** (1.0 / (stages - 1))

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """All |u| above the threshold of the last stage; each unit of each worker has its own number of stages."""
        shape = (len(u), len(block.units(self.granularity)))
        known: dict[str, Any] = state.get("stages") or {
            "stages": np.full(shape, self.stages),
            "excess": np.zeros(shape),
            "iterations": 0,
        }
        stages, excess = known["stages"].copy(), known["excess"].copy()

        def search(unit: Unit) -> tuple[Mask, float]:
            place = unit.worker, unit.number
            mask, passes = self._staged(unit.values, unit.weight, int(stages[place]))
            excess[place] += unit.count(mask) / (self.density * unit.numel)
            return mask, passes

        choice = self.searched(u, block, search)
        choice.detail = {"stages": float(stages.mean())}
        iterations = known["iterations"] + 1
        if self.adapt and iterations == self.interval:
            mean = excess / iterations
            stages = stages - (mean > 1 + self.slack) + (mean < 1 - self.slack)
            stages = stages.clip(1, max(1, math.ceil(-math.log2(self.density))))
            excess, iterations = np.zeros(shape), 0
        state["stages"] = {"stages": stages, "excess": excess, "iterations": iterations}
        return choice

    def _staged(self, values: Values, weight: Floats | None, stages: int) -> tuple[Mask, float]:
        """The mask of one unit, and the passes over it."""
        magnitudes, stands = np.abs(values), weight
        whole = len(values) if weight is None else math.fsum(weight.tolist())
        if not magnitudes.any():
            return magnitudes > 0, 1.0
        stages, later = self._ratios(stages)
        above, passes = magnitudes, 1.0
        threshold = self._threshold(above, stands, self.density if stages == 1 else self.first_ratio, self.distribution)
        for _ in range(stages - 1):
            passes += (len(above) if stands is None else math.fsum(stands.tolist())) / whole
            left = above > threshold
            above, stands = above[left], None if stands is None else stands[left]
            if len(above) == 0:
                break
            least = float(above.min())
            tail = "exponential" if self.distribution == "exponential" else "pareto"
            threshold = least + self._threshold(np.subtract(above, least, dtype=float), stands, later, tail)
        return magnitudes > threshold, passes

    @staticmethod
    def _threshold(x: Values | Floats, weight: Floats | None, ratio: float, distribution: str) -> float:
        """The threshold above which, by the fit of x (m,) >= 0, a share `ratio` of the elements is."""
        mean, log_ratio = mean_of(x, weight), math.log(ratio)
        if distribution == "exponential":
            return -mean * log_ratio
        if distribution == "gamma":
            # Only here the norm does not cancel; an epsilon keeps the logarithm of zeros finite.
            squares = np.square(x, dtype=float)
            norm = math.sqrt(float(squares.sum()) if weight is None else math.fsum((weight * squares).tolist()))
            scaled = (x / np.float32(norm)).astype(np.float32) + np.float32(sys.float_info.epsilon)
            logs = math.log(mean / norm) - mean_of(np.log(scaled), weight)
            if logs <= 0:
                return mean
            shape = (3 - logs + math.sqrt((logs - 3) ** 2 + 24 * logs)) / (12 * logs)
            from scipy.special import gammaincinv  # heavy, and only for this fit

            return mean / shape * float(gammaincinv(shape, 1 - ratio))
        variance = moments_of(x, weight, ddof=1)[1] if len(x) > 1 else 0.0
        if variance == 0 or mean * mean > 1e9 * variance:
            return mean
        scale, shape = mean * (mean * mean / variance + 1) / 2, (mean * mean / variance - 1) / 2
        return -scale * (math.expm1(shape * log_ratio) / shape if shape else log_ratio)

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """Residual add; norm, scaling and fit; the scans and fits of the stages; gather and clear."""
        units = self.unit_sizes(bucket)
        selected = split_evenly(selection.largest, len(units))
        # Later stages fit so few elements that only the first set is counted.
        staged = tuple(self.first_ratio * min(1.0, selection.passes - 1.0) * n for n in units)
        return [
            per_call("residual_add", units, 1),
            per_call("norm", units, 1),
            per_call("elementwise", units, 2),
            per_call("statistics", units, 2),
            scans(units, selection.passes, 3),
            *([per_call("statistics", staged, 3)] if selection.passes > 1 else []),
            per_call("gather", selected, 1),
            per_call("residual_clear", selected, 2),
        ]
