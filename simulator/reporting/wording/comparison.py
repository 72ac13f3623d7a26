"""The sentences of a comparison: what is compared, facts that go with the answer, and warnings."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from simulator.scenario.titles import leave_out_changes
from simulator.units import count_of

_LONG = 60


def describe_side(side: dict[str, Any]) -> str:
    """What A or B is: its name, where it is, and how many points it has."""
    points = f", {count_of(side['points'], 'point')}" if "points" in side else ""
    # Where the place tells the overrides, the name does not have to.
    name = leave_out_changes(side["name"]) if " --set " in side["place"] else side["name"]
    return f"{name} ({side['place']}{points})"


def shorten(value: Any, most: int = _LONG) -> str:
    """A value as text of at most so many characters, floats to 6 digits."""
    number = float(f"{value:.6g}") if isinstance(value, float) else value
    text = value if isinstance(value, str) else json.dumps(number, ensure_ascii=False)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def warning_lines(document: dict[str, Any]) -> list[str]:
    """Warnings of two runs, each with the run that it belongs to."""
    sides = (("only_a", "A only"), ("only_b", "B only"), ("both", "both"))
    warnings = document.get("warnings", {})
    return [f"({label}) {text}" for side, label in sides for text in warnings.get(side, ())]


def fact_lines(document: dict[str, Any]) -> list[str]:
    """Sentences about inputs, intervals, versions and points, in addition to the answer."""
    lines = list(_run_facts(document) if document["compared"] == "runs" else _sweep_facts(document))
    versions = document["versions"]
    return lines + [f"{item['key']} {item['a'] or 'none'} in A, {item['b'] or 'none'} in B." for item in versions]


def _run_facts(document: dict[str, Any]) -> Iterator[str]:
    if document["a"]["digest"] == document["b"]["digest"]:
        yield "Both have the same digest: nothing that the prediction depends on differs."
    elif document["intervals_overlap"] and not document["alike"] and "verdict" not in document:
        yield "Their 90 % intervals overlap."
    if not document["inputs"]["known"]:
        places = ", ".join(document["inputs"]["unknown"])
        yield (
            f"The inputs of {places} are not known, so they are not compared: `sparsim run --out DIR` stores the "
            "scenario with the result, `run --json` does not."
        )


def _sweep_facts(document: dict[str, Any]) -> Iterator[str]:
    summary = document["summary"]
    counts = (
        ("same_inputs", "the same digest in both: nothing that the prediction depends on differs"),
        ("warnings_differ", "different warnings in A and B"),
        ("fidelity_differs", "a different fidelity in A and B"),
    )
    for key, text in counts:
        if summary[key]:
            yield f"{count_of(summary[key], 'point')} {'has' if summary[key] == 1 else 'have'} {text}."
    if document["failed"]:
        yield f"{count_of(len(document['failed']), 'point')} failed in A or in B."
