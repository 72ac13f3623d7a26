"""One exchange under way on the network: its flows, and which flow waits for which."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import simpy

from simulator.engine.rounds.programme import Key, MessageClass, Programme
from simulator.models.curves import Floats
from simulator.records import Struct, field


class Transfer(Struct, eq=False):
    """One exchange, as whoever has started it sees it.

    `left`: flows that have not ended. `done` is triggered at the end, with the times (P,) at which each place has
    finished its part, which are `times` from then on. `ended`: when each flow ended, in the order of rounds.
    """

    programme: Programme
    left: int
    done: simpy.Event
    times: Floats | None = None
    ended: Floats | None = None

    def round_ends(self) -> list[Floats]:
        """When the flows of each round ended, (repeat, classes)."""
        if self.ended is None:
            raise RuntimeError("the exchange is under way")
        ends, at = list[Floats](), 0
        for classes, repeat in self.programme.rounds:
            ends.append(self.ended[at : at + len(classes) * repeat].reshape(repeat, len(classes)))
            at += len(classes) * repeat
        return ends


class Exchange(Struct, eq=False):
    """One exchange under way in the event loop.

    `turn`: on a connection that is busy, messages of the lowest turn go first, and of equal turns the first that came.
    `have`: when each class of places has received everything so far. `left`: flows that have not ended.
    """

    number: int
    have: dict[int, float]
    turn: float
    left: int = 0
    flows: list[Flow] = field(default_factory=list)


class Flow(Struct, eq=False):
    """All messages of one class in one round of one exchange."""

    exchange: Exchange
    type: int
    nbytes: float
    latency: float
    into: int
    pair: int
    not_before: float
    waits: int = 0
    begins: list[tuple[Flow, float]] = field(default_factory=list)
    ended: float = -1.0


def unroll_flows(
    exchange: Exchange, programme: Programme, scales: Sequence[float], make: Callable[[MessageClass, float], Flow]
) -> list[Flow]:
    """All flows of the exchange, linked to the flows that wait for them; `make` makes the flow of a class."""
    sent: dict[Key, list[Flow]] = {}
    received: dict[int, dict[Key, list[Flow]]] = {}
    for (classes, repeat), scale in zip(programme.rounds, scales, strict=True):
        for _ in range(repeat):
            flows = [make(item, scale) for item in classes]
            for item, flow in zip(classes, flows, strict=True):
                data = [other for flows in received.get(item.out[0], {}).values() for other in flows]
                after = [(other, other.latency) for other in data]
                after += [(other, 0.0) for other in sent.get(item.out, ())]
                # The last link is free once the message before has arrived; this message, too, gets there a
                # latency after it has left.
                queued = received.get(item.into[0], {}).get(item.into, ())
                after += [(other, max(0.0, other.latency - flow.latency)) for other in queued]
                flow.waits = len(after)
                for other, delay in after:
                    other.begins.append((flow, delay))
            sent.update({item.out: [] for item in classes})
            for item in classes:
                received.setdefault(item.into[0], {})[item.into] = []
            for item, flow in zip(classes, flows, strict=True):
                sent[item.out].append(flow)
                received[item.into[0]][item.into].append(flow)
            exchange.flows += flows
    exchange.left = len(exchange.flows)
    return exchange.flows
