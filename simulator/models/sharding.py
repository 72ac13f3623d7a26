"""Parameters that are sharded over a group of GPUs: what is gathered, reduced and copied for each unit."""

from __future__ import annotations

from simulator.records import Record

SHARED_LABELS = {"gather": "AllGather of shards", "reduce": "ReduceScatter to shards"}
"""Collectives among the GPUs that share parameters, by the names of their costs in a graph, as people read of them."""

JOINT_LABELS = {
    "joint_forward": "collectives in the forward pass of layers",
    "joint_backward": "collectives in the backward pass of layers",
    "joint_forwards": "collectives in the forward pass",
    "joint_backwards": "collectives in the backward pass",
}
"""What GPUs do together inside of the layers that they divide: of a unit in both passes, and of a whole pass."""

AXIS_LABELS = SHARED_LABELS | JOINT_LABELS
"""Collectives among GPUs that are not the workers."""

REPLICA, SHARD, LAYERS = AXES = "replica", "shard", "layers"
"""Whom GPUs exchange with, each by a communicator of its own: those with the same part of the model, those that share a
copy of it, and those that divide its layers."""

AXIS_OF = dict.fromkeys(SHARED_LABELS.values(), SHARD) | dict.fromkeys(JOINT_LABELS.values(), LAYERS)
"""The axes of collectives that are not those of the workers, by what people read."""

AXIS_NAMES = {label: name for name, label in AXIS_LABELS.items()}
"""The names of their costs, by what people read."""


class Copies(Record):
    """What a framework copies around the collectives of a unit, in passes over its parameters.

    `out`: after a gather, from the gathered buffer to the parameters, in the format of the gather, read and written.
    `into`: before a reduction, from the gradients, in the format in which they were computed, to a buffer in that of
    the reduction. `joined`: gradients are joined to one tensor before that, in their own format, read and written.
    """

    out: bool = False
    into: bool = False
    joined: bool = False
