"""Message patterns: rounds of messages, for the `Messages` steps of single methods and for topologies."""

from __future__ import annotations

from itertools import groupby

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Layout, Round, send
from simulator.models.limits import refuse_messages


def rotations(nbytes: Floats, layout: Layout) -> list[Round]:
    """Every worker sends `nbytes` (b, 1) or (b, p) to every other: p-1 rounds, in round t to the worker t places on."""
    p = layout.workers
    refuse_messages(p * (p - 1))
    workers = np.arange(p)
    around = np.concatenate([workers, workers])  # the receivers of all rounds are windows of one array
    return [send(workers, around[t : t + p], nbytes) for t in range(1, p)]


def all_to_all(nbytes: tuple[float, ...], layout: Layout) -> list[Round]:
    """Every worker sends `nbytes[0]` to every other, in rotations."""
    return rotations(np.array([[nbytes[0]]]), layout)


def all_to_all_in_nodes(nbytes: tuple[float, ...], layout: Layout) -> list[Round]:
    """Every worker sends `nbytes[0]` to every other one of its node, in rotations."""
    workers, g = np.arange(layout.workers), layout.gpus_per_node
    return [send(workers, workers - workers % g + (workers + t) % g, np.array([[nbytes[0]]])) for t in range(1, g)]


def all_to_all_between_nodes(nbytes: tuple[float, ...], layout: Layout) -> list[Round]:
    """Every worker sends `nbytes[0]` to those of its rank on all other nodes, in rotations."""
    workers = np.arange(layout.workers)
    return [
        send(workers, (workers + t * layout.gpus_per_node) % layout.workers, np.array([[nbytes[0]]]))
        for t in range(1, layout.nodes)
    ]


def binomial_reduce(nbytes: Floats, layout: Layout) -> list[Round]:
    """Payloads (b,) up the binomial tree, in which worker 0 has the children 1, 2, 4, ... and the nearest one first."""
    rounds, distance = [], 1
    while distance < layout.workers:
        parents = np.arange(0, layout.workers - distance, 2 * distance)
        rounds.append(send(parents + distance, parents, nbytes[:, None]))
        distance *= 2
    return rounds


def merge_tree(nbytes: tuple[float, ...], layout: Layout) -> list[Round]:
    """Pairs merge up a tree in log2 p rounds of `nbytes[0]`; then worker 0 broadcasts as many bytes down again.

    gTop-k (Shi et al., ICDCS 2019). p must be a power of two.
    """
    up = binomial_reduce(np.array([nbytes[0]]), layout)
    return up + [item.backwards() for item in reversed(up)]


def ring_rounds(nbytes: tuple[float, ...], layout: Layout) -> list[Round]:
    """In round t, every worker sends `nbytes[t]` to the next one on a ring of all workers."""
    workers = np.arange(layout.workers)
    following = np.roll(workers, -1)
    return [send(workers, following, np.array([[size]]), len(list(equal))) for size, equal in groupby(nbytes)]
