"""MPI: the algorithms that Open MPI and MPICH choose, with eager and rendezvous messages over TCP."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from simulator.component import expected
from simulator.errors import suggest_nearest
from simulator.hardware.machine import Machine
from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Layout, Round
from simulator.models.groups import group_by
from simulator.models.largest import Mask
from simulator.topologies.base import Rounds, Subset, Topology
from simulator.topologies.mpi_algorithms import ALGORITHMS, Library, choose
from simulator.units import Bytes


def alike_payloads(rounds: Rounds, count: int, limit: float) -> list[Ints]:
    """The `count` payloads in groups of those whose messages above `limit` bytes are the same ones."""
    if not rounds:
        return [np.arange(count)]
    above = np.concatenate([item.nbytes > limit for item in rounds], axis=1)
    rows = np.packbits(above, axis=1)
    return [np.array(members) for members in group_by(range(count), lambda number: rows[number].tobytes()).values()]


def with_rendezvous(rounds: Rounds, limit: float, queue: float | None) -> Rounds:
    """The rounds with a request and an answer, messages of 0 bytes, before messages of more than `limit` bytes.

    All payloads must have the same messages above the limit (`alike_payloads`). In all rounds but the first,
    answers wait behind data: all of the data on the same connection, and `queue` bytes where the data go to another
    worker. None: no answer waits.
    """
    made: Rounds = []
    for number, item in enumerate(rounds):
        large: Mask = np.any(item.nbytes > limit, axis=0)
        if not large.any():
            made.append(item)
            continue
        asking = Round(item.src[large], item.dst[large], np.zeros((len(item.nbytes), int(large.sum()))))
        at_once = [asking, asking.backwards(), Round(item.src, item.dst, item.nbytes)]
        later = (queue is not None and _behind_data(item, large, asking, queue)) or at_once
        for turn in range(item.repeat):
            made += at_once if number == turn == 0 else later
    return made


def _behind_data(item: Round, large: Mask, asking: Round, queue: float) -> Rounds:
    """One round, in which every second answer waits behind the data of the worker that answers; empty if none does.

    The workers whose data are first send a part of them; then they answer those that send to them, whose data follow.
    """
    late = _answered_late(item, large)
    if not late.any():
        return []
    places = int(max(item.src.max(), item.dst.max())) + 1
    two_way = np.isin(item.dst * places + item.src, item.src * places + item.dst)
    queued = np.minimum(item.nbytes, queue)
    # The mean of what is queued at a random time of a transfer: `queue` until the last `queue` bytes, then half of it.
    waits = queued * (1 - queued / (2 * np.maximum(item.nbytes, 1.0)))
    ahead = np.where(two_way, item.nbytes, waits)
    early_asking, late_asking = _some(asking, ~late[large]), _some(asking, late[large])
    first, rest = item.nbytes.copy(), item.nbytes - ahead
    first[:, ~late] = ahead[:, ~late]
    rest[:, late] = item.nbytes[:, late]
    keep = late | (rest > 0).any(axis=0)
    return [
        asking,
        early_asking.backwards(),
        _some(Round(item.src, item.dst, first), ~late),
        late_asking.backwards(),
        _some(Round(item.src, item.dst, rest), keep),
    ]


def _answered_late(item: Round, large: Mask) -> Mask:
    """Messages (m,) above the limit whose receiver sends large data first.

    Every second worker in steps of the distance to its receiver: on a ring every second one, of two partners one.
    """
    odd = item.src // np.abs(item.dst - item.src) % 2 == 1
    sends_first = np.zeros(int(max(item.src.max(), item.dst.max())) + 1, dtype=bool)
    sends_first[item.src[large & ~odd]] = True
    late: Mask = large & odd & sends_first[item.dst]
    return late


def _some(item: Round, mask: Mask) -> Round:
    return Round(item.src[mask], item.dst[mask], item.nbytes[:, mask])


EAGER_LIMIT = {"open_mpi": 64 * 2.0**10 - 64, "mpich": 128 * 2.0**10}
"""Largest message in bytes that is sent at once over TCP: btl_tcp_eager_limit (Open MPI 4.1 and 5.0: 64 KiB with a
header of 64 bytes), MPIR_CVAR_CH3_EAGER_MAX_MSG_SIZE (MPICH, ch3)."""

Primitive = Literal["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"]


class Mpi(Topology, kind="mpi"):
    """MPI over TCP: the algorithm that the library chooses by payload and worker count, or one that is forced.

    `library`: whose decisions and limits apply (`mpi_algorithms.py`). `algorithms` forces the algorithm of a primitive,
    as `coll_tuned_allreduce_algorithm` does in Open MPI. Workers are numbered node by node, and the algorithms do not
    know nodes. Sums take no time.

    Messages of up to `eager_limit` bytes are sent at once: alpha + S/B. For larger ones the sender asks first, and
    sends once the receiver has answered: 3 alpha + S/B (Open MPI, pml/ob1 with btl/tcp: the whole message follows the
    answer in one piece). A worker that has several children serves them at once, since the library hands messages to
    the sockets' buffers; a worker that receives in turn answers in turn.

    An answer waits behind data that the same worker sends, unless `answers_wait` is false. Between two workers there is
    one connection for both directions, and what is to be sent on it waits in a queue. A worker that gets the answer to
    its own request before it has read the partner's request puts its data into the queue first, and its answer behind
    them: the partner's data cannot start before these data have arrived, and the two messages of a two-way exchange
    take 4 alpha + 2S/B. If the data go to another worker, as on a ring, the answer waits for what they have put into
    the queue of the NIC, `queue` bytes or the whole message. In the first round workers come from computing. Each sends
    its own request before it looks for the others', so that all are answered before any data. Later a worker that waits
    inside the library answers a request before it sends its own.

    Measured with Open MPI 4.1.8 (100 and 1000 Mbit/s) and 5.0.11 (100 Mbit/s): the first step of a two-way exchange
    runs at the full rate, later ones at half of it, if the steps of the two begin more than alpha apart. Workers that
    stay in step more closely keep the full rate; this happens with two workers on two idle cores. For MPICH the same is
    assumed, without a measurement. `queue` is a prior: TCP lets a connection put two segments of 64 KiB into the NIC's
    queue at rates of up to 1 Gbit/s (TCP small queues, Linux 3.6, 2012, net/ipv4/tcp_output.c), and answers on rings
    were measured to wait for 30 to 165 KiB. The wait is the mean of what is queued at a random time of a message:
    queue (1 - queue/2S), or S/2 for S below `queue`.
    """

    library: Library = "open_mpi"
    algorithms: dict[Primitive, str] = Field(default_factory=dict)
    eager_limit: Bytes | None = None
    answers_wait: bool = True
    queue: Bytes = 128 * 2.0**10

    def refuse_unfit(self) -> None:
        for primitive, name in self.algorithms.items():
            known = ALGORITHMS[primitive]
            if name not in known:
                hint = suggest_nearest(name, known)
                raise expected(f"an algorithm for {primitive}: {', '.join(known)}", f"'{name}'", hint)

    @property
    def limit(self) -> float:
        """The eager limit in bytes."""
        return EAGER_LIMIT[self.library] if self.eager_limit is None else self.eager_limit

    def choices(self, primitive: str, nbytes: Floats, layout: Layout, machine: Machine | None = None) -> list[Subset]:
        """One choice for each algorithm, and for each set of messages that need an answer first."""
        chosen = np.array(self._algorithms(primitive, nbytes, layout))
        made = []
        for name in dict.fromkeys(chosen.tolist()):
            forced = self.model_copy(update={"algorithms": {primitive: name}})
            members = np.flatnonzero(chosen == name)
            sizes = nbytes[members]
            if primitive == "all_gather":  # of unequal blocks the largest decides, which are not known here
                sizes = np.repeat(sizes[:, None] / layout.workers, layout.workers, axis=1)
            for group in alike_payloads(ALGORITHMS[primitive][name](sizes, layout), len(sizes), self.limit):
                mask = np.zeros(len(nbytes), dtype=bool)
                mask[members[group]] = True
                made.append(Subset(forced, mask, name))
        return made

    def collective(self, primitive: str, nbytes: Floats, layout: Layout) -> Rounds:
        """Rounds of the algorithm that is chosen for the largest payload."""
        return self.as_sent(self.plain_rounds(primitive, nbytes, layout))

    def as_sent(self, rounds: Rounds) -> Rounds:
        """The rounds with requests and answers of large messages."""
        return with_rendezvous(rounds, self.limit, self.queue if self.answers_wait else None)

    def plain_rounds(self, primitive: str, nbytes: Floats, layout: Layout) -> Rounds:
        """The rounds of the algorithm that is chosen for the largest payload, without requests and answers.

        `reduce`, which no step of a training needs, sums payloads (b,) at worker 0.
        """
        largest = nbytes.max(initial=0.0, keepdims=True) if nbytes.ndim == 1 else nbytes.sum(axis=1).max(keepdims=True)
        (name,) = self._algorithms(primitive, largest, layout)
        return ALGORITHMS[primitive][name](nbytes, layout)

    def _algorithms(self, primitive: str, nbytes: Floats, layout: Layout) -> list[str]:
        """The name of the algorithm of each payload (b,), as `choose` takes them."""
        forced = {key: name for key, name in self.algorithms.items() if key == primitive}
        return [*forced.values()] * len(nbytes) if forced else choose(self.library, primitive, nbytes, layout.workers)
