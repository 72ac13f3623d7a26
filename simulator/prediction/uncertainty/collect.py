"""All uncertain inputs of a prediction."""

from __future__ import annotations

from simulator.prediction.simulated import Simulated
from simulator.prediction.uncertainty.inputs import UncertainInput
from simulator.prediction.uncertainty.kernels import kernel_inputs
from simulator.prediction.uncertainty.network import network_inputs
from simulator.prediction.uncertainty.own_error import model_inputs
from simulator.prediction.uncertainty.recorded import trace_inputs
from simulator.prediction.uncertainty.software import software_inputs
from simulator.prediction.uncertainty.workload import replay_inputs, workload_inputs


def collect_inputs(made: Simulated, slowed: float) -> list[UncertainInput]:
    """Every figure that a prediction rests on, part by part of the scenario. `slowed`: as of `find_slowed`.

    What does not depend on times is remembered. A scenario on an ideal GPU describes no machine, so that nothing is
    assumed of it.
    """
    scenario, plan, breakdown, recorded = made.scenario, made.plan, made.figures.breakdown, made.recorded
    inputs = [
        *kernel_inputs(scenario, plan),
        *network_inputs(scenario, plan, breakdown),
        *software_inputs(scenario, plan, breakdown, slowed),
        *workload_inputs(scenario, plan, breakdown),
        *replay_inputs(scenario, breakdown, recorded.settled),
        *trace_inputs(scenario, plan, breakdown, recorded),
        *model_inputs(scenario, breakdown),
    ]
    return [item for item in inputs if item.level != "assumed" or not scenario.cluster.gpu.ideal]
