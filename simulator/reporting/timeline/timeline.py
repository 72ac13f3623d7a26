"""A scenario's iterations as a timeline: a track per worker and stream, arrows, and counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simulator.errors import InputError, Problem
from simulator.models.timeline import Timeline
from simulator.prediction.run import Prediction, run
from simulator.reporting.timeline.drawing import Drawing
from simulator.reporting.timeline.stage_traffic import StageTraffic
from simulator.scenario.scenario import Scenario

LINKS = 8


def timeline(
    scenario: Scenario,
    workers: Sequence[int] | None = None,
    iterations: Sequence[int] | None = None,
    links: int = LINKS,
) -> Timeline:
    """Run a scenario and draw some of its workers and counted iterations, both numbered from 0.

    Default: worker 0 and the first and the last worker to finish their own part in the last iteration (only worker 0
    where all are alike), and the first and the last iteration. `links`: how many have counters, busiest first.
    Raises InputError for unknown workers or iterations, and for more than `MOST_SLICES` slices.
    """
    count = scenario.iterations
    shown = sorted({0, count - 1} if iterations is None else set(iterations))
    _check("iterations", shown, count, "counted iterations, without the warm-up, are numbered from 0")
    _check("workers", workers or (), scenario.cluster.workers, "workers are numbered from 0")
    prediction = run(scenario, keep_iterations=True)
    if len(prediction.iterations) == 1 and iterations is None:
        shown = [0]
    plan = prediction.plan
    traffic = StageTraffic(scenario, plan, plan.wiring.busiest_links(plan.prices.traffic.links, links))
    drawing = Drawing(prediction, traffic, _name_workers(prediction, workers))
    for number in shown:
        drawing.draw_iteration(number)
    tracks = [drawing.iteration_track(shown), *drawing.tracks.values()]
    return Timeline(tracks, drawing.arrows, drawing.counters(), _describe(prediction, shown, drawing))


def _check(option: str, numbers: Sequence[int], count: int, hint: str) -> None:
    wrong = [number for number in numbers if not 0 <= number < count]
    if wrong:
        raise InputError(Problem(f"--{option}", f"numbers from 0 to {count - 1}", ", ".join(map(str, wrong)), hint))


def _name_workers(prediction: Prediction, workers: Sequence[int] | None) -> dict[int, str]:
    """The workers that are drawn, each with its name on the timeline."""
    computed, count = prediction.iteration.computed(), prediction.scenario.cluster.workers
    if len(computed) == 1:
        alike = f" (all {count} are alike)" if count > 1 else ""
        return {worker: f"worker {worker}{alike}" for worker in sorted(set(workers or (0,)))}
    known = {
        int(computed.argmin()): " (first to finish its own part)",
        int(computed.argmax()): " (last to finish its own part)",
    }
    numbers = {0, *known} if workers is None else set(workers)
    return {worker: f"worker {worker}{known.get(worker, '')}" for worker in sorted(numbers)}


def _describe(prediction: Prediction, shown: Sequence[int], drawing: Drawing) -> Mapping[str, Any]:
    document = prediction.document
    kept = ("scenario", "digest", "versions", "seed", "iteration_time_s", "breakdown_s", "fidelity", "warnings")
    times = {number: drawing.iteration(number).time for number in shown}
    drawn_times = {"workers_drawn": list(drawing.workers), "iterations_drawn_s": times}
    return {key: document[key] for key in kept} | {"workers": document["workers"], **drawn_times}
