"""Flows: one exchange alone on the network, whose messages share links max-min fairly (`network.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import simpy

from simulator.engine.rounds.disturbances import NO_DISTURBANCES, Disturbances
from simulator.engine.rounds.equivalence_classes import Structure, structure
from simulator.engine.rounds.network import Network, Stalled
from simulator.engine.rounds.prepared_network import PreparedNetwork
from simulator.models.curves import Floats
from simulator.models.exchange import Round
from simulator.models.wiring import Wiring

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
    alone = _Alone(wiring, start, overhead, disturbances)
    known: dict[bytes, Floats] = {}
    made = np.empty((payloads, len(start)))
    for row in range(payloads):
        times = 1.0 if factor is None else float(factor[row])
        items = [Round(item.src, item.dst, times * item.nbytes[row : row + 1], item.repeat) for item in rounds]
        same = b"".join(item.nbytes.tobytes() for item in items)
        if same not in known:
            known[same] = alone.follow(items)[0] if step else alone.follow_shortened(items)
        made[row] = known[same]
    return made


@dataclass(frozen=True, slots=True)
class _Alone:
    """One exchange after another, each alone on the network; a network is prepared once for each structure."""

    wiring: Wiring
    ready: Floats
    overhead: float
    disturbances: Disturbances
    known: dict[Structure, PreparedNetwork] = field(default_factory=dict)

    def follow_shortened(self, rounds: list[Round]) -> Floats:
        """Times of every place; of a long repetition only a few periods are followed, if the last ones are alike."""
        period = max(1, self.wiring.layout.gpus_per_node)
        # A token bucket that empties slowly changes the period late.
        whole = bool(self.disturbances.changes) or self.wiring.burst is not None
        cut = [item.repeat if whole else self._followed_repeats(item, period) for item in rounds]
        short = [Round(item.src, item.dst, item.nbytes, kept) for item, kept in zip(rounds, cut, strict=True)]
        times, ends = self.follow(short)
        left_out = 0.0
        for item, kept, end in zip(rounds, cut, ends, strict=True):
            if item.repeat == kept:
                continue
            last = end[-2 * period :] - end[-3 * period : -period]
            if np.ptp(last) > _PERIODIC * float(np.abs(end).max()):
                return self.follow(rounds)[0]
            left_out += float(last.mean()) * ((item.repeat - kept) // period)
        return times + left_out

    def follow(self, rounds: Sequence[Round]) -> tuple[Floats, list[Floats]]:
        """Times of every place, and the times at which the flows of each round ended, (repeat, classes)."""
        env, shape = simpy.Environment(), structure(rounds)
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
        return network.times(transfer), [
            np.array([[flow.ended for flow in flows] for flows in each]) for each in transfer.flows
        ]

    def _followed_repeats(self, item: Round, period: int) -> int:
        """How often a round is followed: always to its end if a place only sends or only receives."""
        if item.repeat <= 6 * period or any(len(np.unique(end)) < len(self.ready) for end in (item.src, item.dst)):
            return item.repeat
        return 4 * period + item.repeat % period
