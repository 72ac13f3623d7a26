"""All uncertain inputs of a prediction."""

from __future__ import annotations

from collections.abc import Mapping

from simulator.engine.plan.plan import Plan
from simulator.prediction.recorded_inputs import NOTHING_RECORDED, RecordedInputs
from simulator.prediction.uncertainty.inputs import UncertainInput
from simulator.prediction.uncertainty.kernels import kernel_inputs
from simulator.prediction.uncertainty.network import network_inputs
from simulator.prediction.uncertainty.own_error import model_inputs
from simulator.prediction.uncertainty.recorded import trace_inputs
from simulator.prediction.uncertainty.software import software_inputs
from simulator.prediction.uncertainty.workload import replay_inputs, workload_inputs
from simulator.scenario.scenario import Scenario


def collect_inputs(
    scenario: Scenario, plan: Plan, breakdown: Mapping[str, float], recorded: RecordedInputs = NOTHING_RECORDED
) -> list[UncertainInput]:
    """Every figure that the prediction rests on, part by part of the scenario; `recorded`: what its trace gave.

    A scenario on an ideal GPU describes no machine, so that nothing is assumed of it.
    """
    inputs = [
        *kernel_inputs(scenario, plan),
        *network_inputs(scenario, plan, breakdown),
        *software_inputs(scenario, plan, breakdown),
        *workload_inputs(scenario, plan, breakdown),
        *replay_inputs(scenario, breakdown, recorded.settled),
        *trace_inputs(scenario, plan, breakdown, recorded),
        *model_inputs(scenario, breakdown),
    ]
    return [item for item in inputs if item.level != "assumed" or not scenario.cluster.gpu.ideal]
