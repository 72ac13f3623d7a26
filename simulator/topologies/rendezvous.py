"""Eager and rendezvous: how an MPI library sends a message over TCP."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from simulator.models.exchange import Ints, Round
from simulator.topologies.base import Rounds

Mask = npt.NDArray[np.bool_]


def alike_payloads(rounds: Rounds, count: int, limit: float) -> list[Ints]:
    """The `count` payloads in groups of those whose messages above `limit` bytes are the same ones."""
    if not rounds:
        return [np.arange(count)]
    above = np.concatenate([item.nbytes > limit for item in rounds], axis=1)
    groups: dict[bytes, list[int]] = {}
    for number, row in enumerate(np.packbits(above, axis=1)):
        groups.setdefault(row.tobytes(), []).append(number)
    return [np.array(members) for members in groups.values()]


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
        later = at_once if queue is None else _behind_data(item, large, asking, queue)
        for turn in range(item.repeat):
            made += at_once if number == turn == 0 else later
    return made


def _behind_data(item: Round, large: Mask, asking: Round, queue: float) -> Rounds:
    """One round, in which every second answer waits behind the data of the worker that answers.

    The workers whose data are first send a part of them; then they answer those that send to them, whose data follow.
    """
    late = _answered_late(item, large)
    if not late.any():
        return [asking, asking.backwards(), Round(item.src, item.dst, item.nbytes)]
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
