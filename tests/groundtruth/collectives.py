"""Collectives over plain sockets, as the textbooks have them: every rank calls the same function.

`data` is a rank's vector of fp32 numbers, or its share of the result in an all-gather; what comes back is the result.
References: Thakur, Rabenseifner and Gropp 2005; Patarasuk and Yuan 2009 (ring); Li et al. 2014 (parameter server).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from groundtruth.connections import Connections, Floats

Collective = Callable[[Connections, int, Floats], Floats]


def ring_all_reduce(net: Connections, workers: int, data: Floats) -> Floats:
    """Reduce-scatter, then all-gather, in 2(p-1) rounds of a p-th of the vector."""
    parts = np.array_split(data.copy(), workers)
    after, before = (net.me + 1) % workers, (net.me - 1) % workers
    for step in range(workers - 1):
        part = parts[(net.me - step - 1) % workers]
        came = np.empty_like(part)
        net.exchange([(after, parts[(net.me - step) % workers])], [(before, came)])
        part += came
    for step in range(workers - 1):
        sent, taken = parts[(net.me + 1 - step) % workers], parts[(net.me - step) % workers]
        net.exchange([(after, sent)], [(before, taken)])
    return np.concatenate(parts)


def ring_all_gather(net: Connections, workers: int, data: Floats) -> Floats:
    """Every share goes round in p-1 rounds."""
    blocks = [np.empty_like(data) for _ in range(workers)]
    blocks[net.me][:] = data
    after, before = (net.me + 1) % workers, (net.me - 1) % workers
    for step in range(workers - 1):
        sent, taken = blocks[(net.me - step) % workers], blocks[(net.me - step - 1) % workers]
        net.exchange([(after, sent)], [(before, taken)])
    return np.concatenate(blocks)


def recursive_doubling_all_reduce(net: Connections, workers: int, data: Floats) -> Floats:
    """Partners at distance 1, 2, 4, ... exchange their sums; p is a power of two."""
    total, came, distance = data.copy(), np.empty_like(data), 1
    while distance < workers:
        partner = net.me ^ distance
        net.exchange([(partner, total)], [(partner, came)])
        total += came
        distance *= 2
    return total


def tree_all_reduce(net: Connections, workers: int, data: Floats) -> Floats:
    """Reduce to rank 0 over a binomial tree, then broadcast."""
    total, came = data.copy(), np.empty_like(data)
    for child in reversed(_children(net.me, workers)):
        net.receive(child, came)
        total += came
    if net.me:
        net.send(_parent(net.me), total)
    return tree_broadcast(net, workers, total)


def tree_broadcast(net: Connections, workers: int, data: Floats) -> Floats:
    """Binomial tree from rank 0, one child after the other: each says that it has all before the next one's turn.

    Without that the next message would already share the link with what is left of this one in the socket's buffer.
    """
    data, word = data.copy(), np.zeros(1, dtype=np.float32)
    if net.me:
        net.receive(_parent(net.me), data)
        net.send(_parent(net.me), word)
    for child in _children(net.me, workers):
        net.send(child, data)
        net.receive(child, word)
    return data


def broadcast_at_once(net: Connections, workers: int, data: Floats) -> Floats:
    """The same tree, but to all children at once, as libraries send it."""
    data = data.copy()
    if net.me:
        net.receive(_parent(net.me), data)
    net.exchange([(child, data) for child in _children(net.me, workers)], [])
    return data


def parameter_server(net: Connections, workers: int, data: Floats) -> Floats:
    """Everyone pushes to the server, which is rank `workers`; it sends the sum back to all."""
    if net.me < workers:
        net.send(workers, data)
        total = np.empty_like(data)
        net.receive(workers, total)
        return total
    pushed = [np.empty_like(data) for _ in range(workers)]
    net.exchange([], list(enumerate(pushed)))
    total = np.sum(pushed, axis=0, dtype=np.float32)
    net.exchange([(worker, total) for worker in range(workers)], [])
    return total


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
