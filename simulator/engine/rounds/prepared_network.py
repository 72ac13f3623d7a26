"""What a network needs to know before its first message: classes of what is alike, and how links are shared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from simulator.engine.rounds.disturbances import Disturbances, LinkChange, SteadyTraffic
from simulator.engine.rounds.equivalence_classes import Classes, Structure, classify
from simulator.engine.rounds.link_sharing import MaxMinRates, TokenBuckets
from simulator.models.curves import Floats
from simulator.models.wiring import Wiring
from simulator.records import replace


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
    limit[steady] = [item.rate for item in disturbances.steady]
    entries = classes.type_of, classes.link_of, classes.messages
    rates = MaxMinRates(capacity[one_link].copy(), *entries, limit, arriving[one_link], wiring.incast)
    changes = (replace(item, links=_classes_of(item.links, classes)) for item in disturbances.changes)
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


def _classes_of(links: Sequence[int], classes: Classes) -> tuple[int, ...]:
    return tuple(np.unique(classes.of_link[list(links)]).tolist())


def _one_message(item: SteadyTraffic) -> Structure:
    """Steady traffic as a round of one message; its rate in place of a size keeps it apart from others."""
    src, dst = np.array([item.src]), np.array([item.dst])
    return ((src.tobytes(), dst.tobytes(), np.array([item.rate]).tobytes(), 1),)
