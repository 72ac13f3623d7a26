"""Selections that were extrapolated beyond the workers of a trace, as an uncertain input."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from simulator.engine.plan.plan import Plan
from simulator.models.exchange import AllGather, Compute, Messages, PushPull, Selection
from simulator.prediction.recorded_inputs import RecordedInputs
from simulator.prediction.uncertainty.inputs import Measurement, UncertainInput
from simulator.scenario.scenario import Scenario

BEYOND_TRACE = "selections of more workers"
_MINUTES = 30.0
"""What `sparsim record gradients` takes for some iterations of a model on some workers."""


def trace_inputs(
    scenario: Scenario, plan: Plan, breakdown: Mapping[str, float], recorded: RecordedInputs
) -> Iterator[UncertainInput]:
    """What the iteration changes where more, or fewer, elements are sent than was extrapolated.

    To first order: exposed communication and the kernels after it are in proportion to the bytes that are handed over.
    """
    if not recorded.ends:
        return
    sent = _payload(scenario, plan, plan.work.selections)
    low, high = (_payload(scenario, plan, each) for each in recorded.ends)
    if not sent:
        return
    seconds = math.fsum(breakdown[name] for name in ("communication_exposed", "combine"))
    yield UncertainInput(
        BEYOND_TRACE,
        f"{scenario.sparsifier.kind} on {scenario.workload.name}",
        "transferred",
        max(1.0, sent / low if low else high / sent, high / sent),
        False,
        less=seconds * (1 - low / sent),
        more=seconds * (high / sent - 1),
        source="what a quarter of the recorded workers says of all of them",
        measurement=Measurement("gradients of more workers", "sparsim record gradients", _MINUTES),
    )


def _payload(scenario: Scenario, plan: Plan, selections: Sequence[Selection]) -> float:
    """Bytes that are handed over for all buckets, of all steps of their exchanges."""
    workers, style = scenario.cluster.workers, scenario.topology.style
    sizes: list[float] = []
    for bucket, selection in zip(plan.work.buckets, selections, strict=True):
        method = scenario.sparsifier.at_density(bucket.density)
        for step in method.carry_out(selection, bucket, workers, style)[1]:
            if isinstance(step, PushPull):
                sizes += [step.push_nbytes, step.pull_nbytes]
            elif isinstance(step, Messages):
                sizes += step.nbytes
            elif isinstance(step, AllGather):
                sizes += step.sizes(workers).tolist()
            elif not isinstance(step, Compute):
                sizes.append(step.nbytes)
    return math.fsum(sizes)
