"""Flows: one exchange alone on the network, whose messages share links max-min fairly (`network.py`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import simpy

from simulator.engine.rounds.disturbances import NO_DISTURBANCES, Disturbances, Stalled
from simulator.engine.rounds.equivalence_classes import Shape, Structure, structures
from simulator.engine.rounds.network import Network
from simulator.engine.rounds.prepared_network import PreparedNetwork
from simulator.models.curves import Floats
from simulator.models.exchange import Round
from simulator.models.wiring import Wiring
from simulator.records import Record, field, replace

_PERIODIC = 1e-12


def follow_flows(
    rounds: Sequence[Round],
    wiring: Wiring,
    ready: Floats,
    *,
    overhead: float = 0.0,
    factor: Floats | None = None,
    step: bool = False,
    disturbances: Disturbances = NO_DISTURBANCES,
) -> Floats:
    """Times (b, places) at which each place has finished its part of `rounds`, alone on the network.

    Arguments as in `fold`. A repeated round is not followed to its end once it has become periodic, unless `step` is
    set or links change. Raises Stalled, TooManyMessages.
    """
    payloads = len(rounds[0].nbytes) if rounds else 1
    start = np.asarray(ready, dtype=float)
    items = rounds if factor is None else [replace(item, nbytes=factor[:, None] * item.nbytes) for item in rounds]
    alone = _Alone(wiring, start, overhead, disturbances, items)
    # A token bucket that empties slowly changes the period late.
    whole = step or bool(disturbances.changes) or wiring.burst is not None
    cut = [item.repeat if whole else alone.followed_repeats(item) for item in items]
    known: dict[Shape, Floats] = {}
    made = np.empty((payloads, len(start)))
    for row, shape in enumerate(structures(items)):
        if shape not in known:
            known[shape] = alone.follow_shortened(shape, cut)
        made[row] = known[shape]
    return made


class _Alone(Record):
    """One exchange after another, each alone on the network; a network is prepared once for each structure."""

    wiring: Wiring
    ready: Floats
    overhead: float
    disturbances: Disturbances
    rounds: Sequence[Round]
    known: dict[Structure, PreparedNetwork] = field(default_factory=dict)

    @property
    def period(self) -> int:
        """Repetitions after which the order on the links is that of before."""
        return max(1, self.wiring.layout.gpus_per_node)

    def follow_shortened(self, shape: Shape, cut: Sequence[int]) -> Floats:
        """Times of every place; of a long repetition only `cut` periods are followed, if the last ones are alike."""
        structure, scales = shape
        short = tuple((*item[:3], kept) for item, kept in zip(structure, cut, strict=True))
        times, ends = self.follow((short, scales))
        left_out = 0.0
        for item, kept, end in zip(self.rounds, cut, ends, strict=True):
            if item.repeat == kept:
                continue
            last = end[-2 * self.period :] - end[-3 * self.period : -self.period]
            if np.ptp(last) > _PERIODIC * float(np.abs(end).max()):
                return self.follow(shape)[0]
            left_out += float(last.mean()) * ((item.repeat - kept) // self.period)
        return times + left_out

    def follow(self, shape: Shape) -> tuple[Floats, list[Floats]]:
        """Times of every place, and the times at which the flows of each round ended, (repeat, classes)."""
        env = simpy.Environment()
        network = Network(
            env,
            self.wiring,
            [shape[0]],
            overhead=self.overhead,
            colours=self.ready,
            disturbances=self.disturbances,
            prepared=self.known.get(shape[0]),
        )
        if network.reusable is not None:
            self.known[shape[0]] = network.reusable
        transfer = network.start(shape, self.ready)
        env.run(until=transfer.done if self.disturbances.steady else None)
        if transfer.left:
            raise Stalled(network.dead_links())
        return network.times(transfer), transfer.round_ends()

    def followed_repeats(self, item: Round) -> int:
        """How often a round is followed: always to its end if a place only sends or only receives."""
        if item.repeat <= 6 * self.period or any(len(np.unique(end)) < len(self.ready) for end in (item.src, item.dst)):
            return item.repeat
        return 4 * self.period + item.repeat % self.period
