"""Flows: an exchange alone on the wires, its messages sharing links max-min fairly (`network.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import simpy

from simulator.engine.rounds.classes import Structure, structure
from simulator.engine.rounds.laying import Laid
from simulator.engine.rounds.network import Network, Stalled
from simulator.engine.rounds.surroundings import NOTHING_ELSE, Surroundings
from simulator.models.curves import Floats
from simulator.models.exchange import Round
from simulator.models.wiring import Wiring

_PERIODIC = 1e-12


def flows(
    rounds: Sequence[Round],
    wiring: Wiring,
    ready: Floats,
    *,
    overhead: float = 0.0,
    factor: Floats | None = None,
    step: bool = False,
    surroundings: Surroundings = NOTHING_ELSE,
) -> Floats:
    """Times (b, places) at which each place has finished its part of `rounds`, alone on the wires.

    As `fold`; `factor` (b,) bytes on the wire per byte of payload. A repeated round that has become periodic is not
    followed to its end, unless `step` is set or the surroundings change. Raises Stalled, TooManyMessages.
    """
    payloads = len(rounds[0].nbytes) if rounds else 1
    start = np.asarray(ready, dtype=float)
    alone = _Alone(wiring, start, overhead, surroundings)
    known: dict[bytes, Floats] = {}
    made = np.empty((payloads, len(start)))
    for row in range(payloads):
        times = 1.0 if factor is None else float(factor[row])
        items = [Round(item.src, item.dst, times * item.nbytes[row : row + 1], item.repeat) for item in rounds]
        same = b"".join(item.nbytes.tobytes() for item in items)
        if same not in known:
            known[same] = alone.whole(items)[0] if step else alone.shortened(items)
        made[row] = known[same]
    return made


@dataclass(frozen=True, slots=True)
class _Alone:
    """One exchange after another, each with the wires to itself; what is alike is found once for each structure."""

    wiring: Wiring
    ready: Floats
    overhead: float
    surroundings: Surroundings
    known: dict[Structure, Laid] = field(default_factory=dict)

    def shortened(self, rounds: list[Round]) -> Floats:
        """Long repetitions are cut to a few periods and, where the last of them were alike, made good."""
        period = max(1, self.wiring.layout.gpus_per_node)
        # A bucket that slowly empties changes the period late.
        whole = bool(self.surroundings.changes) or self.wiring.burst is not None
        cut = [item.repeat if whole else self._kept(item, period) for item in rounds]
        short = [Round(item.src, item.dst, item.nbytes, kept) for item, kept in zip(rounds, cut, strict=True)]
        times, ends = self.whole(short)
        missing = 0.0
        for item, kept, end in zip(rounds, cut, ends, strict=True):
            if item.repeat == kept:
                continue
            last = end[-2 * period :] - end[-3 * period : -period]
            if np.ptp(last) > _PERIODIC * float(np.abs(end).max()):
                return self.whole(rounds)[0]
            missing += float(last.mean()) * ((item.repeat - kept) // period)
        return times + missing

    def whole(self, rounds: Sequence[Round]) -> tuple[Floats, list[Floats]]:
        """Times of every place, and when the flows of each round ended, (repeat, classes)."""
        env, shape = simpy.Environment(), structure(rounds)
        network = Network(
            env,
            self.wiring,
            [shape[0]],
            overhead=self.overhead,
            colours=self.ready,
            surroundings=self.surroundings,
            laid=self.known.get(shape[0]),
        )
        if network.again is not None:
            self.known[shape[0]] = network.again
        transfer = network.start(shape, self.ready)
        env.run(until=transfer.done if self.surroundings.steady else None)
        if transfer.left:
            raise Stalled(network.stuck())
        return network.times(transfer), [
            np.array([[flow.ended for flow in flows] for flows in each]) for each in transfer.flows
        ]

    def _kept(self, item: Round, period: int) -> int:
        """How often a round is followed: a place that sends or receives nothing would not move with the others."""
        if item.repeat <= 6 * period or any(len(np.unique(end)) < len(self.ready) for end in (item.src, item.dst)):
            return item.repeat
        return 4 * period + item.repeat % period
