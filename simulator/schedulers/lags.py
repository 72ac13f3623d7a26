"""LAGS: every layer has the highest density whose exchange the backward pass can hide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from simulator.component import expected
from simulator.models.exchange import Bucket
from simulator.models.layers import Layer
from simulator.records import replace
from simulator.schedulers.base import FREE, Costs, Scheduler, singles
from simulator.units import Density


class LayerwiseAdaptive(Scheduler, kind="lags"):
    """Layer-wise adaptive sparsification (Shi et al., LAGS-SGD, ECAI 2020): each layer has its own density.

    One bucket per tensor. Each gets the largest density, between the sparsifier's own and `highest_density`, at which
    its exchange ends before the next tensor is ready. If its exchange takes longer at any density, it gets the
    sparsifier's own. The time at another density is taken from a bucket of another size with as many selected elements.
    A sparsifier without a density is an expected-error.
    """

    reads_costs: ClassVar[bool] = True

    highest_density: Density = 0.25

    def plan(self, layers: Sequence[Layer], costs: Costs = FREE) -> list[Bucket]:
        """One bucket per tensor in backward order, with its density."""
        buckets, made = singles(layers), []
        if not costs.known:
            return buckets
        if costs.density is None:
            raise expected("a sparsifier with a density", costs.method, "lags sets the density of every layer")
        own = costs.density
        clock = busy = 0.0
        for bucket in buckets:
            layer = layers[bucket.ready_layer]
            clock += layer.backward + float(costs.selection(float(layer.numel)))
            start, following = max(clock, busy), clock
            if bucket.ready_layer:
                after = layers[bucket.ready_layer - 1]
                following += after.backward + float(costs.selection(float(after.numel)))
            density = self._largest_density(float(layer.numel), following - start, costs, own)
            busy = start + float(costs.exchange(layer.numel * density / own))
            made.append(replace(bucket, density=density))
        return made

    def _largest_density(self, numel: float, room: float, costs: Costs, own: float) -> float:
        """The largest density whose exchange takes at most `room`, by bisection on the density's logarithm."""
        low, high = own, max(own, self.highest_density)
        if float(costs.exchange(numel)) >= room:
            return low
        if float(costs.exchange(numel * high / own)) <= room:
            return high
        for _ in range(40):
            middle = (low * high) ** 0.5
            if float(costs.exchange(numel * middle / own)) <= room:
                low = middle
            else:
                high = middle
        return low
