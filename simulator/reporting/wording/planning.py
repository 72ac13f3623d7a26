"""A plan in blocks: what each unknown would have to be."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.reporting.answers.planned import BackwardsPlan, UnknownNeeded
from simulator.reporting.wording.blocks import Block, Table, Text

LABELS = {"bandwidth": "bandwidth", "inner_steps": "local steps", "density": "density", "nodes": "nodes"}


def plan_blocks(plan: BackwardsPlan) -> Iterator[Block]:
    """The target, what is needed of each unknown, and the measurement that would narrow the answers most."""
    target, now = plan.target, plan.now
    bound = "met" if now.met else "not met"
    yield Text(f"{plan.scenario}: {target.text}", "title")
    yield f"As it is: {now.shown}, against {target.against}; the target is {bound}. With all else as it is:"
    yield Table.facts([(LABELS[answer.name], describe_answer(answer)) for answer in plan.answers])
    if plan.note:
        yield Text(plan.note, "note")
    measurement = plan.measurement
    if measurement is not None:
        yield (
            f"To narrow these answers, measure {measurement.what} (about {measurement.minutes:g} minutes): "
            f"{100 * measurement.share:.0f} % of the doubt."
        )
        yield Text(f"  {measurement.command}", "command")


def describe_answer(answer: UnknownNeeded) -> str:
    """What an unknown has to be, in words."""
    now = f"(now {answer.now_shown})"
    if answer.status == "refused":
        return f"no value could be run: {answer.reason}"
    if answer.status == "always":
        return f"any value that was tried meets it {now}"
    if answer.status == "never":
        return f"cannot meet it: at best {answer.best_reached_shown}, with {answer.best_shown} {now}"
    low, high = answer.interval_shown or (None, None)
    ends = f"{low or 'below what was tried'} to {high or 'above what was tried'}"
    text = f"at {'least' if answer.upwards else 'most'} {answer.needed_shown} {now}; 90 % interval {ends}"
    return text + ("; it is met and missed in turn elsewhere" if answer.again else "")
