"""A plan on the terminal: what each unknown would have to be."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from simulator.reporting.answers.planned import BackwardsPlan, UnknownNeeded
from simulator.reporting.terminal.printing import print_command, print_facts, print_plain, print_title

LABELS = {"bandwidth": "bandwidth", "inner_steps": "local steps", "density": "density", "nodes": "nodes"}


def print_plan(plan: BackwardsPlan, console: Console) -> None:
    """The target, what is needed of each unknown, and the measurement that would narrow the answers most."""
    target, now = plan.target, plan.now
    bound = "met" if now.met else "not met"
    print_title(f"{plan.scenario}: {target.quantity} {target.shown}", console)
    print_plain(f"As it is: {now.shown}; the target is {bound}. With all else as it is:", console)
    print_facts(_facts(plan), console)
    measurement = plan.measurement
    if measurement is not None:
        print_plain(
            f"To narrow these answers, measure {measurement.what} (about {measurement.minutes:g} minutes): "
            f"{100 * measurement.share:.0f} % of the doubt.",
            console,
        )
        print_command(f"  {measurement.command}", console)


def _facts(plan: BackwardsPlan) -> Iterator[tuple[str, str]]:
    for answer in plan.answers:
        yield LABELS[answer.name], describe_answer(answer)


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
