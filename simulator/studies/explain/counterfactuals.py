"""What an iteration would take without one of its costs."""

from __future__ import annotations

from collections.abc import Callable

from simulator.errors import InputError
from simulator.prediction.run import Prediction
from simulator.progress import Watch
from simulator.reporting.answers.explained import Counterfactual
from simulator.scenario.scenario import Scenario
from simulator.studies.processes.mapping import map_watched
from simulator.studies.variants.changes import (
    with_free_selection,
    with_good_implementation,
    with_infinite_network,
    without_software,
    without_stragglers,
)
from simulator.studies.variants.evaluation import evaluate

_CHANGES: dict[str, tuple[str, Callable[[Scenario], Scenario]]] = {
    "infinite_network": ("infinite bandwidth and no latency on every link, no other traffic", with_infinite_network),
    "free_selection": ("the same method; its kernels before the exchange take no time", with_free_selection),
    "good_implementation": (
        "the same method, fused: one call per kernel, one gather per payload, no reads by the host",
        with_good_implementation,
    ),
    "no_software": ("no negotiation, launch or copy around an exchange", without_software),
    "no_stragglers": ("all workers alike: no jitter, slow GPU or kernel whose time varies", without_stragglers),
}


def counterfactuals(prediction: Prediction, watch: Watch | None = None) -> list[Counterfactual]:
    """Iteration times without one cost each: `name`, what it means, the time, and what it saves.

    Each is a prediction of its own, so that time which the cost has hidden shows up; a scheduler that reads costs
    plans again. `perfect_overlap` is a lower bound: the longer of all communication and everything else.
    """
    time, watch = prediction.result.iteration_time, watch or Watch()
    made: list[Counterfactual] = []
    if watch.interrupted:
        return made
    changed = [change(prediction.scenario) for _, change in _CHANGES.values()]
    names = list(_CHANGES)
    found = map_watched(evaluate, changed, watch, "the times without single costs", processes=1)
    for place, other in found.items():
        if isinstance(other, InputError):
            continue  # for instance a compute_time that is shorter than the update
        name, seconds = names[place], other.result.iteration_time
        # A kernel whose time grows faster than its elements would not be fused where that is slower.
        seconds = min(time, seconds) if name == "good_implementation" else seconds
        made.append(_row(name, _CHANGES[name][0], time, seconds))
    rest = time - prediction.result.breakdown["communication_exposed"]
    bound = min(time, max(rest, prediction.result.communication_total))
    what = "a lower bound: the longer of all communication and everything else"
    return [*made, _row("perfect_overlap", what, time, bound)]


def _row(name: str, what: str, time: float, other: float) -> Counterfactual:
    saving = time - other
    return Counterfactual(name, what, other, saving, saving / time if time else 0.0)
