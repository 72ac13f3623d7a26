"""The slow twin of `engine.fold`: rounds as SimPy processes, one message at a time, nothing vectorised.

Every place is a process that walks through the rounds in which it sends. A message is queued on its two links in the
order of the rounds (receives are posted in order), starts when its sender holds what the earlier rounds brought it,
leaves its first link after bytes / capacity, and arrives `latency` later on its last link, where it stays until the
slower of the two links has carried it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import simpy

from simulator.fabrics.base import Wiring
from simulator.models.exchange import Round

Process = Generator[simpy.Event, Any, None]


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

    def message(
        held: list[simpy.Event], out: simpy.Event, into: simpy.Event, ends: tuple[int, int, int], nbytes: float,
        latency: float, done: simpy.Event,
    ) -> Process:
        dst, first, last = ends
        leave, arrive = (nbytes / float(wiring.capacity[link]) + overhead for link in (first, last))
        yield env.all_of([*held, out])
        env.process(delivery(into, links[last], latency, max(leave, arrive), dst, done))
        yield env.timeout(leave)
        links[first].release(out)

    def delivery(
        into: simpy.Event, link: simpy.Resource, latency: float, seconds: float, dst: int, done: simpy.Event
    ) -> Process:
        yield env.timeout(latency) & into
        yield env.timeout(seconds)
        link.release(into)
        finished[dst] = max(finished[dst], env.now)
        done.succeed()

    def place(index: int) -> Process:
        yield env.timeout(finished[index])
        for sending in outbox[index]:
            yield env.process(sending)

    for item in (each for each in rounds for _ in range(each.repeat)):
        first, last, latency = wiring.route(item.src, item.dst)
        if len(set(first.tolist())) < len(first) or len(set(last.tolist())) < len(last):
            raise ValueError("two messages of one round share a link")
        arrivals = []
        for index, (src, dst) in enumerate(zip(item.src.tolist(), item.dst.tolist(), strict=True)):
            out, into, done = links[first[index]].request(), links[last[index]].request(), env.event()
            ends = (dst, int(first[index]), int(last[index]))
            nbytes, delay = float(item.nbytes[0, index]), float(latency[index])
            outbox[src].append(message(list(inbox[src]), out, into, ends, nbytes, delay, done))
            arrivals.append((dst, done))
        for dst, done in arrivals:
            inbox[dst].append(done)
    for index in places:
        env.process(place(index))
    env.run()
    return np.array(finished)
