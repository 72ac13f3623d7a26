"""The model as uncertain inputs: its compute time, and the shares of its layers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from simulator.engine.plan.plan import Plan
from simulator.prediction.uncertainty.inputs import Change, Measurement, UncertainInput
from simulator.scenario.changes import scale_compute
from simulator.scenario.scenario import Scenario

MINUTES = 2.0
"""`sparsim record layers`."""


def workload_inputs(scenario: Scenario, plan: Plan, breakdown: Mapping[str, float]) -> Iterator[UncertainInput]:
    """The compute time of the model on the scenario's GPU."""
    workload, gpu = scenario.workload, scenario.cluster.gpu
    if gpu.ideal:
        return
    width = 1.02
    seconds = math.fsum(breakdown[name] for name in ("forward", "backward", "update"))
    yield UncertainInput(
        "compute time",
        f"{workload.name} on {gpu.name}",
        "measured",
        width,
        True,
        seconds * (1 - 1 / width),
        seconds * (width - 1),
        _scaled(width),
        source="spread of repeated measurements",
        measurement=Measurement("compute time", "sparsim record layers", MINUTES),
    )


def _scaled(width: float) -> Change:
    return lambda scenario, end: scale_compute(scenario, width**end)
