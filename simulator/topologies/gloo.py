"""gloo: the algorithms that torch.distributed uses on the CPU and over plain TCP."""

from __future__ import annotations

from typing import Literal

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Layout, Round
from simulator.topologies.base import Rounds, Topology, pass_blocks, ring_pass
from simulator.topologies.tree import Tree
from simulator.units import Bytes


class Gloo(Topology, kind="gloo"):
    """Collectives as gloo runs them (facebookincubator/gloo, read in 2026): rings, and a binomial broadcast.

    All-reduce is a ring (`gloo/allreduce.cc`), as for topology `ring`. A broadcast serves all children at once
    (`gloo/broadcast.cc`), as for `tree` with `children: at_once`. There is no reduce-scatter.

    An all-gather is a ring in halves (`gloo/allgather.cc`): every worker passes each block on in two halves, and the
    next half travels while it waits for the one before. On an idle network: (p-1) S/B + p alpha. But a half is sent
    only after its receiver has said that it is ready (`gloo/transport/tcp/pair.cc`), and a worker first sends its own
    half and then says so. A worker that starts later than its right neighbour finds that one ready and puts its half
    into the link's queue. Its left neighbour hears only after these bytes that it may begin. So one worker that is
    late by more than alpha, as some worker nearly always is, costs min(S/2, `queue`)/B + alpha once; with two workers,
    who have one connection for both directions, S/(2B) + alpha.

    - `start`: of the workers: `one_late`, or `together`, to within alpha.
    - `queue`: bytes of one connection that the host's link takes before those of another one. Linux lets a connection
      have two segments there (TCP small queues, `net/ipv4/tcp_output.c`), of 64 KiB each. This is a prior: a connection
      that was fast until then may have up to a MiB (`tcp_limit_output_bytes`).
    """

    start: Literal["one_late", "together"] = "one_late"
    queue: Bytes = 2.0**17

    def all_reduce(self, nbytes: Floats, layout: Layout) -> Rounds:
        """2(p-1) rounds of S/p from everyone to the next."""
        p = layout.workers
        return ring_pass(np.arange(p), nbytes[:, None] / p, 2 * (p - 1))

    def broadcast(self, nbytes: Floats, layout: Layout) -> Rounds:
        """Down a binomial tree; each worker sends to all of its children at once."""
        return Tree(children="at_once").broadcast(nbytes, layout)

    def all_gather(self, nbytes: Floats, layout: Layout) -> Rounds:
        """A half of each block, p-2 times the other half with the first half of the next block, and the last half."""
        p, half = layout.workers, nbytes / 2
        if p < 2:
            return []
        first = self._first_half(half) if self.start == "one_late" else ring_pass(np.arange(p), half, 1)
        between = pass_blocks(np.arange(p), np.roll(half, -1, axis=1) + half, range(1, p - 1))
        return [*first, *between, _pass_on(np.roll(half, p - 2, axis=1))]

    def _first_half(self, half: Floats) -> Rounds:
        """The first halves, when worker 0 starts last: the worker before it hears of it behind worker 0's own bytes."""
        p = half.shape[1]
        queued = half[:, :1] if p == 2 else np.minimum(half[:, :1], self.queue)
        rest = np.concatenate([half[:, :1] - queued, half[:, 1:]], axis=1)
        zero, last = np.array([0]), np.array([p - 1])
        return [Round(zero, np.array([1]), queued), Round(zero, last, np.zeros_like(queued)), _pass_on(rest)]


def _pass_on(sizes: Floats) -> Round:
    """Everyone sends `sizes` (b, p) to the next worker."""
    return ring_pass(np.arange(sizes.shape[1]), sizes, 1)[0]
