"""A fabric for one cluster: its links with their capacities, the routes of messages, and the traffic on the links."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Layout, Route
from simulator.models.linear_algebra import largest_first
from simulator.records import Record, Struct, replace

Rings = tuple[tuple[tuple[int, ...], float], ...]
"""Rings over workers, each with the share of the payload that it carries, relative to the other rings."""


class Links(Record):
    """Links of one kind: capacities in bytes/s (L,), names, and the route of messages over them.

    `route(src, dst)` takes places (m,) and numbers the links from 0. A message leaves through its first link and
    arrives through its last one, which is another: a place sends messages in order over one link and receives them in
    order over another. `burst`: bytes that each link lets through at once after it was idle. `ceiling` (L,): bytes/s of
    one message over each link at most, however idle the link is; None where no link limits single messages.
    """

    capacity: Floats
    names: tuple[str, ...]
    route: Callable[[Ints, Ints], Route]
    burst: float = 0.0
    ceiling: Floats | None = None


class Wiring(Record):
    """A fabric for one cluster: the links between the nodes, then those inside the nodes.

    `incast` (n, 2): share of an arriving NIC's capacity that is left at each number of concurrent messages. `burst`
    (L,): bytes that each link lets through at once after it was idle; None where no link does. `ceiling` (L,): bytes/s
    of one message over each link at most, where a message cannot fill the link by itself; None where each can.
    """

    layout: Layout
    node: Ints
    capacity: Floats
    names: tuple[str, ...]
    across: Callable[[Ints, Ints], Route]
    inside: Callable[[Ints, Ints], Route]
    offset: int
    incast: Floats | None = None
    burst: Floats | None = None
    ceiling: Floats | None = None

    def with_ceiling(self, most: float) -> Wiring:
        """These links, on which one message between nodes gets `most` bytes/s at most."""
        ceiling = np.full(len(self.capacity), np.inf) if self.ceiling is None else self.ceiling.copy()
        ceiling[: self.offset] = np.minimum(ceiling[: self.offset], most)
        return replace(self, ceiling=ceiling)

    def arriving(self) -> Floats:
        """1 for links (L,) by which messages from other nodes arrive, else 0."""
        made, places = np.zeros(len(self.capacity)), np.arange(len(self.node))
        others = [int(np.argmax(self.node != node)) for node in range(int(self.node.max()) + 1)]
        senders = np.array(others)[self.node]
        apart = self.node[senders] != self.node
        if apart.any():
            made[self.across(senders[apart], places[apart]).last] = 1
        return made

    def instant(self) -> Wiring:
        """These links without latency."""

        def at_once(route: Callable[[Ints, Ints], Route]) -> Callable[[Ints, Ints], Route]:
            return lambda src, dst: route(src, dst)._replace(latency=np.zeros(len(src)))

        return replace(self, across=at_once(self.across), inside=at_once(self.inside))

    def busiest_links(self, nbytes: Floats, count: int) -> Ints:
        """The links (k,), `count` at most, that use the largest share of their capacity for `nbytes` (L,); none idle.

        Of links that are used alike, but for rounding, the first comes first.
        """
        use = nbytes / self.capacity
        order = largest_first(use)[:count]
        return order[use[order] > 0]

    def route(self, src: Ints, dst: Ints) -> Route:
        """The route of each message between places (m,): inside a node if both are on it."""
        local = self.node[src] == self.node[dst]
        if not local.any():
            return self.across(src, dst)
        within = self.inside(src, dst)
        within = Route(
            within.first + self.offset,
            within.last + self.offset,
            within.latency,
            None if within.middle is None else np.where(within.middle < 0, -1, within.middle + self.offset),
        )
        if local.all():
            return within
        between = self.across(src, dst)
        return Route(
            np.where(local, within.first, between.first),
            np.where(local, within.last, between.last),
            np.where(local, within.latency, between.latency),
            _either(local, within.middle, between.middle),
        )


def _either(first: npt.NDArray[np.bool_], one: Ints | None, other: Ints | None) -> Ints | None:
    """Rows of `one` where `first` is true, otherwise of `other`; padded to the same width."""
    if one is None and other is None:
        return None
    width = max(0 if part is None else part.shape[1] for part in (one, other))
    made = np.full((len(first), width), -1, dtype=np.int64)
    for mask, part in ((first, one), (~first, other)):
        if part is not None:
            made[mask, : part.shape[1]] = part[mask]
    return made


class Traffic(Struct):
    """Bytes that crossed each link and left each place, added up."""

    sent: Floats
    links: Floats

    def shared_by(self, steps: int) -> Traffic:
        """The traffic of each of so many steps that share it."""
        return self if steps == 1 else Traffic(self.sent / steps, self.links / steps)

    def plus(self, other: Traffic) -> Traffic:
        """The traffic of both, over the same links."""
        return Traffic(self.sent + other.sent, self.links + other.links)

    def add(self, src: Ints, route: Route, nbytes: Floats) -> None:
        """Count `nbytes` (m,) of messages at their senders and over every link of their routes."""
        self.sent += np.bincount(src, weights=nbytes, minlength=len(self.sent))
        for links in route.links:
            on = links >= 0
            self.links += np.bincount(links[on], weights=nbytes[on], minlength=len(self.links))
