"""Profiles of several ranks of one job: which rank stands for all, and how long collectives took without waiting."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.models.groups import group_by
from simulator.records import Record, replace
from simulator.traces.readers.kineto.collectives import CollectiveKernel


class Collectives(Record):
    """The collectives of a job in the order of the first rank's clock.

    `waited`: mean seconds for which ranks waited in each for the last one; None where there is one rank only, or
    where the ranks did not take part in the same collectives, so that `kernels` holds those of all ranks.
    """

    kernels: tuple[CollectiveKernel, ...]
    waited: tuple[float, ...] | None


def match_collectives(ranks: Sequence[Sequence[CollectiveKernel]]) -> Collectives:
    """The collectives of all ranks as one: a kernel starts with its own rank and ends with all of them.

    The n-th collective of one kind, type and number of workers is the same on all ranks. The rank that comes last does
    not wait, so the shortest of its kernels is the time of the collective, whatever the ranks' clocks show; its size
    is that of the largest part.
    """
    if len(ranks) == 1:
        return Collectives(tuple(ranks[0]), None)
    sequences = [group_by(rank, lambda item: (item.collective, item.itemsize, item.workers)) for rank in ranks]
    first = sequences[0]
    counts = [{kind: len(found) for kind, found in sequence.items()} for sequence in sequences]
    if any(other != counts[0] for other in counts):
        return Collectives(tuple(kernel for rank in ranks for kernel in rank), None)
    made = []
    for kind, kernels in first.items():
        for place, kernel in enumerate(kernels):
            same = [sequence[kind][place] for sequence in sequences]
            shortest = min(item.seconds for item in same)
            waited = sum(item.seconds - shortest for item in same) / len(same)
            made.append((replace(kernel, seconds=shortest, nbytes=max(item.nbytes for item in same)), waited))
    made.sort(key=lambda item: item[0].start)
    return Collectives(tuple(kernel for kernel, _ in made), tuple(waited for _, waited in made))


def middle_rank(compute: Sequence[float]) -> int:
    """The rank whose compute is the median, the lower one of two."""
    order = sorted(range(len(compute)), key=lambda rank: (compute[rank], rank))
    return order[(len(order) - 1) // 2]
