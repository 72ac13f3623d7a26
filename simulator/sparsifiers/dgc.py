"""Deep gradient compression: a threshold from a sample, applied to velocities."""

from __future__ import annotations

import math
from functools import partial
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from simulator.bounds import Seed, Share, TimesAsMuch
from simulator.models.curves import Floats
from simulator.models.exchange import Bucket, Compute, Selection
from simulator.models.gradients import Block, Choice, Mask, State, Values, largest
from simulator.models.largest import order_of_units
from simulator.models.overlap import Overlap
from simulator.records import replace
from simulator.sparsifiers.base import Style, per_call, split_evenly
from simulator.sparsifiers.estimated import EstimatedThreshold, Unit, scans
from simulator.sparsifiers.implementation import Implementation, Steps, grace
from simulator.units import Density

GRACE_ROUNDS = 20
"""Most rounds of the loop that corrects the threshold in GRACE's code."""


def _graph_rounds(member: Dgc, numel: int) -> float:
    """Rounds of GRACE's loop: none where the sample gave 0.8 to 1.25 of k, otherwise nearly always the most.

    A round multiplies the threshold by 0.9 or 1.25. Since what is above it is sent, the values that are left crowd just
    below, and a round changes the count by more than the window is wide. The threshold is that of the top s in 1 % of
    the elements, s = max(1, density n / 100), so that the count is normal around k with a deviation of k/sqrt(s).
    """
    above = math.sqrt(max(1.0, 0.01 * member.density * numel))
    inside = NormalDist().cdf(0.25 * above) - NormalDist().cdf(-0.2 * above)
    return GRACE_ROUNDS * (1 - inside)


class BaselineImplementation(Implementation):
    """DGC as the baseline of papers that compare with it: a threshold that is far too low, and a second top-k.

    All indices are permuted, which sorts random keys, to draw 1 % of the elements. Of these the top k = density n are
    taken, not the top k / 100, so that density / 0.01 of all elements are above the threshold (all from 1 % on), of
    which an exact top-k then keeps k. The host waits for the number of elements that were found.
    """

    SAMPLED: ClassVar[float] = 0.01

    def steps(self, member: Any, selection: Selection, bucket: Bucket, workers: int, style: Style) -> Steps:
        """Residual add, absolute values, permutation and sample; scan; top-k of what was found; gathers and clear."""
        units = member.unit_sizes(bucket)
        sampled, kept = tuple(self.SAMPLED * n for n in units), tuple(member.counts(bucket))
        found = tuple(min(1.0, member.density / self.SAMPLED) * n for n in units)
        scan = per_call("threshold_scan", units, 2)
        chosen = [
            per_call("residual_add", units, 1),
            per_call("elementwise", units, 1),
            per_call("sort", units, 1),
            per_call("gather", sampled, 1),
            per_call("topk", sampled, 1),
            replace(scan, reads=len(units)),
            per_call("gather", found, 1),
            per_call("topk", found, 1),
            per_call("gather", kept, 2),
            per_call("copy", units, 1),
            per_call("residual_clear", kept, 1),
        ]
        return chosen, member.exchange(selection, bucket, workers, style)


class Dgc(EstimatedThreshold, kind="dgc"):
    """DGC: momentum correction, and a threshold from the top-k of a sample.

    Momentum correction: m = momentum * m + gradient, v = v + m. Elements are selected from v; v less what is sent is
    the residual. Momentum factor masking also clears m where v was sent. The threshold is the smallest of the top k/n
    of a strided sample of max(`sample_ratio` n, 2/density) elements with a random start; one pass selects
    |v| >= threshold. If more than `upper` k are selected, an exact top-k among them keeps k (hierarchical selection).
    If fewer than `lower` k are selected, the threshold is multiplied by `lower` and the pass is repeated, at most
    `retries` times. Counts between k and `upper` k are cut to the first k by position (Lin et al., ICLR 2018,
    1712.01887; as released in synxlin/deep-gradient-compression, without its clipping and warm-up, which are off by
    default). The count is therefore in [`lower` k, k], unless the retries are used up or only zeros are left. The
    closed form is k, with one pass, and a second one with the chance that the sample gives too few. Pairs are gathered
    at the largest count.

    - `momentum`: coefficient of the momentum correction; 0: no correction.
    - `masking`: whether momentum factor masking is on.
    - `seed`: of the starts of the samples.
    """

    implementations: ClassVar[dict[str, Implementation]] = {
        "grace": grace(before=25, decode=4, sized=True, rounds=_graph_rounds),
        "baseline": BaselineImplementation(
            "DGC as a baseline, HKBU", "Shi et al. 2019, 1911.08772: hclhkbu/GaussianK-SGD, compression.py"
        ),
    }

    keeps: ClassVar[tuple[str, ...]] = ("residual", "momentum")

    momentum: float = Field(default=0.9, ge=0, lt=1)
    masking: bool = True
    sample_ratio: Density = 0.01
    upper: TimesAsMuch = 1.3
    lower: Share = 0.8
    retries: int = Field(default=10, ge=0, le=100)
    seed: Seed = 0

    def sampled(self, n: int) -> int:
        """Size of the sample of a unit of n elements: max(`sample_ratio` n, 2/density), at most n."""
        return min(n, max(math.ceil(n * self.sample_ratio), math.ceil(2 / self.density)))

    def stride(self, m: int, samples: int) -> int:
        """Distance between samples: odd, the largest of the released code's grid that gives at least `samples`."""
        if samples >= m:
            return 1
        stride = math.ceil(m / samples / 32) * 32 + 1
        while m // stride < samples:
            stride -= 8
        return stride

    def accumulate(self, state: State, block: Block) -> Values:
        """v = v + m after m = momentum * m + gradient, (n, m)."""
        momentum = state["momentum"]
        momentum *= np.float32(self.momentum)
        momentum += block.values
        return super().accumulate(state, replace(block, values=momentum))

    def after(self, state: State, left: Values, choice: Choice) -> None:
        """Clear what was sent from the velocity and, with masking, from the momentum."""
        super().after(state, left, choice)
        for row, places in zip(state["momentum"], choice.chosen if self.masking else (), strict=self.masking):
            row[places] = 0

    def choose(self, u: Values, block: Block, state: State) -> Choice:
        """At most k magnitudes at or above the sampled threshold."""
        if block.sampled:
            return self._choose_of_sample(u, block)
        return self.searched(u, block, partial(self._search, block.iteration))

    def _search(self, iteration: int, unit: Unit) -> tuple[Mask, float]:
        """The mask (m,) of one unit, and the passes over it."""
        rng = np.random.default_rng([self.seed, iteration, unit.worker, unit.number])
        magnitudes, n, k = np.abs(unit.values), unit.numel, unit.k
        stride = self.stride(n, self.sampled(n))
        sample = magnitudes[int(rng.integers(stride)) :: stride]
        top = self._rank(n)[1]
        threshold = float(np.partition(sample, len(sample) - top)[len(sample) - top])
        mask, passes = magnitudes >= threshold, 1
        count = unit.count(mask)
        while stride > 1 and count < self.lower * k and passes <= self.retries:
            threshold *= self.lower
            mask, passes = magnitudes >= threshold, passes + 1
            count = unit.count(mask)
        if count > k:
            hierarchical = stride > 1 and count > self.upper * k and passes <= self.retries
            kept = largest(np.where(mask, magnitudes, 0), k) if hierarchical else np.flatnonzero(mask)[:k]
            mask = np.zeros_like(mask)
            mask[kept] = True
        return mask, passes

    def _rank(self, n: int) -> tuple[int, int]:
        """Elements in the sample of a unit of n, and which of them by size is the threshold."""
        samples = n // self.stride(n, self.sampled(n))
        return samples, max(1, -(-samples * self.wanted(n) // n))

    def _choose_of_sample(self, u: Values, block: Block) -> Choice:
        """A sampled search in all units of all workers at once, where coordinates stand for several elements each.

        The r-th largest of s elements that are drawn exceeds a share of all that is distributed as Beta(r, s + 1 - r):
        one number is drawn for the whole sample.
        """
        units = block.units(self.granularity)
        starts, numels = np.array([[unit.start, n] for unit, n in units]).T
        k, samples, ranks = np.array([(self.wanted(n), *self._rank(n)) for _, n in units]).T
        unit = np.repeat(np.arange(len(units)), np.diff(starts, append=u.shape[1]))
        repeats = samples < numels

        def count(mask: Mask) -> Floats:
            return np.add.reduceat(mask * block.weight, starts, axis=1)

        draws = [np.random.default_rng([self.seed, block.iteration, worker]) for worker in range(len(u))]
        shares = np.array([rng.beta(ranks, samples + 1 - ranks) for rng in draws])
        order = order_of_units(u, unit)
        totals = np.add.reduceat(block.weight, starts)
        ends = np.cumsum(block.weight[order], axis=1) - (np.cumsum(totals) - totals)[unit]
        below = np.add.reduceat(ends <= (shares * totals)[:, unit], starts, axis=1, dtype=np.int64)
        places = starts + np.minimum(below, np.diff(starts, append=u.shape[1]) - 1)
        magnitudes, rows = np.abs(u), np.arange(len(u))[:, None]
        thresholds, passes = magnitudes[rows, order[rows, places]].astype(float), np.ones(shares.shape)
        while True:
            above = magnitudes >= thresholds.astype(np.float32)[:, unit]
            counts = count(above)
            again = repeats & (counts < self.lower * k) & (passes <= self.retries)
            if not again.any():
                break
            thresholds[again] *= self.lower
            passes += again
        hierarchical = repeats & (counts > self.upper * k) & (passes <= self.retries)
        wanted = np.where(hierarchical[:, unit], magnitudes, np.arange(u.shape[1], 0, -1, dtype=np.float32))
        chosen = self.top(np.where(above, wanted, np.float32(0)), block)
        chosen = [places[row[places] != 0] for places, row in zip(chosen, u, strict=True)]
        return Choice(chosen, passes=(passes * numels).sum(axis=1) / block.numel)

    def expect(self, bucket: Bucket, workers: int, concentration: Overlap) -> Selection:
        """k of every worker; a second pass with the chance that a normal count of width 1/sqrt(k_s) is too low."""
        again = 0.0
        for n, k in zip(self.units(bucket), self.counts(bucket), strict=True):
            above = self.sampled(n) * k / n
            again += n * NormalDist().cdf(-(1 - self.lower) * math.sqrt(above)) if self.sampled(n) < n else 0.0
        even = super().expect(bucket, workers, concentration)
        return replace(even, passes=1.0 + again / bucket.numel)

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """Momentum and velocity; top-k of the sample; scans; top-k of the selected elements; gather and two clears."""
        units = self.unit_sizes(bucket)
        selected = split_evenly(selection.largest, len(units))
        sampled = tuple(float(self.sampled(n)) for n in self.units(bucket))
        return [
            per_call("elementwise", units, 2),
            per_call("residual_add", units, 1),
            per_call("topk", sampled, 3),
            scans(units, selection.passes, 3),
            per_call("topk", selected, 1),
            per_call("gather", selected, 1),
            per_call("residual_clear", selected, 2),
        ]
