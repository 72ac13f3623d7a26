"""SAGE: a hard threshold that follows the gradients."""

from __future__ import annotations

import math

import numpy as np

from simulator.bounds import Seed
from simulator.models.exchange import Bucket, Compute, Selection
from simulator.models.gradients import ALL, Block, Choice, State, Values, find_above
from simulator.models.overlap import Overlap
from simulator.models.sampling import count_at, draw_elements
from simulator.records import replace
from simulator.sparsifiers.base import per_call, split_evenly
from simulator.sparsifiers.estimated import scans
from simulator.sparsifiers.threshold import Threshold


class Sage(Threshold, kind="sage"):
    """SAGE: a hard threshold that is scaled before every scan, so that the density stays near its target.

    Every worker has its own threshold, at first 1/(2 sqrt(k)). From the second iteration on it is multiplied by alpha
    beta gamma: alpha is the mean of s sampled |u| over that of the iteration before, with s = d / (1 + 0.05^2 d), about
    400; beta = 2 / (1 + exp(density - e)), with e the density that alpha * threshold would select, counted in an extra
    scan; gamma = 0.95 if e < density/10, 1.05 if e > 10 density, otherwise 1 (Yoon and Oh, SAGE, 2023; released with
    kljp/sage). beta and gamma act slowly, so that the density drifts between a tenth of the target and ten times the
    target; alpha follows any change of scale. Exchange and closed form are those of the hard threshold, with two
    passes.

    - `seed`: of the samples.
    """

    seed: Seed = 0

    def expect(self, bucket: Bucket, workers: int, concentration: Overlap) -> Selection:
        """The counts of the hard threshold, with two scans."""
        return replace(super().expect(bucket, workers, concentration), passes=2.0)

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """All |u| at or above each worker's own threshold, after scaling."""
        first = "thresholds" not in state
        initial = self.threshold or 1.0 / (2.0 * math.sqrt(max(1.0, self.target(block.numel))))
        thresholds = np.full(len(u), initial) if first else state["thresholds"].copy()
        means = np.array([self._sampled_mean(values, block, worker) for worker, values in enumerate(u)])
        chosen = []
        for worker, values in enumerate(u):
            if not first:
                before = float(state["sampled_means"][worker])
                # Without a mean there is no ratio; the threshold is then scaled with the next gradients.
                alpha = float(means[worker]) / before if before > 0 and means[worker] > 0 else 1.0
                seen = find_above(values, float(thresholds[worker] * alpha))
                exam = count_at(seen, block.weight_of(ALL)) / block.numel
                beta = 2.0 / (1.0 + math.exp(self.density - exam))
                gamma = 0.95 if exam < 0.1 * self.density else 1.05 if exam > 10.0 * self.density else 1.0
                thresholds[worker] *= alpha * beta * gamma
            chosen.append(find_above(values, float(thresholds[worker])))
        state["thresholds"] = thresholds
        state["sampled_means"] = np.where(means > 0, means, 0.0 if first else state["sampled_means"])
        return Choice(chosen, passes=1.0 if first else 2.0, detail={"threshold": thresholds})

    def _sampled_mean(self, values: Values, block: Block, worker: int) -> float:
        """Mean of |u| at coordinates drawn with replacement, with chances in proportion to their weights."""
        rng = np.random.default_rng([self.seed, block.iteration, worker])
        s = self.samples(block.numel)
        drawn = draw_elements(block.weight, s, rng) if block.sampled else rng.integers(len(values), size=s)
        return float(np.abs(values[drawn]).mean(dtype=float))

    def samples(self, numel: int) -> int:
        """Size of the sample for d elements: Slovin's formula at an error of 5 %.

        >>> Sage(density=0.001).samples(11_173_962)
        399
        """
        return max(1, int(numel / (1.0 + numel * 0.05 * 0.05)))

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """Residual add; mean of the sample; two scans, the second as for the hard threshold; clear.

        The released code draws, takes and adds the samples one by one in Python: a framework call each.
        """
        units = self.unit_sizes(bucket)
        selected = split_evenly(selection.largest, len(units))
        drawn = self.samples(bucket.numel)
        sample = (float(drawn),)
        return [
            per_call("residual_add", units, 1),
            per_call("gather", (1.0,) * drawn, 1),
            per_call("statistics", sample, 1),
            scans(units, 1.0, 5),
            *([scans(units, selection.passes - 1.0, 3)] if selection.passes > 1 else []),
            per_call("residual_clear", selected, 1),
        ]
