"""What links give: fair rates and bytes at once, and what a network needs to know before its first message."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from simulator.engine.rounds.disturbances import Disturbances, LinkChange, SteadyTraffic
from simulator.engine.rounds.equivalence_classes import Classes, Structure, classify
from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.models.wiring import Wiring
from simulator.records import Struct, field, replace

_SAME = 1e-12
_REMEMBERED = 2**24
"""Bytes of rates that are remembered."""


class MaxMinRates(Struct, dict=True):
    """Rates of flow types over links, by progressive filling (Bertsekas and Gallager, Data Networks, 1992, 6.5.2).

    Entry i says that a flow of type `type_of[i]` stands for `messages[i]` messages on each link of class `link_of[i]`.
    `capacity` (L,) in bytes/s may be overwritten between calls of `rates`; call `forget` afterwards. `limit` (T,): the
    highest rate that a message of each type asks for. `incast`: pairs of a number of concurrent messages and the share
    of the capacity that is left, on links where `arriving` (L,) is 1. `work`: links that were looked at so far.
    """

    capacity: Floats
    type_of: Ints
    link_of: Ints
    messages: Floats
    limit: Floats
    arriving: Floats
    incast: Floats | None = None
    work: int = 0
    _known: dict[bytes, Floats] = field(default_factory=dict)

    def forget(self) -> None:
        """Forget all rates, since the capacities have changed."""
        self._known.clear()

    def rates(self, active: Floats) -> Floats:
        """Bytes/s (T,) of one message of each type, when `active` (T,) flows of each type are under way.

        All rates rise together; the rate of a flow stops where a link on its way is full, or at its limit.
        """
        key = active.tobytes()
        known = self._known.get(key)
        if known is None:
            if (len(self._known) + 1) * 2 * len(key) > _REMEMBERED:
                self._known.clear()
            known = self._known[key] = self._fill_links(active)
        return known

    def narrowest_capacities(self, types: int) -> Floats:
        """The smallest capacity on the way of each of `types` types (T,), by which an overhead becomes bytes."""
        narrowest = np.full(types, np.inf)
        np.minimum.at(narrowest, self.type_of, self.capacity[self.link_of])
        return narrowest

    def load(self, active: Floats, rates: Floats) -> Floats:
        """Bytes/s on each link (L,), when `active` (T,) flows run at `rates` (T,)."""
        weight = (active * rates)[self.type_of] * self.messages
        return _totals(self.link_of, weight, len(self.capacity))

    def _fill_links(self, active: Floats) -> Floats:
        types, links = len(active), len(self.capacity)
        weight = active[self.type_of] * self.messages
        crossing = _totals(self.link_of, weight, links)
        left = self._usable_capacity(crossing)
        rates, rising = np.zeros(types), active > 0
        while rising.any():
            self.work += links
            with np.errstate(divide="ignore", invalid="ignore"):
                share = np.where(crossing > 0, left / crossing, np.inf)
            level = min(float(share.min()), float(self.limit[rising].min()))
            full = share <= level * (1 + _SAME)
            stops = _totals(self.type_of, full[self.link_of] * weight, types) > 0
            stops = rising & (stops | (self.limit <= level * (1 + _SAME)))
            rates[stops] = level
            fixed = np.where(stops[self.type_of], weight, 0.0)
            crossed = _totals(self.link_of, fixed, links)
            # Counts are whole numbers, so that a link without further flows comes out at exactly 0.
            crossing -= crossed
            left = np.maximum(left - crossed * level, 0.0)
            weight = weight - fixed
            rising &= ~stops
        return rates

    def _usable_capacity(self, crossing: Floats) -> Floats:
        if self.incast is None:
            return self.capacity.copy()
        kept = np.interp(crossing, self.incast[:, 0], self.incast[:, 1])
        return np.where((self.arriving > 0) & (crossing > 0), self.capacity * kept, self.capacity)


class TokenBuckets:
    """Bytes that the token bucket of a link of each class holds (L,), and lets through at once; all are full at first.

    A bucket fills at the link's rate less what the link carries (RFC 3290), so that it stays empty while a message
    keeps the link busy.
    """

    def __init__(self, depth: Floats, rates: MaxMinRates) -> None:
        self.depth, self.content, self.rates = depth, depth.copy(), rates

    def fill(self, active: Floats, rates: Floats, seconds: float) -> None:
        """Fill the buckets for `seconds` in which flows of each type were `active` at these rates, both (T,)."""
        spare = np.maximum(self.rates.capacity - self.rates.load(active, rates), 0.0)
        self.content = np.minimum(self.depth, self.content + spare * seconds)

    def take(self, numbers: Sequence[int], nbytes: Sequence[float]) -> list[float]:
        """Bytes that pass at once of messages of the types `numbers` that start together.

        What a bucket holds is shared evenly by those that start, and a message passes what the emptiest share on its
        way allows. Nothing is stored between links, so afterwards all buckets on the way hold as much as that share has
        left.
        """
        wanted, left = np.zeros_like(self.content), np.zeros_like(self.content)
        entries = [np.flatnonzero(self.rates.type_of == number) for number in numbers]
        for on in entries:
            np.add.at(wanted, self.rates.link_of[on], self.rates.messages[on])
        made = []
        for on, most in zip(entries, nbytes, strict=True):
            links, messages = self.rates.link_of[on], self.rates.messages[on]
            share = float((self.content[links] / wanted[links]).min())
            made.append(min(share, most))
            np.add.at(left, links, (share - made[-1]) * messages)
        self.content = np.where(wanted > 0, left, self.content)
        return made


def _totals(places: Ints, values: Floats, count: int) -> Floats:
    return np.bincount(places, weights=values, minlength=count).astype(float, copy=False)


class PreparedNetwork(NamedTuple):
    """Classes of all messages that may travel, the rates they get, and the types of flow of the steady traffic.

    `changes` are those of the links, by the numbers of their classes.
    """

    classes: Classes
    rates: MaxMinRates
    steady: list[int]
    changes: tuple[LinkChange, ...] = ()

    def token_buckets(self, wiring: Wiring) -> TokenBuckets | None:
        """The token buckets of the classes of links, full; None where links have none."""
        if wiring.burst is None:
            return None
        depth = np.zeros(len(self.rates.capacity))
        depth[self.classes.of_link] = wiring.burst
        return TokenBuckets(depth, self.rates)


def prepare_network(
    wiring: Wiring,
    structures: list[Structure],
    colours: Floats | None,
    disturbances: Disturbances,
    *,
    apart: bool = False,
) -> PreparedNetwork:
    """Find what is alike among these structures and the steady traffic; `colours` (P,) as in `Network`.

    `apart`: every place and link is a class of its own, since anything may happen to it.
    """
    places, links = len(wiring.node), len(wiring.capacity)
    steady_rounds = [_one_message(item) for item in disturbances.steady]
    capacity, arriving = wiring.capacity, wiring.arriving() if wiring.incast is not None else np.zeros(links)
    changing = np.arange(links, dtype=float) if apart else _number_changes(disturbances.changes, links)
    bursts = np.zeros(links) if wiring.burst is None else wiring.burst
    ceiling = np.full(links, np.inf) if wiring.ceiling is None else wiring.ceiling
    properties = np.vstack([capacity, arriving, bursts, ceiling, changing])
    link_colours = np.unique(properties, axis=1, return_inverse=True)[1].ravel().astype(float)
    start = np.arange(places, dtype=float) if apart else np.zeros(places) if colours is None else colours
    classes = classify(list(dict.fromkeys([*structures, *steady_rounds])), wiring.route, start, link_colours)
    one_link = np.zeros(int(classes.of_link.max()) + 1, dtype=np.int64)
    one_link[classes.of_link] = np.arange(links)
    ways = [classes.programmes[shape].rounds[0][0][0].type for shape in steady_rounds]
    classes = classes.with_types(ways)
    steady = list(range(classes.types - len(ways), classes.types))
    limit = np.full(classes.types, np.inf)
    np.minimum.at(limit, classes.type_of, ceiling[one_link][classes.link_of])
    limit *= classes.connections
    limit[steady] = [item.rate for item in disturbances.steady]
    entries = classes.type_of, classes.link_of, classes.messages
    rates = MaxMinRates(capacity[one_link].copy(), *entries, limit, arriving[one_link], wiring.incast)
    of_link = classes.of_link
    changes = (replace(item, links=tuple(np.unique(of_link[[*item.links]]).tolist())) for item in disturbances.changes)
    return PreparedNetwork(classes, rates, steady, tuple(changes))


def _number_changes(changes: Sequence[LinkChange], links: int) -> Floats:
    """A number for each link (L,), equal for links that change at the same times by the same factors."""
    known: dict[tuple[int, ...], int] = {(): 0}
    made, own = np.zeros(links), defaultdict[int, list[int]](list)
    for number, change in enumerate(changes):
        for link in change.links:
            own[link].append(number)
    for link, numbers in own.items():
        made[link] = known.setdefault(tuple(numbers), len(known))
    return made


def _one_message(item: SteadyTraffic) -> Structure:
    """Steady traffic as a round of one message; its rate in place of a size keeps it apart from others."""
    src, dst = np.array([item.src]), np.array([item.dst])
    return ((src.tobytes(), dst.tobytes(), np.array([item.rate]).tobytes(), 1, 1.0),)
