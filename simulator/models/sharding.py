"""Parameters that are sharded over a group of GPUs: what is gathered, reduced and copied for each unit."""

from __future__ import annotations

from simulator.records import Record

SHARED_LABELS = {"gather": "AllGather of shards", "reduce": "ReduceScatter to shards"}
"""Collectives among the GPUs that share parameters, by the names of their costs in a graph, as people read of them."""

SHARED_NAMES = {label: name for name, label in SHARED_LABELS.items()}
"""The names of their costs, by what people read."""
AXES = ("replica", "shard")
"""Whom the GPUs of a sharded job exchange with, in the order of its communicators: GPUs with the same part, and those
that share a copy of the model."""


class Copies(Record):
    """What a framework copies around the collectives of a unit, in passes over its parameters.

    `out`: after a gather, from the gathered buffer to the parameters, in the format of the gather, read and written.
    `into`: before a reduction, from the gradients, in the format in which they were computed, to a buffer in that of
    the reduction. `joined`: gradients are joined to one tensor before that, in their own format, read and written.
    """

    out: bool = False
    into: bool = False
    joined: bool = False
