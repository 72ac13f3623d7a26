"""Seconds of payloads by fold or flows: those that are sent alike are timed together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.rounds.disturbances import NO_DISTURBANCES, TooManyMessages
from simulator.engine.rounds.fold import fold, fold_whole
from simulator.engine.rounds.fold_validity import (
    busiest_link_decides,
    reason_against_fold,
    senders_share_nic,
)
from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Round, Route
from simulator.records import Struct
from simulator.topologies.base import Rounds

MAX_TIMES = 2**22
"""Payloads times places that are folded together at most, or times links that are loaded together."""
SHARED = "other traffic uses the same links"
UNEVEN = "messages wait on several links, so that the busiest one is not always in use"
LIMITED = "one message cannot fill every link by itself"
UNKNOWN = "messages of different workers may meet on a link (there are too many to find out)"


class Payloads(Struct):
    """Payloads (b,) of one job that are sent alike on a network.

    `places` (b,): the steps that they belong to. `rounds`: their messages, with senders, receivers and `route` of all
    rounds. `timed`: those whose time is asked for. `total` (b,): bytes of each result, of a collective; None for
    messages. `efficiency`, `start_up`, `beside` (b,): as in `Subset`.
    """

    network: NetworkSetup
    places: Ints
    rounds: Rounds
    src: Ints
    dst: Ints
    route: Route
    timed: Ints
    total: Floats | None = None
    efficiency: Floats | None = None
    start_up: Floats | None = None
    beside: Floats | None = None

    def time(self) -> tuple[Floats, str, bool]:
        """Seconds of those that are timed, why the fold would not be exact (or nothing), and whether messages were
        followed one by one."""
        piped, factor = self.start_up is not None, self._protocol_factor()
        reason, flowed = self._pipelined_way() if piped else self._way()
        seconds = (self._flow if flowed else self._pipe if piped else self._fold)(factor)
        for extra in (self.start_up, self.beside):
            seconds = seconds if extra is None else extra[self.timed] + seconds
        if self.total is not None:
            seconds = seconds + self.network.fabric.added_seconds(self.total)[self.timed]
        return seconds, reason, flowed

    def _protocol_factor(self) -> Floats | None:
        """Of collectives, bytes on the links per byte of those that are timed."""
        if self.total is None:
            return None
        if self.efficiency is not None:
            return (1 / self.efficiency)[self.timed]
        return self.network.fabric.protocol_factor(self.total, self.network.wiring.layout.workers)[self.timed]

    def _timed_rounds(self) -> Rounds:
        if len(self.timed) == len(self.places):
            return self.rounds
        return [Round(item.src, item.dst, item.nbytes[self.timed], item.repeat) for item in self.rounds]

    def _way(self) -> tuple[str, bool]:
        """Why the fold is not exact, and whether messages are followed."""
        fidelity, wiring, reason = self.network.fidelity, self.network.wiring, ""
        if fidelity != "flows":
            try:
                reason = reason_against_fold(self._timed_rounds(), wiring, self.src, self.dst, self.route)
            except TooManyMessages:
                if fidelity == "auto":
                    raise
                reason = UNKNOWN
        reason = reason or (SHARED if self._is_disturbed() else "")
        return reason, fidelity == "flows" or (bool(reason) and fidelity == "auto")

    def _pipelined_way(self) -> tuple[str, bool]:
        """The way of messages that flow at once, limited by the busiest link where links are the job's own."""
        wiring = self.network.wiring
        reason = SHARED if self._is_disturbed() else LIMITED if wiring.ceiling is not None else ""
        meeting = senders_share_nic(wiring, self.src, self.route)
        flowed = self.network.fidelity == "flows" or bool(reason) or meeting or wiring.burst is not None
        uneven = not (flowed or busiest_link_decides(self.rounds, self.route, wiring.capacity))
        return (UNEVEN if uneven else reason), flowed or uneven

    def _is_disturbed(self) -> bool:
        return self.network.disturbances is not NO_DISTURBANCES

    def _flow(self, factor: Floats | None) -> Floats:
        """Seconds of those that are timed, message by message."""
        from simulator.engine.rounds.network import follow_flows  # the event loop: few scenarios need it

        wiring = self.network.wiring if self.start_up is None else self.network.wiring.instant()
        ready, disturbances = np.zeros(len(wiring.node)), self.network.disturbances
        times = follow_flows(self._timed_rounds(), wiring, ready, factor=factor, disturbances=disturbances)
        slowest: Floats = times.max(axis=1)
        return slowest

    def _fold(self, factor: Floats | None) -> Floats:
        """Seconds of those that are timed, round by round."""
        wiring, made = self.network.wiring, []
        every = np.arange(len(self.timed))
        for part in np.array_split(every, -(-len(every) * wiring.layout.places // MAX_TIMES)):
            rows, own = self.timed[part], None if factor is None else factor[part]
            if wiring.burst is None:
                made.append(fold_whole(self.rounds, wiring, self.route, rows, own))
            else:
                rounds = [Round(item.src, item.dst, item.nbytes[rows], item.repeat) for item in self.rounds]
                made.append(fold(rounds, wiring, np.zeros(len(wiring.node)), factor=own).max(axis=1))
        return np.concatenate(made)

    def _pipe(self, factor: Floats | None) -> Floats:
        """Seconds of those that are timed, whose messages all flow at once: the time of the busiest link."""
        capacity, made = self.network.wiring.capacity, []
        for part in np.array_split(self.timed, -(-len(self.timed) * len(capacity) // MAX_TIMES)):
            nbytes = np.concatenate([item.repeat * item.nbytes[part] for item in self.rounds], axis=1).T
            load = np.zeros((len(capacity), len(part)))
            for column in self.route.links:
                on = column >= 0
                np.add.at(load, column[on], nbytes[on])
            made.append((load / capacity[:, None]).max(axis=0))
        seconds = np.concatenate(made)
        return seconds if factor is None else seconds * factor


def stack_rounds(parts: Sequence[Rounds]) -> Rounds:
    """Rounds of several payloads with the same messages; what is one number for all messages stays one."""
    made = []
    for same in zip(*parts, strict=True):
        one, count = same[0], len(same[0].src)
        if all(item.nbytes.strides[1] == 0 for item in same):
            few = np.concatenate([item.nbytes[:, :1] for item in same])
            nbytes = np.broadcast_to(few, (len(few), count))
        else:
            nbytes = np.concatenate([item.nbytes for item in same])
        made.append(Round(one.src, one.dst, nbytes, one.repeat))
    return made
