"""The scheduler family: from tensors to buckets, and when each may travel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from simulator.component import Component
from simulator.models.exchange import Bucket
from simulator.models.layers import VALUE_BYTES, Layer


class Scheduler(Component, family="scheduler"):
    """Base of all schedulers.

    `plan` cuts the gradients into buckets in the order in which they become ready (backward order). `overlap`: the
    exchange of a bucket may run beside the backward pass; otherwise all wait for its end.
    """

    overlap: ClassVar[bool] = True

    def plan(self, layers: Sequence[Layer]) -> list[Bucket]:
        """Buckets of a model whose tensors `layers` are in forward order."""
        raise NotImplementedError


def buckets_of(groups: Sequence[Sequence[int]], layers: Sequence[Layer]) -> list[Bucket]:
    """One bucket per group of tensor indices; the groups and their members in backward order."""
    return [
        Bucket(
            index=index,
            pieces=tuple(layers[layer].numel for layer in group),
            ready_layer=min(group),
            layers=tuple(group),
        )
        for index, group in enumerate(groups)
    ]


def fuse(layers: Sequence[Layer], limits: Sequence[float]) -> list[list[int]]:
    """Fill groups in backward order; a group closes when it has reached its limit (the last limit repeats)."""
    groups: list[list[int]] = [[]]
    size = 0.0
    for layer in reversed(range(len(layers))):
        groups[-1].append(layer)
        size += VALUE_BYTES * layers[layer].numel
        if size >= limits[min(len(groups), len(limits)) - 1]:
            groups.append([])
            size = 0.0
    return [group for group in groups if group]


def partition(buckets: Sequence[Bucket], limit: float) -> list[Bucket]:
    """Cut buckets of one tensor into slices of at most `limit` bytes; fused ones stay whole."""
    most = max(1, int(limit // VALUE_BYTES))
    slices: list[Bucket] = []
    for bucket in buckets:
        sizes = [bucket.pieces]
        if len(bucket.pieces) == 1:
            whole, rest = divmod(bucket.numel, most)
            sizes = [(size,) for size in [most] * whole + [rest] * bool(rest)]
        offset = 0
        for pieces in sizes:
            slices.append(Bucket(len(slices), pieces, bucket.ready_layer, bucket.layers, offset))
            offset += sum(pieces)
    return slices
