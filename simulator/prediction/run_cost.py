"""What a run beside other jobs will cost, estimated before it starts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from simulator.component import expected
from simulator.engine.clock.run_points import run_point
from simulator.engine.clock.simulation import time_alone
from simulator.engine.plan.plan import Plan
from simulator.models.limits import MAX_OTHER_TURNS
from simulator.units import show_time


def refuse_many_turns(plan: Plan, other_plans: Sequence[Plan], iterations: int) -> None:
    """Raise an expected-error where other jobs exchange more often than can be followed while this one iterates.

    Exchanges = sum over other jobs of buckets * time of this job / time of one iteration of the other, each job's time
    found by simulating one iteration of it by itself. Other jobs that slow each other down exchange less often.
    """
    for item in other_plans:
        _refuse(len(item.exchanges[0]), 1.0, 0.0, 0.0)
    whole = iterations * run_point(plan).time if other_plans else 0.0
    turns = 0.0
    for item in other_plans:
        time = time_alone(plan, item)
        # A job whose iterations take no time iterates once.
        rounds = max(1.0, (whole - item.setup.start) / time) if time > 0 else 1.0
        turns += rounds * max(1, len(item.exchanges[0]))
        _refuse(turns, rounds, time, whole)


def _refuse(turns: float, rounds: float, time: float, whole: float) -> None:
    if turns <= MAX_OTHER_TURNS:
        return
    why = (
        f": {math.ceil(rounds):,} iterations of {show_time(time)} each in {show_time(whole)} of this job"
        if whole
        else ""
    )
    hint = "fewer iterations of this job or shorter ones (`input_time`, `warmup`), or another job with longer ones"
    what = f"at most {MAX_OTHER_TURNS:,} exchanges of other jobs during this one"
    raise expected(what, f"about {math.ceil(turns):,}{why}", hint)
