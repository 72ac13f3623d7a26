"""The slow twin of `engine.fold`: rounds as SimPy processes, one message at a time, nothing vectorised.

Every place is a process that walks through the rounds in which it sends. A message is queued on its two links in the
order of the rounds (receives are posted in order), starts when its sender holds what the earlier rounds brought it and
both links are its own, and holds them until the slower of the two has carried it, since nothing is stored on the way.
It has arrived `latency` later; the last link is spoken of in the sender's time, a latency early throughout.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy

from simulator.models.exchange import Round
from simulator.models.wiring import Wiring

Process = Generator[simpy.Event, Any, None]


@dataclass(frozen=True)
class Ends:
    """Where a message goes: its receiver, its links, its turns on them, and the event of its arrival."""

    dst: int
    first: int
    last: int
    out: Any
    into: Any
    done: simpy.Event


def interpret(rounds: Sequence[Round], wiring: Wiring, ready: Sequence[float], overhead: float = 0.0) -> np.ndarray:
    """Seconds (places,) at which each place has finished its part of the first payload.

    Raises ValueError where two messages of one round share a link.
    """
    env = simpy.Environment()
    links = [simpy.Resource(env) for _ in wiring.capacity]
    places = range(wiring.layout.places)
    outbox: list[list[Process]] = [[] for _ in places]
    inbox: list[list[simpy.Event]] = [[] for _ in places]
    finished = [float(time) for time in ready]

    def message(held: list[simpy.Event], ends: Ends, nbytes: float, latency: float) -> Process:
        slower = max(nbytes / float(wiring.capacity[link]) + overhead for link in (ends.first, ends.last))
        yield env.all_of([*held, ends.out, ends.into])
        yield env.timeout(slower)
        links[ends.first].release(ends.out)
        links[ends.last].release(ends.into)
        env.process(delivery(ends, latency))

    def delivery(ends: Ends, latency: float) -> Process:
        yield env.timeout(latency)
        finished[ends.dst] = max(finished[ends.dst], env.now)
        ends.done.succeed()

    def place(index: int) -> Process:
        yield env.timeout(finished[index])
        for sending in outbox[index]:
            yield env.process(sending)

    for item in (each for each in rounds for _ in range(each.repeat)):
        first, last, latency, _ = wiring.route(item.src, item.dst)
        if len(set(first.tolist())) < len(first) or len(set(last.tolist())) < len(last):
            raise ValueError("two messages of one round share a link")
        arrivals = []
        for index, (src, dst) in enumerate(zip(item.src.tolist(), item.dst.tolist(), strict=True)):
            out, into = links[first[index]].request(), links[last[index]].request()
            ends = Ends(dst, int(first[index]), int(last[index]), out, into, env.event())
            sending = message(list(inbox[src]), ends, float(item.nbytes[0, index]), float(latency[index]))
            outbox[src].append(sending)
            arrivals.append((dst, ends.done))
        for dst, done in arrivals:
            inbox[dst].append(done)
    for index in places:
        env.process(place(index))
    env.run()
    return np.array(finished)


def walked(rounds, holds):
    """Who holds whose contribution, (places, workers), after the rounds; messages of a round move together."""
    for item in rounds:
        for _ in range(item.repeat):
            after = holds.copy()
            np.logical_or.at(after, item.dst, holds[item.src])
            holds = after
    return holds
