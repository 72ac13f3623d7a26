"""One exchange under way on the network: its flows, and which flow waits for which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import simpy

from simulator.engine.rounds.equivalence_classes import Key, MessageClass, Programme


@dataclass(slots=True, eq=False)
class Flow:
    """All messages of one class in one round of one exchange."""

    exchange: Transfer
    type: int
    nbytes: float
    latency: float
    into: int
    pair: int
    not_before: float
    waits: int = 0
    begins: list[tuple[Flow, float]] = field(default_factory=list)
    ended: float = -1.0


@dataclass(slots=True, eq=False)
class Transfer:
    """One exchange under way.

    `turn`: on a connection that is busy, messages of the lowest turn go first, and of equal turns the first that came.
    `have`: when each class of places has received everything so far. `left`: flows that have not ended. `done` is
    triggered at the end, with the times (P,) at which each place has finished its part.
    """

    have: dict[int, float]
    left: int
    done: simpy.Event
    flows: list[list[list[Flow]]]
    turn: float = 0.0


def unroll_flows(
    exchange: Transfer, programme: Programme, scales: tuple[float, ...], make: Callable[[MessageClass, float], Flow]
) -> list[Flow]:
    """All flows of the exchange, linked to the flows that wait for them; `make` makes the flow of a class."""
    sent: dict[Key, list[Flow]] = {}
    received: dict[int, dict[Key, list[Flow]]] = {}
    made: list[Flow] = []
    for (classes, repeat), scale in zip(programme.rounds, scales, strict=True):
        each: list[list[Flow]] = []
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
            outs, intos = {item.out for item in classes}, {item.into for item in classes}
            sent.update({key: [] for key in outs})
            for key in intos:
                received.setdefault(key[0], {})[key] = []
            for item, flow in zip(classes, flows, strict=True):
                sent[item.out].append(flow)
                received[item.into[0]][item.into].append(flow)
            each.append(flows)
            made += flows
        exchange.flows.append(each)
    return made
