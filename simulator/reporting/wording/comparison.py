"""The sentences of a comparison: what is compared, facts that go with the answer, and warnings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from simulator.reporting.answers.compared import RunDifferences, Side, SweepDifferences
from simulator.scenario.titles import leave_out_changes
from simulator.units import count_of

Differences = RunDifferences | SweepDifferences
_LONG = 60


def describe_side(side: Side) -> str:
    """What A or B is: its name, where it is, and how many points it has."""
    points = f", {count_of(side.points, 'point')}" if side.points is not None else ""
    # Where the place tells the overrides, the name does not have to.
    name = leave_out_changes(side.name) if " --set " in side.place else side.name
    return f"{name} ({side.place}{points})"


def shorten(value: Any, most: int = _LONG) -> str:
    """A value as text of at most so many characters, floats to 6 digits."""
    number = float(f"{value:.6g}") if isinstance(value, float) else value
    text = value if isinstance(value, str) else json.dumps(number, ensure_ascii=False)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def warning_lines(found: Differences) -> list[str]:
    """Warnings of two runs, each with the run that it belongs to."""
    if isinstance(found, SweepDifferences):
        return []
    sides = ((found.warnings.only_a, "A only"), (found.warnings.only_b, "B only"), (found.warnings.both, "both"))
    return [f"({label}) {text}" for texts, label in sides for text in texts]


def fact_lines(found: Differences) -> list[str]:
    """Sentences about inputs, intervals, versions and points, in addition to the answer."""
    lines = list(_run_facts(found) if isinstance(found, RunDifferences) else _sweep_facts(found))
    return lines + [f"{item.key} {item.a or 'none'} in A, {item.b or 'none'} in B." for item in found.versions]


def _run_facts(found: RunDifferences) -> Iterator[str]:
    if found.a.digest == found.b.digest:
        yield "Both have the same digest: nothing that the prediction depends on differs."
    elif found.intervals_overlap and not found.alike and found.word is None:
        yield "Their 90 % intervals overlap."
    if not found.inputs.known:
        places = ", ".join(found.inputs.unknown)
        yield (
            f"The inputs of {places} are not known, so they are not compared: `sparsim run --out DIR` stores the "
            "scenario with the result, `run --json` does not."
        )


def _sweep_facts(found: SweepDifferences) -> Iterator[str]:
    summary = found.summary
    counts = (
        (summary.same_inputs, "the same digest in both: nothing that the prediction depends on differs"),
        (summary.warnings_differ, "different warnings in A and B"),
        (summary.fidelity_differs, "a different fidelity in A and B"),
    )
    for count, text in counts:
        if count:
            yield f"{count_of(count, 'point')} {'has' if count == 1 else 'have'} {text}."
    if found.failed:
        yield f"{count_of(len(found.failed), 'point')} failed in A or in B."
