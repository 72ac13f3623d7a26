"""`run`: one prediction, from a scenario in any form."""

from __future__ import annotations

from typing import Any, get_args

from simulator.api.result import Result
from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.prediction.run import run as predict
from simulator.scenario.reading import ScenarioSource, load
from simulator.studies.compare.opponent import run_with_comparison
from simulator.studies.variants.crossing import Intervals


def run(
    source: ScenarioSource,
    /,
    *,
    keep_iterations: bool = False,
    intervals: bool | Intervals = "full",
    **overrides: Any,
) -> Result:
    """Predict one training iteration; the same answer as `sparsim run`.

    `source`: the name of a shipped scenario, a path, a mapping as YAML would contain it, or a `Scenario`.

    `overrides` change it: `sparsifier="topk"`, `cluster={"nodes": 16}`, `**{"cluster.nodes": 16}`. A mapping changes
    the keys that it names; with `kind`, `trace`, `model` or a list of `layers` it takes the place of the whole part.
    Quantities are texts with a unit (`"10 Gbit/s"`), or numbers in SI units.

    `intervals`: `full` as on the command line, by simulating both ends of each uncertain input, and with the comparison
    that the scenario's `versus` asks for; `first_order` is about ten times as fast, for searches, and compares with
    nothing; `none` looks at no uncertain input. `keep_iterations`: with every iteration's spans, for a timeline.

    Raises InputError for a wrong scenario, and where its parts cannot work together.
    """
    wanted = {True: "full", False: "none"}.get(intervals, intervals) if isinstance(intervals, bool) else intervals
    if wanted not in get_args(Intervals):
        hint = suggest_nearest(str(wanted), get_args(Intervals))
        raise InputError(Problem("intervals", f"one of {', '.join(get_args(Intervals))}", format_value(wanted), hint))
    if wanted == "full":
        return Result.of(run_with_comparison(source, overrides, keep_iterations))
    return Result.of(predict(load(source, overrides), keep_iterations, intervals=wanted != "none"))
