"""Collectives over plain sockets, as the textbooks have them: every rank calls the same function.

`data` is a rank's vector of fp32 numbers, and becomes the result; in an all-gather a rank's share of it stands in its
place. `space` is memory to work in, as large as `data` for each worker: nothing is allocated, which would cost time.
References: Thakur, Rabenseifner and Gropp 2005; Patarasuk and Yuan 2009 (ring); Li et al. 2014 (parameter server).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from groundtruth.connections import Connections, Floats

Collective = Callable[[Connections, int, Floats, Floats], None]


def ring_all_reduce(net: Connections, workers: int, data: Floats, space: Floats) -> None:
    """Reduce-scatter, then all-gather, in 2(p-1) rounds of a p-th of the vector."""
    parts = np.array_split(data, workers)
    after, before = (net.me + 1) % workers, (net.me - 1) % workers
    for step in range(workers - 1):
        part = parts[(net.me - step - 1) % workers]
        came = space[: len(part)]
        net.exchange([(after, parts[(net.me - step) % workers])], [(before, came)])
        part += came
    for step in range(workers - 1):
        sent, taken = parts[(net.me + 1 - step) % workers], parts[(net.me - step) % workers]
        net.exchange([(after, sent)], [(before, taken)])


def ring_all_gather(net: Connections, workers: int, data: Floats, space: Floats) -> None:
    """Every share goes round in p-1 rounds."""
    blocks, after, before = np.split(data, workers), (net.me + 1) % workers, (net.me - 1) % workers
    for step in range(workers - 1):
        sent, taken = blocks[(net.me - step) % workers], blocks[(net.me - step - 1) % workers]
        net.exchange([(after, sent)], [(before, taken)])


def recursive_doubling_all_reduce(net: Connections, workers: int, data: Floats, space: Floats) -> None:
    """Partners at distance 1, 2, 4, ... exchange their sums; p is a power of two."""
    came, distance = space[: len(data)], 1
    while distance < workers:
        partner = net.me ^ distance
        net.exchange([(partner, data)], [(partner, came)])
        data += came
        distance *= 2


def tree_all_reduce(net: Connections, workers: int, data: Floats, space: Floats) -> None:
    """Reduce to rank 0 over a binomial tree, then broadcast."""
    came = space[: len(data)]
    for child in reversed(_children(net.me, workers)):
        net.receive(child, came)
        data += came
    if net.me:
        net.send(_parent(net.me), data)
    tree_broadcast(net, workers, data, space)


def tree_broadcast(net: Connections, workers: int, data: Floats, space: Floats) -> None:
    """Binomial tree from rank 0, one child after the other: each says that it has all before the next one's turn.

    Without that the next message would already share the link with what is left of this one in the socket's buffer.
    """
    word = np.zeros(1, dtype=np.float32)
    if net.me:
        net.receive(_parent(net.me), data)
        net.send(_parent(net.me), word)
    for child in _children(net.me, workers):
        net.send(child, data)
        net.receive(child, word)


def broadcast_at_once(net: Connections, workers: int, data: Floats, space: Floats) -> None:
    """The same tree, but to all children at once, as libraries send it."""
    if net.me:
        net.receive(_parent(net.me), data)
    net.exchange([(child, data) for child in _children(net.me, workers)], [])


def parameter_server(net: Connections, workers: int, data: Floats, space: Floats) -> None:
    """Everyone pushes to the server, which is rank `workers`; it sends the sum back to all."""
    if net.me < workers:
        net.send(workers, data)
        net.receive(workers, data)
        return
    pushed = space.reshape(workers, -1)
    net.exchange([], list(enumerate(pushed)))
    np.sum(pushed, axis=0, out=data)
    net.exchange([(worker, data) for worker in range(workers)], [])


def _parent(rank: int) -> int:
    """Who a rank hears from: its number without the highest bit."""
    return rank - (1 << (rank.bit_length() - 1))


def _children(rank: int, workers: int) -> list[int]:
    """Who a rank sends to, the first level first; level i doubles the 2^i ranks that have the data."""
    steps = range(rank.bit_length(), workers.bit_length())
    return [rank + (1 << step) for step in steps if rank + (1 << step) < workers]


COLLECTIVES: dict[str, Collective] = {
    "ring_all_reduce": ring_all_reduce,
    "recursive_doubling_all_reduce": recursive_doubling_all_reduce,
    "tree_all_reduce": tree_all_reduce,
    "parameter_server": parameter_server,
    "ring_all_gather": ring_all_gather,
    "tree_broadcast": tree_broadcast,
    "broadcast_at_once": broadcast_at_once,
}
