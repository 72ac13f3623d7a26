"""What a scheduler promises: its rules, its buckets, and the loop that it writes down; each breach is named once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from simulator.component import expected
from simulator.errors import format_value
from simulator.models.exchange import Bucket
from simulator.models.graph import Graph, Period, Queue
from simulator.models.layers import Layer
from simulator.schedulers.base import Scheduler
from simulator.schedulers.step import Shape

_PARTS = {
    "idle": "`load`",
    "forward": "`forward` or `forward_layer_by_layer`",
    "backward": "`backward`, which is iterated",
    "update": "`update` or `forward_layer_by_layer`",
}
"""What every loop writes down, by the terms of the breakdown."""


def refuse_rules(scheduler: Scheduler, passes: int) -> None:
    """Raise an expected-error where the queue, the rounds or the period of a scheduler cannot be."""
    kind, queue, period, rounds = scheduler.kind, scheduler.queue, scheduler.period, scheduler.rounds(passes)
    if not isinstance(queue, Queue) or queue.streams < 1:
        raise expected(f"a `Queue` of at least one stream as the queue of scheduler {kind}", format_value(queue))
    if rounds not in range(1, passes + 1) or passes % rounds:
        what = "1" if passes == 1 else f"1, or what divides {passes} passes,"
        raise expected(f"{what} as the rounds of scheduler {kind}", format_value(rounds))
    if period is not None and not (isinstance(period, Period) and period.steps >= 1 and period.fragments):
        what = f"a `Period` of at least one step and one fragment, or None, as the period of scheduler {kind}"
        raise expected(what, format_value(period))


def refuse_buckets(scheduler: Scheduler, buckets: Any, layers: Sequence[Layer]) -> None:
    """Raise an expected-error unless buckets hold every element once, in the order in which they become ready."""
    who = f"scheduler {scheduler.kind}"
    if not isinstance(buckets, Sequence) or not all(isinstance(each, Bucket) for each in buckets):
        raise expected(f"a list of `Bucket` from `plan` of {who}", format_value(buckets))
    held, before = [0] * len(layers), len(layers) - 1
    for place, bucket in enumerate(buckets):
        name, inside = f"bucket {place} of {who}", range(before + 1)
        if bucket.index != place:
            raise expected(f"the index {place} in {name}", str(bucket.index), "buckets are numbered in their order")
        if not bucket.pieces or len(bucket.pieces) != len(bucket.layers) or min(bucket.pieces) < 1:
            what = f"at least one element of each of its `layers` as `pieces` of {name}"
            raise expected(what, f"{_short(bucket.pieces)} of layers {_short(bucket.layers)}")
        if not all(0 <= layer < len(layers) for layer in bucket.layers):
            raise expected(f"layers below {len(layers)} in {name}", _short(bucket.layers), "layers count from 0")
        if bucket.ready_layer not in inside or bucket.ready_layer > min(bucket.layers):
            hint = "it is ready with its first layer, and no later than the buckets behind it, in backward order"
            most = min(before, *bucket.layers)
            raise expected(f"a `ready_layer` from 0 to {most} in {name}", str(bucket.ready_layer), hint)
        before = bucket.ready_layer
        for layer, count in zip(bucket.layers, bucket.pieces, strict=True):
            held[layer] += count
    wrong = [place for place, (layer, count) in enumerate(zip(layers, held, strict=True)) if count != layer.numel]
    if wrong:
        first = layers[wrong[0]]
        hint = "" if len(wrong) == 1 else f"so it is with {len(wrong)} tensors"
        what = f"buckets of {who} that hold each of the {first.numel:,} elements of {first.name} once"
        raise expected(what, f"{held[wrong[0]]:,}", hint)


def refuse_loop(scheduler: Scheduler, graph: Graph, shape: Shape, *, sharded: bool) -> None:
    """Raise an expected-error where a loop leaves out a part of an iteration, or does it twice.

    The collectives of a sharded job are not counted, which has several kinds of them.
    """
    terms = {task.term for task in graph.tasks}
    missing = [call for term, call in _PARTS.items() if term not in terms]
    if missing:
        raise expected(f"{missing[0]} in `lay_out`", "none")
    period = None if shape.alone else scheduler.period
    if graph.periodic and period is None:
        raise expected("a `period` of a scheduler whose `lay_out` has local steps", "none")
    if period is not None and not graph.periodic:
        raise expected("local steps in `lay_out` of a scheduler with a `period`", "none")
    often = Counter[tuple[str, int]]()
    for task in graph.tasks:
        often[task.cost.name, task.cost.index] += task.cost.times
    if period is not None:
        if often["update", 0] != period.steps:
            what = f"the {period.steps} local steps of its period in `lay_out`"
            raise expected(what, str(often["update", 0]), "`end_period` adds those that are left")
        _refuse_counts(often, {"exchange": 1}, shape)
        return
    for name, call in (("load", "`load`"), ("update", "`update`"), ("layer_update", "`forward_layer_by_layer`")):
        if often[name, 0] > 1:
            raise expected(f"{call} once in `lay_out`", f"{often[name, 0]} times")
    if not sharded:
        rounds = scheduler.rounds(shape.passes)
        _refuse_counts(often, {"backward": rounds, "exchange": rounds}, shape)


def _refuse_counts(often: Counter[tuple[str, int]], wanted: Mapping[str, int], shape: Shape) -> None:
    """Raise an expected-error where a bucket is not computed or exchanged as often as it is to be."""
    for name, times in wanted.items():
        wrong = [bucket for bucket in range(len(shape.buckets)) if often[name, bucket] != times]
        if wrong:
            passes = "once" if times == 1 else f"{times} times"
            raise expected(f"`{name}` of every bucket {passes} in `lay_out`", f"{often[name, wrong[0]]} of {wrong[0]}")


def _short(values: Sequence[int]) -> str:
    return ", ".join(map(str, values[:4])) + (", ..." if len(values) > 4 else "") if values else "none"
