"""What may travel on the wires, laid out before it does: what is alike, and what shares which links."""

from __future__ import annotations

import numpy as np

from simulator.engine.rounds.classes import Classes, Structure, classify
from simulator.engine.rounds.sharing import Sharing
from simulator.engine.rounds.surroundings import Steady, Surroundings
from simulator.engine.rounds.token_buckets import Buckets
from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.models.wiring import Wiring

Laid = tuple[Classes, Sharing, list[int]]
"""Classes of all that may travel, their sharing, and the types of the steady traffic."""


def lay(
    wiring: Wiring,
    structures: list[Structure],
    colours: Floats | None,
    surroundings: Surroundings,
) -> Laid:
    """Classes of all that may travel, their sharing, and the types of the steady traffic."""
    places, links = len(wiring.node), len(wiring.capacity)
    mine = [_lonely(item) for item in surroundings.steady]
    capacity, arriving = wiring.capacity, wiring.arriving() if wiring.incast is not None else np.zeros(links)
    changing = np.zeros((len(surroundings.changes), links))
    for row, change in zip(changing, surroundings.changes, strict=True):
        row[list(change.links)] = 1
    bursts = np.zeros(links) if wiring.burst is None else wiring.burst
    kinds = (
        np.unique(np.vstack([capacity, arriving, bursts, changing]), axis=1, return_inverse=True)[1]
        .ravel()
        .astype(float)
    )
    shapes = list(dict.fromkeys([*structures, *mine]))
    start = np.zeros(places) if colours is None else colours
    classes = classify(shapes, wiring.route, start, kinds)
    one = np.zeros(int(classes.of_link.max()) + 1, dtype=np.int64)
    one[classes.of_link] = np.arange(links)
    ways = [classes.programmes[shape].rounds[0][0][0].type for shape in mine]
    classes = classes.with_types(ways)
    steady = list(range(classes.types - len(ways), classes.types))
    limit = np.full(classes.types, np.inf)
    limit[steady] = [item.rate for item in surroundings.steady]
    sharing = Sharing(
        capacity[one].copy(), classes.type_of, classes.link_of, classes.messages, limit, arriving[one], wiring.incast
    )
    return classes, sharing, steady


def buckets_of(wiring: Wiring, classes: Classes, sharing: Sharing) -> Buckets | None:
    """The token buckets of the classes of links; None where links have none."""
    if wiring.burst is None:
        return None
    depth = np.zeros(len(sharing.capacity))
    depth[classes.of_link] = wiring.burst
    return Buckets(depth, sharing)


def _lonely(item: Steady) -> Structure:
    """Steady traffic as a round of one message, told apart by its rate."""
    ends: list[Ints] = [np.array([item.src]), np.array([item.dst])]
    return ((ends[0].tobytes(), ends[1].tobytes(), np.array([item.rate]).tobytes(), 1),)
