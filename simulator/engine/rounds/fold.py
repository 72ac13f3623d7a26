"""Fold: the rounds of a collective in vectorised max-plus algebra, without an event per message.

A message starts when its sender holds the data and its first link is free. It arrives `latency` later and is complete
when its last link has carried it. Messages of one round that use the same link share its capacity. The fold is exact
if one exchange at a time uses a link and the fabric does not block (`fold_validity.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulator.engine.rounds.symmetry import reduce_to_one_node
from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Layout, Round
from simulator.models.wiring import Wiring

_SAME = 1e-13
_FEW = 64


@dataclass(slots=True)
class _Routed:
    """A round with its routes and times, one row per message (m, b): rows are taken several times faster than columns.

    `shared`: whether messages share links; `meeting`: whether several messages go to one place. `early` (m, 1): the
    most seconds that the token buckets of its links save a message. With token buckets, a link has two free times:
    when its bucket is full again, and when the message before has passed.
    """

    item: Round
    first: Ints
    last: Ints
    latency: Floats
    out_time: Floats
    in_time: Floats
    slower: Floats
    shared: bool
    meeting: bool
    early: Floats | None = None


def fold(
    rounds: Sequence[Round],
    wiring: Wiring,
    ready: Floats,
    *,
    links: Floats | None = None,
    overhead: float = 0.0,
    factor: Floats | None = None,
) -> Floats:
    """Times (b, places) at which each place has finished its part of `rounds`.

    `ready` (places,): when each place may start. `links` (b, L): when each link is free (or its token bucket full),
    updated in place; None: all are free. `overhead`: seconds of a link per message. `factor` (b,): bytes on the links
    per byte of payload. The token buckets of links that messages share are ignored.
    """
    batch = len(rounds[0].nbytes) if rounds else 1
    have = np.repeat(np.asarray(ready, dtype=float)[:, None], batch, axis=1)
    free = np.zeros((len(wiring.capacity), batch)) if links is None else links.T
    if wiring.burst is not None:
        free = np.concatenate([free, free - (wiring.burst / wiring.capacity)[:, None]])
    for item in rounds:
        routed = _route_round(item, wiring, factor, overhead)
        if item.repeat == 1:
            _step(routed, have, free)
        else:
            _repeat(routed, have, free, wiring.layout)
    if wiring.burst is not None and links is not None:
        links.T[:] = free[: len(wiring.capacity)]
    return have.T


def _route_round(item: Round, wiring: Wiring, factor: Floats | None, overhead: float) -> _Routed:
    first, last, latency, _ = wiring.route(item.src, item.dst)
    nbytes = item.nbytes.T if factor is None else item.nbytes.T * factor
    leaving, arriving = wiring.capacity[first], wiring.capacity[last]
    in_time = slower = out_time = nbytes / leaving[:, None] + overhead
    if (leaving != arriving).any():
        in_time = nbytes / arriving[:, None] + overhead
        slower = np.maximum(out_time, in_time)
    shared = _any_twice(first) or _any_twice(last)
    early = None
    if wiring.burst is not None:
        held = np.minimum(wiring.burst[first], wiring.burst[last]) / np.minimum(leaving, arriving)
        early = held[:, None]
    return _Routed(item, first, last, latency[:, None], out_time, in_time, slower, shared, _any_twice(item.dst), early)


def _any_twice(links: Ints) -> bool:
    """Whether an entry occurs twice."""
    if len(links) <= _FEW:  # bincount takes time in proportion to the number of links
        return len(set(links.tolist())) < len(links)
    return bool(np.bincount(links).max() > 1)


def _step(routed: _Routed, have: Floats, free: Floats) -> None:
    """One round: update `have` (places, b) and `free` (L, b)."""
    if routed.early is not None and not routed.shared:
        _step_token_buckets(routed, routed.early, have, free)
        return
    src, dst, first, last = routed.item.src, routed.item.dst, routed.first, routed.last
    start = np.maximum(have.take(src, axis=0), free.take(first, axis=0))
    if routed.shared:
        done = _step_shared(routed, start, free)
        np.maximum.at(have, dst, done)
        return
    # Bytes cannot leave faster than they arrive: a slow or busy link delays the other end.
    done = np.maximum(start + routed.latency, free.take(last, axis=0)) + routed.slower
    free[first] = done - routed.latency
    free[last] = done
    _record_arrival(routed, have, done)


def _record_arrival(routed: _Routed, have: Floats, done: Floats) -> None:
    """Update `have`: a place has all data of a round once the last message to it has arrived."""
    dst = routed.item.dst
    if routed.meeting:
        np.maximum.at(have, dst, done)
    else:
        have[dst] = np.maximum(have.take(dst, axis=0), done)


def _step_token_buckets(routed: _Routed, early: Floats, have: Floats, free: Floats) -> None:
    """One round over links with token buckets: update `have` (places, b) and `free` (2L, b).

    A bucket that refills at the link's rate is full again when the link without a bucket would be free. The data has
    passed earlier, by at most the time in which a bucket fills (virtual scheduling algorithm, ITU-T I.371), but not
    before it could have been sent.
    """
    src, first, last, latency = routed.item.src, routed.first, routed.last, routed.latency
    full, passed = np.split(free, 2)
    soonest = np.maximum(have.take(src, axis=0), passed.take(first, axis=0)) + latency
    np.maximum(soonest, passed.take(last, axis=0), out=soonest)
    done = np.maximum(np.maximum(full.take(first, axis=0) + latency, full.take(last, axis=0)), soonest) + routed.slower
    arrived = np.maximum(soonest, done - early)
    full[first], full[last] = done - latency, done
    passed[first], passed[last] = arrived - latency, arrived
    _record_arrival(routed, have, arrived)


def _step_shared(routed: _Routed, start: Floats, free: Floats) -> Floats:
    """When messages that share links are complete: each link carries all of its bytes at its full capacity."""
    first, last, latency = routed.first, routed.last, routed.latency
    left, came = free.copy(), free.copy()
    start = np.maximum(start, free.take(last, axis=0) - latency)
    np.maximum.at(left, first, start)
    np.add.at(left, first, routed.out_time)
    np.maximum.at(came, last, start + latency)
    np.add.at(came, last, routed.in_time)
    done = np.maximum(left[first] + latency, came[last])
    np.maximum.at(free, first, done - latency)
    np.maximum.at(free, last, done)
    return done


def _repeat(routed: _Routed, have: Floats, free: Floats, layout: Layout) -> None:
    """Repeat a round: on one node if all nodes are alike, otherwise on all of them."""
    item, ends, period = routed.item, (routed.first, routed.last), max(1, layout.gpus_per_node)
    one = None
    if item.repeat > period and not routed.shared and routed.early is None:
        state = (have.take(item.src, axis=0), have.take(item.dst, axis=0), *(free.take(each, axis=0) for each in ends))
        same = (routed.latency, routed.out_time, routed.in_time, routed.slower, *state)
        one = reduce_to_one_node(layout, item.src, item.dst, ends, same)
    if one is None:
        _step_repeatedly(routed, have, free, period)
        return
    first = slice(one.count)
    alone = replace(
        routed,
        item=Round(one.src, one.dst, item.nbytes[:, first], item.repeat),
        first=one.first,
        last=one.last,
        latency=routed.latency[first],
        out_time=routed.out_time[first],
        in_time=routed.in_time[first],
        slower=routed.slower[first],
    )
    times = one.copy_times(have, free, *ends)
    _step_repeatedly(alone, *times, period)
    one.write_times(times, have, free, ends)


def _step_repeatedly(routed: _Routed, have: Floats, free: Floats, period: int) -> None:
    """Repeat a round. Once all times have moved by the same amount over a period, the remaining periods are added.

    Max-plus linear systems become periodic (Baccelli et al. 1992), so this is exact. `period` is a guess that holds
    for regular clusters; if it is wrong, every round is stepped.
    """
    remaining = routed.item.repeat
    used = np.flatnonzero(np.bincount(np.concatenate([routed.first, routed.last])))
    if routed.early is not None:
        used = np.concatenate([used, used + len(free) // 2])
    places = np.flatnonzero(np.bincount(np.concatenate([routed.item.src, routed.item.dst])))
    before: tuple[Floats, Floats] | None = None
    while remaining:
        for _ in range(min(period, remaining)):
            _step(routed, have, free)
            remaining -= 1
        if remaining < period:
            continue
        now = have[places], free[used]
        if before is not None:
            moved, busy = now[0] - before[0], now[1] - before[1]
            pace = moved[0]
            scale = _SAME * np.abs(now[0]).max()
            if np.abs(moved - pace).max() <= scale and np.abs(busy - pace).max() <= scale:
                jumps = remaining // period
                have[places] += jumps * pace
                free[used] += jumps * pace
                remaining -= jumps * period  # less than a period is left
        before = now
