"""Fold: a collective's rounds in vectorised max-plus, without an event per message.

A message starts when its sender holds the data and its first link is free; it arrives `latency` later and is complete
when its last link has carried it. Messages of one round that share a link share its capacity. Exact when one exchange
holds a link at a time and the fabric does not block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulator.engine.rounds.symmetry import one_node
from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Layout, Round
from simulator.models.wiring import Wiring

_SAME = 1e-13
_FEW = 64


@dataclass(slots=True)
class _Routed:
    """A round with its routes and times, one row per message (m, b), whether messages share links, and whether two go
    to one place, which they can by links of their own.

    `early` (m, 1): seconds that the token buckets of its links save a message at most. Where there are buckets, links
    have two free times: when the bucket is full again, and when what came before has passed.

    Rows, because taking rows of an array is several times faster than taking columns.
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

    `ready` (places,) is when each may start; `links` (b, L) when each link is free (its bucket full, where it has
    one), updated in place (all free if None); `overhead` seconds of a link per message; `factor` (b,) bytes on the wire
    per byte of payload. Where messages share a link, its bucket counts for nothing.
    """
    batch = len(rounds[0].nbytes) if rounds else 1
    have = np.repeat(np.asarray(ready, dtype=float)[:, None], batch, axis=1)
    free = np.zeros((len(wiring.capacity), batch)) if links is None else links.T
    if wiring.burst is not None:
        free = np.concatenate([free, free - (wiring.burst / wiring.capacity)[:, None]])
    for item in rounds:
        routed = _routed(item, wiring, factor, overhead)
        if item.repeat == 1:
            _step(routed, have, free)
        else:
            _repeat(routed, have, free, wiring.layout)
    if wiring.burst is not None and links is not None:
        links.T[:] = free[: len(wiring.capacity)]
    return have.T


def _routed(item: Round, wiring: Wiring, factor: Floats | None, overhead: float) -> _Routed:
    first, last, latency, _ = wiring.route(item.src, item.dst)
    nbytes = item.nbytes.T if factor is None else item.nbytes.T * factor
    leaving, arriving = wiring.capacity[first], wiring.capacity[last]
    in_time = slower = out_time = nbytes / leaving[:, None] + overhead
    if (leaving != arriving).any():
        in_time = nbytes / arriving[:, None] + overhead
        slower = np.maximum(out_time, in_time)
    shared = _shares(first) or _shares(last)
    early = None
    if wiring.burst is not None:
        held = np.minimum(wiring.burst[first], wiring.burst[last]) / np.minimum(leaving, arriving)
        early = held[:, None]
    return _Routed(item, first, last, latency[:, None], out_time, in_time, slower, shared, _shares(item.dst), early)


def _shares(links: Ints) -> bool:
    """Whether two messages name the same link."""
    if len(links) <= _FEW:  # counting takes as long as there are links, and a chain is of rounds of one message
        return len(set(links.tolist())) < len(links)
    return bool(np.bincount(links).max() > 1)


def _step(routed: _Routed, have: Floats, free: Floats) -> None:
    """One round: update `have` (places, b) and `free` (L, b)."""
    if routed.early is not None and not routed.shared:
        _bucket(routed, routed.early, have, free)
        return
    src, dst, first, last = routed.item.src, routed.item.dst, routed.first, routed.last
    start = np.maximum(have.take(src, axis=0), free.take(first, axis=0))
    if routed.shared:
        done = _shared(routed, start, free)
        np.maximum.at(have, dst, done)
        return
    # Bytes can't leave faster than they arrive: a slower or busy link holds the other end back.
    done = np.maximum(start + routed.latency, free.take(last, axis=0)) + routed.slower
    free[first] = done - routed.latency
    free[last] = done
    _arrive(routed, have, done)


def _arrive(routed: _Routed, have: Floats, done: Floats) -> None:
    """A place has all of a round once the last message to it has come."""
    dst = routed.item.dst
    if routed.meeting:
        np.maximum.at(have, dst, done)
    else:
        have[dst] = np.maximum(have.take(dst, axis=0), done)


def _bucket(routed: _Routed, early: Floats, have: Floats, free: Floats) -> None:
    """One round over token buckets: update `have` (places, b) and `free` (2L, b).

    A bucket that refills at the link's rate is full again when the link without a bucket would be free; the data is
    through up to a bucket's worth of time before that (the virtual scheduling algorithm, ITU-T I.371), but no sooner
    than it could have been sent.
    """
    src, first, last, latency = routed.item.src, routed.first, routed.last, routed.latency
    full, passed = np.split(free, 2)
    soonest = np.maximum(have.take(src, axis=0), passed.take(first, axis=0)) + latency
    np.maximum(soonest, passed.take(last, axis=0), out=soonest)
    done = np.maximum(np.maximum(full.take(first, axis=0) + latency, full.take(last, axis=0)), soonest) + routed.slower
    arrived = np.maximum(soonest, done - early)
    full[first], full[last] = done - latency, done
    passed[first], passed[last] = arrived - latency, arrived
    _arrive(routed, have, arrived)


def _shared(routed: _Routed, start: Floats, free: Floats) -> Floats:
    """Messages that share links: each link carries all of its messages' bytes at full capacity."""
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
    """Repeat a round: on one node, where all are alike, else on all of them."""
    item, ends, period = routed.item, (routed.first, routed.last), max(1, layout.gpus_per_node)
    few = None
    if item.repeat > period and not routed.shared and routed.early is None:
        state = (have.take(item.src, axis=0), have.take(item.dst, axis=0), *(free.take(each, axis=0) for each in ends))
        same = (routed.latency, routed.out_time, routed.in_time, routed.slower, *state)
        few = one_node(layout, item.src, item.dst, ends, same)
    if few is None:
        _stepped(routed, have, free, period)
        return
    first = slice(few.count)
    alone = replace(
        routed,
        item=Round(few.src, few.dst, item.nbytes[:, first], item.repeat),
        first=few.first,
        last=few.last,
        latency=routed.latency[first],
        out_time=routed.out_time[first],
        in_time=routed.in_time[first],
        slower=routed.slower[first],
    )
    times = few.state(have, free, *ends)
    _stepped(alone, *times, period)
    few.spread(times, have, free, ends)


def _stepped(routed: _Routed, have: Floats, free: Floats, period: int) -> None:
    """Repeat a round; once every time has moved by the same amount over one period, the rest follows by adding.

    Max-plus linear systems become periodic (Baccelli et al. 1992), so this is exact; `period` is a guess that holds on
    regular clusters, and where it does not, every round is stepped.
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
