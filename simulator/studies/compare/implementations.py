"""What a good implementation of the method would save."""

from __future__ import annotations

from simulator.errors import InputError
from simulator.prediction.comparison import ImplementationSaving
from simulator.prediction.run import Prediction, run
from simulator.sparsifiers.implementation import GOOD
from simulator.studies.variants.changes import with_good_implementation


def compare_with_good(prediction: Prediction) -> ImplementationSaving | None:
    """The implementation of a prediction's method, and what one that is fused and never waits would save.

    None where there is nothing to say: a single worker, or a method without kernels; and where the answer would take
    another replay or another simulation of flows.
    """
    scenario, plan = prediction.scenario, prediction.plan
    own = set(plan.work.kernels) - {"update", "copy"}
    if scenario.sparsifier.implementation == GOOD or not own or scenario.workload.gradients or plan.flowing:
        return None
    time = prediction.spread.time
    try:
        good = run(with_good_implementation(scenario), intervals=False).spread.time
    except InputError:
        return None
    # Kernels whose time grows faster than their elements are not fused where that is slower.
    good = min(time, good)
    return ImplementationSaving(
        name=scenario.sparsifier.implementation,
        label=scenario.sparsifier.known_implementations()[scenario.sparsifier.implementation].label,
        good_iteration_time=good,
        saving=time - good,
        saving_share=1 - good / time if time else 0.0,
    )
