"""Calls and waits at exact times of a SimPy clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import simpy


def call_at(env: simpy.Environment, time: float, call: Callable[[], object]) -> None:
    """Call when the clock shows exactly `time`, or now if that has passed."""
    delay = max(0.0, time - env.now)
    exact = not delay or env.now + delay == time

    def go_on(event: simpy.Event) -> None:
        if exact:
            call()
        else:
            call_at(env, time, call)

    # Halfway there the rest of the delay is exact (Sterbenz, Floating-Point Computation, 1974).
    env.timeout(delay if exact else delay / 2).callbacks.append(go_on)


def call_from(env: simpy.Environment, time: float, call: Callable[[], object]) -> None:
    """Call when the clock shows exactly `time`, or at once if it does or that has passed."""
    if time > env.now:
        call_at(env, time, call)
    else:
        call()


def wait_until(env: simpy.Environment, time: float) -> Iterator[simpy.Event]:
    """Wait until the clock shows exactly `time`, in a process that yields from this."""
    if time > env.now:
        reached = env.event()
        call_at(env, time, reached.succeed)
        yield reached
