"""Clusters with several kinds of GPU: the work of each kind, worker by worker."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.engine.plan.setup import OtherGpu, Setup
from simulator.engine.plan.work.division import Division
from simulator.engine.plan.work.kernels import Kernel
from simulator.engine.plan.work.update import update_time
from simulator.engine.plan.work.work import Chain, Work, prepare_work
from simulator.models.curves import Floats
from simulator.records import replace

PerWorker = tuple[Floats, Floats, Floats]
"""Factor on compute (w, 1), or on what comes before the last backward pass and on each of its buckets (w, 1 + b) where
the host's launches do not follow the GPU; and selection with its standard deviation (w, b); one row where all GPUs are
alike."""


def prepare_all(setup: Setup, workers: int, division: Division) -> tuple[Work, PerWorker]:
    """The work of a job, and what differs from worker to worker."""
    work = prepare_work(setup, workers, division)
    others = [(item, prepare_work(_on(item, setup), workers, division)) for item in setup.others]
    return _take_slowest(work, [other for _, other in others]), _differences(setup, work, others)


def _on(item: OtherGpu, setup: Setup) -> Setup:
    """The setup on another GPU, which computes at its own pace what the same host launches."""
    workload = setup.workload
    if workload.has_host_times:
        measured = workload.stretched(update_time(workload, setup.gpu, setup.runtime))
        workload = measured.at_pace(item.factor).model_copy(update={"compute_time": None})
    return replace(setup, gpu=item.gpu, workload=workload)


def _pace_of(item: OtherGpu, setup: Setup, work: Work, other: Work) -> Floats:
    if not setup.workload.has_host_times:
        return np.array([item.factor])
    mine, theirs = (np.array([each.before_last, *each.backward]) for each in (work, other))
    pace: Floats = np.divide(theirs, mine, out=np.full(len(mine), item.factor), where=mine > 0)
    return pace


def _differences(setup: Setup, work: Work, others: Sequence[tuple[OtherGpu, Work]]) -> PerWorker:
    if not others:
        return np.ones((1, 1)), work.selection[None, :], work.selection_spread[None, :]
    workers = setup.nodes * setup.gpus_per_node
    pace = np.ones((workers, 1 + len(work.backward) if setup.workload.has_host_times else 1))
    selection, spread = (np.tile(values, (workers, 1)) for values in (work.selection, work.selection_spread))
    node = np.arange(workers) // setup.gpus_per_node
    for item, other in others:
        there = np.isin(node, item.nodes)
        pace[there] = _pace_of(item, setup, work, other)
        selection[there], spread[there] = other.selection, other.selection_spread
    return pace, selection, spread


def _take_slowest(work: Work, others: Sequence[Work]) -> Work:
    """After an exchange all workers go on together: combine and update take as long as on the slowest GPU."""
    if not others:
        return work
    every = [work, *others]

    def longest(places: Sequence[Chain]) -> Chain:
        return tuple(
            Kernel(items[0].label, max(item.seconds for item in items if isinstance(item, Kernel)))
            if isinstance(items[0], Kernel)
            else items[0]
            for items in zip(*places, strict=True)
        )

    return replace(
        work,
        update=max(item.update for item in every),
        update_alone=max(item.update_alone for item in every),
        combine=np.max([item.combine for item in every], axis=0),
        outer=np.max([item.outer for item in every], axis=0),
        chains=tuple(longest(each) for each in zip(*(item.chains for item in every), strict=True)),
    )
