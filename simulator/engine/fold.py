"""Fold: a collective's rounds in vectorised max-plus, without an event per message.

A message starts when its sender holds the data and its first link is free; it arrives `latency` later and is complete
when its last link has carried it. Messages of one round that share a link share its capacity. Exact when one exchange
holds a link at a time and the fabric does not block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.fabrics.base import Wiring
from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Round

_SAME = 1e-13


@dataclass(slots=True)
class _Routed:
    """A round with its routes and, where links are shared, who shares them."""

    item: Round
    first: Ints
    last: Ints
    latency: Floats
    out_time: Floats
    in_time: Floats
    shared: bool


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

    `ready` (places,) is when each may start; `links` (b, L) when each link is free, updated in place (all free if
    None); `overhead` seconds of a link per message; `factor` (b,) bytes on the wire per byte of payload.
    """
    batch = len(rounds[0].nbytes) if rounds else 1
    have = np.repeat(np.asarray(ready, dtype=float)[None, :], batch, axis=0)
    free = np.zeros((batch, len(wiring.capacity))) if links is None else links
    wire = 1.0 if factor is None else factor[:, None]
    for item in rounds:
        routed = _routed(item, wiring, wire, overhead)
        if item.repeat == 1:
            _step(routed, have, free)
        else:
            _repeat(routed, have, free, max(1, wiring.layout.gpus_per_node))
    return have


def _routed(item: Round, wiring: Wiring, wire: Floats | float, overhead: float) -> _Routed:
    first, last, latency = wiring.route(item.src, item.dst)
    shared = len(np.unique(first)) < len(first) or len(np.unique(last)) < len(last)
    nbytes = item.nbytes * wire
    out_time = nbytes / wiring.capacity[first] + overhead
    in_time = nbytes / wiring.capacity[last] + overhead
    return _Routed(item, first, last, latency, out_time, in_time, shared)


def _step(routed: _Routed, have: Floats, free: Floats) -> None:
    """One round: update `have` (b, places) and `free` (b, L)."""
    src, dst, first, last = routed.item.src, routed.item.dst, routed.first, routed.last
    start = np.maximum(have[:, src], free[:, first])
    if routed.shared:
        done = _shared(routed, start, free)
    else:
        # A slower link on the way holds the faster one back: bytes can't leave faster than they arrive.
        done = np.maximum(start + routed.latency, free[:, last]) + np.maximum(routed.out_time, routed.in_time)
        free[:, first] = start + routed.out_time
        free[:, last] = np.maximum(free[:, last], done)
    if len(dst) == 1 or not routed.shared:
        have[:, dst] = np.maximum(have[:, dst], done)
    else:
        np.maximum.at(have.T, dst, done.T)


def _shared(routed: _Routed, start: Floats, free: Floats) -> Floats:
    """Messages that share links: each link carries all of its messages' bytes at full capacity."""
    first, last = routed.first, routed.last
    begin, work = np.zeros_like(free), np.zeros_like(free)
    np.maximum.at(begin.T, first, start.T)
    np.add.at(work.T, first, routed.out_time.T)
    left = np.maximum(begin, free) + work
    arrival, load = np.zeros_like(free), np.zeros_like(free)
    np.maximum.at(arrival.T, last, (start + routed.latency).T)
    np.add.at(load.T, last, routed.in_time.T)
    came = np.maximum(arrival, free) + load
    done = np.maximum(left[:, first] + routed.latency, came[:, last])
    free[:, first] = left[:, first]
    free[:, last] = np.maximum(free[:, last], came[:, last])
    return done


def _repeat(routed: _Routed, have: Floats, free: Floats, period: int) -> None:
    """Repeat a round; once every time has moved by the same amount over one period, the rest follows by adding.

    Max-plus linear systems become periodic (Baccelli et al. 1992), so this is exact; `period` is a guess that holds on
    regular clusters, and where it does not, every round is stepped.
    """
    remaining = routed.item.repeat
    used = np.unique(np.concatenate([routed.first, routed.last]))
    places = np.unique(np.concatenate([routed.item.src, routed.item.dst]))
    before: tuple[Floats, Floats] | None = None
    while remaining:
        for _ in range(min(period, remaining)):
            _step(routed, have, free)
            remaining -= 1
        if remaining < period:
            continue
        now = have[:, places].copy(), free[:, used].copy()
        if before is not None:
            moved, busy = now[0] - before[0], now[1] - before[1]
            pace = moved[:, :1]
            scale = _SAME * np.abs(now[0]).max()
            if np.abs(moved - pace).max() <= scale and np.abs(busy - pace).max() <= scale:
                jumps = remaining // period
                have[:, places] += jumps * pace
                free[:, used] += jumps * pace
                remaining -= jumps * period
                before = None
                continue
        before = now
