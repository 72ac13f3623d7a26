"""Fold: the rounds of a collective in vectorised max-plus algebra, without an event per message."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Layout, Round, Route
from simulator.models.limits import refuse_uneven_rounds
from simulator.models.wiring import Wiring
from simulator.records import Record, Struct, replace


class Legs(Record):
    """A round, and what its m messages cross: their first and last links, and numbers of n wirings, (m, n).

    `nbytes` (b, m), as in `Round`. `leaving` and `arriving`: bytes/s of the first and of the last link.
    """

    src: Ints
    dst: Ints
    nbytes: Floats
    repeat: int
    first: Ints
    last: Ints
    latency: Floats
    leaving: Floats
    arriving: Floats

    def columns(self, rows: Ints, wires: Ints) -> Legs:
        """These messages with columns of times for payloads `rows` on wirings `wires`, (c,) each."""
        # What is the same for all messages stays one number.
        nbytes = self.nbytes[:, :1] if self.nbytes.strides[1] == 0 else self.nbytes
        numbers = (each.take(wires, axis=1) for each in (self.latency, self.leaving, self.arriving))
        ends = self.src, self.dst, nbytes[rows], self.repeat, self.first, self.last
        return Legs(*ends, *numbers)


def reduce_to_one_node(layout: Layout, links: int, rounds: Sequence[Legs]) -> tuple[list[Legs], int] | None:
    """What the first node sends in each round, if each node sends what the node before does, moved by one node.

    Then the same places of all nodes have the same times, and so have links that are used in the same way. Places and
    links are numbered from 0, and messages arrive there, too. `links`: how many there are; returned with the rounds is
    how many are left. None if nodes differ, a link carries messages of two nodes in a round, or there is only one node.
    """
    g, nodes, made, known = layout.gpus_per_node, layout.nodes, list[Legs](), 0
    alike = np.full(links, -1)
    for item in (_by_node(item, g) for item in rounds):
        count, rest = divmod(len(item.src), nodes)
        if nodes < 2 or rest or not count or max(int(item.src.max()), int(item.dst.max())) >= layout.workers:
            return None
        leads = [lead for each in (item.first, item.last) if (lead := _lead(each.reshape(nodes, count))) is not None]
        if len(leads) < 2 or np.intersect1d(item.first, item.last).size:
            return None
        moved = (np.array_equal(np.roll(each, -count), (each + g) % layout.workers) for each in (item.src, item.dst))
        own = () if item.nbytes.strides[1] == 0 else (item.nbytes.T,)
        numbers = (item.latency, item.leaving, item.arriving, *own)
        if not all(moved) or not all(np.array_equal(each[count:], each[:-count]) for each in numbers):
            return None
        ends = []
        for each, lead in zip((item.first, item.last), leads, strict=True):
            seen = alike[each].reshape(nodes, count)
            if (seen != seen[0]).any():
                return None
            ends.append(np.where(seen[0] < 0, known + lead, seen[0]))
            alike[each], known = np.tile(ends[-1], nodes), known + count
        few = {name: getattr(item, name)[:count] for name in ("latency", "leaving", "arriving")}
        nbytes, (first, last) = item.nbytes[:, :count], ends
        src, dst = item.src[:count] % g, item.dst[:count] % g
        made.append(replace(item, src=src, dst=dst, nbytes=nbytes, first=first, last=last, **few))
    return made, known


def _lead(links: Ints) -> Ints | None:
    """For each message of a node, the number of the first one over the same link; `links` (nodes, m).

    None if nodes differ in this, or if two nodes use one link.
    """
    known: dict[int, int] = {}
    lead: Ints = np.array([known.setdefault(link, number) for number, link in enumerate(links[0].tolist())])
    alike = (links == links[:, lead]).all() and np.count_nonzero(np.bincount(links.ravel())) == len(links) * len(known)
    return lead if alike else None


def _by_node(item: Legs, gpus_per_node: int) -> Legs:
    """A round with its messages in the order of the nodes that send them."""
    node = item.src // gpus_per_node
    if (node[1:] >= node[:-1]).all():
        return item
    order = np.argsort(node, kind="stable")
    nbytes = item.nbytes if item.nbytes.strides[1] == 0 else item.nbytes[:, order]
    names = ("src", "dst", "first", "last", "latency", "leaving", "arriving")
    return replace(item, nbytes=nbytes, **{name: getattr(item, name)[order] for name in names})


_SAME = 1e-13
_FEW = 64
_FEWER = 8
"""Periods after which the distance between two comparisons grows by one."""


class _Routed(Struct):
    """A round with its routes and times, one row per message (m, b): rows are taken several times faster than columns.

    `shared`: whether messages share links; `meeting`: whether several messages go to one place. `early` (m, 1): the
    most seconds that the token buckets of its links save a message. With token buckets, a link has two free times:
    when its bucket is full again, and when the message before has passed. `overhead`: seconds of a message that pass no
    bucket.
    """

    legs: Legs
    latency: Floats
    out_time: Floats
    in_time: Floats
    slower: Floats
    shared: bool
    meeting: bool
    early: Floats | None = None
    overhead: float = 0.0

    def columns(self, some: npt.NDArray[np.bool_]) -> _Routed:
        """This round for some of the payloads."""
        parts = {name: getattr(self, name) for name in ("latency", "out_time", "in_time", "slower")}
        return replace(self, **{name: part[:, some] if part.shape[1] > 1 else part for name, part in parts.items()})


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
    if not rounds:
        return have.T
    free = np.zeros((len(wiring.capacity), batch)) if links is None else links.T
    burst = wiring.burst
    if burst is not None:
        free = np.concatenate([free, free - (burst / wiring.capacity)[:, None]])
    src, dst = (np.concatenate([getattr(item, end) for item in rounds]) for end in ("src", "dst"))
    route = wiring.route(src, dst)
    for legs in split_into_legs(rounds, route, route.latency[:, None], wiring.capacity[:, None]):
        routed = _with_times(legs, factor, overhead)
        if burst is not None:
            held = np.minimum(burst[legs.first], burst[legs.last])[:, None]
            routed.early = held / np.minimum(legs.leaving, legs.arriving)
        _carry_out(routed, have, free, wiring.layout)
    if burst is not None and links is not None:
        links.T[:] = free[: len(wiring.capacity)]
    return have.T


def fold_lanes(
    rounds: Sequence[Round],
    layout: Layout,
    route: Route,
    latency: Floats,
    capacity: Floats,
    *,
    rows: Ints,
    wires: Ints,
    factor: Floats | None = None,
) -> Floats:
    """When the last place has finished its part of `rounds`, (C,), if all links and places are free from 0 on.

    Many payloads on many wirings that differ only in numbers are folded together: column c is payload `rows[c]` on
    wiring `wires[c]`. `route` is that of all rounds, in order (M messages), `latency` (M, n) and `capacity` (L, n) are
    those of n wirings; `factor` (C,) as in `fold`. Where every node does the same, one node is followed. Links have no
    token buckets.
    """
    places, count = layout.places, len(capacity)
    legs = split_into_legs(rounds, route, latency, capacity)
    alone = reduce_to_one_node(layout, count, legs)
    if alone is not None:
        (legs, count), places = alone, layout.gpus_per_node
    have, free = np.zeros((places, len(rows))), np.zeros((count, len(rows)))
    for item in legs:
        _carry_out(_with_times(item.columns(rows, wires), factor), have, free, layout)
    last: Floats = have.max(axis=0)
    return last


def split_into_legs(rounds: Sequence[Round], route: Route, latency: Floats, capacity: Floats) -> list[Legs]:
    """The rounds with the part of `route` that is theirs, `latency` (M, n), and `capacity` (L, n) of their links."""
    made, bounds = [], pairwise(accumulate((len(item.src) for item in rounds), initial=0))
    for item, (low, high) in zip(rounds, bounds, strict=True):
        first, last = route.first[low:high], route.last[low:high]
        rates = capacity.take(first, axis=0), capacity.take(last, axis=0)
        made.append(Legs(item.src, item.dst, item.nbytes, item.repeat, first, last, latency[low:high], *rates))
    return made


def _with_times(legs: Legs, factor: Floats | None = None, overhead: float = 0.0) -> _Routed:
    """A round with its times; the numbers of its links are one column, or one of each payload."""
    nbytes = legs.nbytes.T if factor is None else legs.nbytes.T * factor
    in_time = slower = out_time = nbytes / legs.leaving + overhead
    if (legs.leaving != legs.arriving).any():
        in_time = nbytes / legs.arriving + overhead
        slower = np.maximum(out_time, in_time)
    shared = _any_twice(legs.first) or _any_twice(legs.last)
    times = legs.latency, out_time, in_time, slower
    return _Routed(legs, *times, shared, _any_twice(legs.dst), overhead=overhead)


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
    src, dst, first, last = routed.legs.src, routed.legs.dst, routed.legs.first, routed.legs.last
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
    dst = routed.legs.dst
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
    src, first, last, latency = routed.legs.src, routed.legs.first, routed.legs.last, routed.latency
    full, passed = np.split(free, 2)
    soonest = np.maximum(have.take(src, axis=0), passed.take(first, axis=0)) + latency
    np.maximum(soonest, passed.take(last, axis=0), out=soonest)
    done = np.maximum(np.maximum(full.take(first, axis=0) + latency, full.take(last, axis=0)), soonest) + routed.slower
    arrived = np.maximum(soonest + routed.overhead, done - early)
    full[first], full[last] = done - latency, done
    passed[first], passed[last] = arrived - latency, arrived
    _record_arrival(routed, have, arrived)


def _step_shared(routed: _Routed, start: Floats, free: Floats) -> Floats:
    """When messages that share links are complete: each link carries all of its bytes at its full capacity."""
    first, last, latency = routed.legs.first, routed.legs.last, routed.latency
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


def _carry_out(routed: _Routed, have: Floats, free: Floats, layout: Layout) -> None:
    """One round, as often as it is repeated."""
    if routed.legs.repeat == 1:
        _step(routed, have, free)
    else:
        _step_repeatedly(routed, have, free, max(1, layout.gpus_per_node), routed.legs.repeat)


def _step_repeatedly(routed: _Routed, have: Floats, free: Floats, period: int, remaining: int) -> None:
    """Repeat a round. Once all times have moved by the same amount over a period, the remaining periods are added.

    Max-plus linear systems become periodic (Baccelli et al. 1992), so this is exact. `period` is a guess that holds
    for regular clusters; if it is wrong, every round is stepped, and periods are compared less and less often, since
    this takes longer than a round. Payloads do not wait for each other, so that the times of one do not depend on which
    others are folded with it. Raises an expected-error for many messages that do not become periodic.
    """
    used = np.flatnonzero(np.bincount(np.concatenate([routed.legs.first, routed.legs.last])))
    if routed.early is not None:
        used = np.concatenate([used, used + len(free) // 2])
    places = np.flatnonzero(np.bincount(np.concatenate([routed.legs.src, routed.legs.dst])))
    before: tuple[Floats, Floats] | None = None
    messages, periods, compared = len(routed.legs.src) * have.shape[1], 0, 0
    while remaining:
        for done in range(min(period, remaining)):
            refuse_uneven_rounds(messages, periods * period + done)
            _step(routed, have, free)
            remaining -= 1
        periods += 1
        if remaining < period or periods < compared + compared // _FEWER:
            continue
        now = have[places], free[used]
        if before is not None:
            moved, busy = now[0] - before[0], now[1] - before[1]
            pace = moved[0]
            scale = _SAME * np.abs(now[0]).max(axis=0)
            even = (np.abs(moved - pace).max(axis=0) <= scale) & (np.abs(busy - pace).max(axis=0) <= scale)
            if even.all():
                jumps = remaining // period
                have[places] += jumps * pace
                free[used] += jumps * pace
                remaining -= jumps * period  # less than a period is left
            elif even.any():
                for some in (even, ~even):
                    times = have[:, some], free[:, some]
                    _step_repeatedly(routed.columns(some), *times, period, remaining)
                    have[:, some], free[:, some] = times
                return
            compared = periods
        before = now if compared < _FEWER or compared < periods else None
