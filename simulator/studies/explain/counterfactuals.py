"""What an iteration would take if one cost were gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulator.errors import InputError
from simulator.prediction.run import Prediction, run
from simulator.scenario.scenario import Scenario
from simulator.studies.explain.variation import free_selection, infinite_network, no_software, no_stragglers

_WORLDS: dict[str, tuple[str, Callable[[Scenario], Scenario]]] = {
    "infinite_network": ("every link endless and instant, nobody else on it", infinite_network),
    "free_selection": ("the same method, its kernels before the exchange free", free_selection),
    "no_software": ("nothing to negotiate, launch or copy around an exchange", no_software),
    "no_stragglers": ("all workers alike: no jitter, no slow GPU, no kernel that varies", no_stragglers),
}


def counterfactuals(prediction: Prediction) -> list[dict[str, Any]]:
    """Iteration times without one cost each: `name`, what it means, the time, and what it saves.

    Each is a prediction of its own, so that what hid behind the cost shows; a scheduler that reads costs plans anew.
    `perfect_overlap` is a bound: everything else at once with all communication, whichever takes longer.
    """
    time = prediction.document["iteration_time_s"]
    made = []
    for name, (what, change) in _WORLDS.items():
        try:
            other = run(change(prediction.scenario)).document["iteration_time_s"]
        except InputError:
            continue  # for instance a compute_time that no longer fits the update
        made.append(_row(name, what, time, float(other)))
    hidden = time - prediction.document["breakdown_s"]["communication_exposed"]
    bound = min(time, max(hidden, prediction.document["communication_total_s"]))
    what = "all communication beside everything else, a bound: the longer of the two"
    return [*made, _row("perfect_overlap", what, time, bound)]


def _row(name: str, what: str, time: float, other: float) -> dict[str, Any]:
    saving = time - other
    return {
        "name": name,
        "what": what,
        "iteration_time_s": other,
        "saving_s": saving,
        "saving_share": saving / time if time else 0.0,
    }
