"""What to use on a set-up: methods, schedules and topologies ranked, where compression starts to pay, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from simulator.component import discover
from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.loading.documents import read_document
from simulator.loading.finding import find_file
from simulator.prediction.run import plan_of, run
from simulator.scenario.scenario import Scenario
from simulator.scenario.versions import versions
from simulator.sparsifiers.base import Sparsifier
from simulator.studies.advice.candidates import DEFAULT_DENSITY, DENSITIES, Candidate, Grid, candidates, density_of
from simulator.studies.advice.crossings import crossings
from simulator.studies.advice.ranking import (
    DENSE,
    SAME,
    best_of,
    best_of_each,
    own_of,
    ranked_row,
    ranking,
    row_of,
    verdict,
)
from simulator.studies.advice.reasons import reasons
from simulator.studies.advice.search import EXHAUSTIVE, Found, Outcome, search
from simulator.studies.advice.wording import method_of, name_of, settings
from simulator.studies.explain.sensitivity import described, iteration_time, sensitivity
from simulator.studies.explain.variation import calm, closed_form

TRIED_DENSER = 4
"""Sparsifiers that are also looked at with other densities."""
MAX_ITERATIONS = 1e15


def advise(
    scenario: Scenario,
    iterations_to_target: Mapping[str, float] | None = None,
    grid: Grid | None = None,
    exhaustive: int = EXHAUSTIVE,
) -> dict[str, Any]:
    """Rank what could be used, at the scenario's own density, and say where compression pays and why.

    `iterations_to_target` maps methods (`topk`, or `topk 0.01` for one density) to the iterations that your own
    training takes to its target; the ranking is then by time to target. `grid` and `exhaustive` set what is looked at,
    and up to how many points all of it. Raises InputError where the parts cannot work together, or for an unknown
    method.
    """
    plan = plan_of(scenario)  # refuses what cannot work together
    targets = _checked(iterations_to_target or {})
    bare, note = closed_form(scenario)
    own_density = density_of(bare)
    density = DEFAULT_DENSITY if own_density is None else own_density
    grid = candidates(bare, density) if grid is None else grid
    document: dict[str, Any] = {"scenario": scenario.name, "digest": scenario.digest, "versions": versions()}
    document |= {"workers": scenario.cluster.workers, "density": density, "iterations_to_target": dict(targets)}
    if scenario.cluster.workers == 1:
        return document | _alone(bare)
    found = search(bare, grid, exhaustive)
    rows = ranking(bare, found, targets)
    dense, own = best_of(bare, found, DENSE), own_of(found)
    others = [item for item in best_of_each(found) if method_of(bare, item.candidate) != DENSE]
    lossy = others[0] if others else None
    chosen = verdict(rows, targets)
    return document | {
        "answer": chosen["text"],
        "recommended": chosen["overrides"],
        "settings": settings(chosen["overrides"]),
        "ranking": rows,
        "dense": row_of(rows, dense),
        "yours": row_of(rows, own),
        "other_densities": _other_densities(bare, others, density),
        "break_even": crossings(bare, others) if dense is not None else [],
        "reasons": reasons(bare, dense, others, own) if dense is not None else [],
        "sensitivity": _hinges(bare, dense, lossy) if dense and lossy and not plan.live else None,
        "looked_at": _looked_at(grid, found),
        "notes": _notes(density, own_density, note, targets),
    }


def read_iterations(path: str) -> dict[str, float]:
    """A file that maps methods to iterations. Raises InputError with the place of everything that is wrong."""
    place = find_file(path, None)
    if place is None:
        raise InputError(Problem(path, "a YAML file of methods and iterations, such as `topk: 32000`", "nothing there"))
    document = read_document(place)
    if not isinstance(document.data, dict):
        raise InputError(
            Problem(document.where(()), "a mapping from methods to iterations", format_value(document.data))
        )
    problems = [
        Problem(f"{document.where((key,))}: {key}", "iterations above 0, at most 1e15", format_value(value))
        for key, value in document.data.items()
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_ITERATIONS
    ]
    if problems:
        raise InputError(problems)
    return _checked({str(key): float(value) for key, value in document.data.items()})


def _checked(targets: Mapping[str, float]) -> dict[str, float]:
    kinds = discover(Sparsifier)
    unknown = [name for name in targets if name.split(" ")[0] not in kinds]
    if unknown:
        raise InputError(
            [
                Problem(
                    "iterations to target", "a method, such as topk or 'topk 0.01'", f"'{n}'", suggest_nearest(n, kinds)
                )
                for n in unknown
            ]
        )
    return dict(targets)


def _alone(scenario: Scenario) -> dict[str, Any]:
    """One worker has nobody to send to."""
    row = {"rank": 1, **ranked_row(scenario, Candidate(), run(scenario).document, {})}
    row |= {"speed_up_over_dense": 1.0, "speed_up_over_yours": 1.0, "best_of_method": True}
    return {
        "answer": "One worker exchanges nothing, so there is nothing to compress: leave everything as it is.",
        "recommended": {},
        "settings": "",
        "ranking": [row],
        "dense": None,
        "yours": row,
        "other_densities": [],
        "break_even": [],
        "reasons": [{"kind": "room", "methods": [], "text": "There is no communication with one worker."}],
        "sensitivity": None,
        "looked_at": {"combinations": 1, "run": 1, "refused": 0, "refusals": {}, "not_run": 0, "left_out": []},
        "notes": [],
    }


def _other_densities(scenario: Scenario, others: Sequence[Outcome], density: float) -> list[dict[str, Any]]:
    """The fastest sparsifier at other densities, on the schedule and topology that it was fastest with."""
    sparse = [item for item in others if density_of(item.candidate.of(scenario)) is not None][:TRIED_DENSER]
    made = []
    for other in DENSITIES:
        if abs(other - density) < 1e-12:
            continue
        rows = []
        for item in sparse:
            candidate = _at_density(item.candidate, other)
            try:
                rows.append(ranked_row(scenario, candidate, run(candidate.of(scenario)).document, {}))
            except InputError:
                continue
        if rows:
            best = min(rows, key=lambda row: row["iteration_time_s"])
            made.append({key: best[key] for key in ("density", "method", "overrides", "schedule", "topology")})
            made[-1] |= {"iteration_time_s": best["iteration_time_s"]}
    return made


def _at_density(candidate: Candidate, density: float) -> Candidate:
    if candidate.sparsifier is None:
        return replace(candidate, density=density)
    return replace(candidate, sparsifier={**candidate.sparsifier, "density": density})


def _hinges(scenario: Scenario, dense: Outcome, lossy: Outcome) -> dict[str, Any]:
    """What moves the answer: how many times faster than dense the best other method is, and where that turns round."""
    start = calm(lossy.candidate.of(scenario))
    rival = dense.candidate.of(calm(scenario))

    def ratio(changed: Scenario) -> float:
        parts = {"sparsifier": rival.sparsifier, "scheduler": rival.scheduler, "topology": rival.topology}
        return iteration_time(changed.model_copy(update=parts)) / iteration_time(changed)

    made = sensitivity(start, ratio)
    turns = [
        f"{row['input']} at {word} its value"
        for row in made["inputs"]
        for word, value in (("half", row["at_half"]), ("twice", row["at_double"]))
        if value is not None and (value > 1 + SAME) != (made["base"] > 1 + SAME)
    ]
    about = f"the speed-up of {name_of(scenario, lossy.candidate)} over dense"
    return {"of": about, **made, "answer": described(made), "turned_by": turns}


def _looked_at(grid: Grid, found: Found) -> dict[str, Any]:
    return {
        "combinations": grid.points,
        "run": len(found.outcomes) + sum(found.refused.values()),
        "refused": sum(found.refused.values()),
        "refusals": dict(found.refused.most_common()),
        "not_run": found.unseen,
        "left_out": list(grid.left_out),
    }


def _notes(density: float, own: float | None, note: str, targets: Mapping[str, float]) -> list[str]:
    made = [
        f"Sparsifiers are ranked at density {density:g}"
        + (", the scenario's own" if own is not None else ", taken since the scenario has none")
        + ". A lower density is always faster per iteration; what it does to convergence is not modelled, so other "
        "densities are options, not better answers."
    ]
    if targets:
        made.append(
            "Time to target: your own iterations times the predicted iteration; methods without yours come last."
        )
    else:
        made.append(
            "The ranking is by time per iteration. Methods differ in how many iterations they need; give yours with "
            "--iterations-to-target."
        )
    return [*made, f"Runs use {note}."] if note else made
