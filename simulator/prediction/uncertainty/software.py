"""Constants of the training framework as uncertain inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from simulator.engine.clock.iterations import simulate
from simulator.engine.plan.plan import Plan
from simulator.hardware.constant_widths import constant_width
from simulator.hardware.kernels import HOST_KERNELS
from simulator.hardware.runtime import RUNTIME_COSTS
from simulator.prediction.uncertainty.inputs import Change, Measurement, UncertainInput, mean_error
from simulator.scenario.changes import with_value
from simulator.scenario.scenario import Scenario

MINUTES = 10.0
"""Some iterations on two workers, from which `sparsim calibrate` fits a constant."""
SLOWDOWN = "compute_slowdown"
_OF_ONE_WORKER = ("kernel_launch", "host_read")


def software_inputs(scenario: Scenario, plan: Plan, breakdown: Mapping[str, float]) -> Iterator[UncertainInput]:
    """Every constant of the runtime that takes part in the iteration, and the slowdown of compute."""
    runtime = scenario.cluster.runtime
    here = runtime.over(scenario.cluster.network.transport_kind)
    for name, cost in RUNTIME_COSTS.items():
        alone = scenario.cluster.workers == 1 and name not in _OF_ONE_WORKER
        if not getattr(here, name) or name == SLOWDOWN or alone:
            continue
        known = constant_width(runtime, name, scenario.cluster.network.transport_kind)
        seconds = _seconds(name, plan, breakdown)
        yield UncertainInput(
            "constant",
            f"{runtime.name}/{name}",
            known.level,
            known.width,
            known.level == "measured",
            seconds * (1 - 1 / known.width),
            seconds * (known.width - 1),
            _scaled(name, known.width, faster=cost.unit == "B/s"),
            source=known.source,
            measurement=_measurement(cost.label),
        )
    if is_slowdown_estimated(scenario, plan):
        yield _slowdown(scenario, plan)


def _seconds(name: str, plan: Plan, breakdown: Mapping[str, float]) -> float:
    """Seconds of an iteration that are proportional to a constant, to first order."""
    cost, value = RUNTIME_COSTS[name], float(getattr(plan.runtime, name))
    if cost.unit == "B/s":
        return breakdown["communication_exposed"]
    kernel = next((kernel for kernel, field in HOST_KERNELS.items() if field == name), None)
    if kernel is not None:
        return plan.work.kernels[kernel].seconds if kernel in plan.work.kernels else 0.0
    return value * len(plan.uses) if cost.per_call else 0.0


def _scaled(name: str, width: float, faster: bool) -> Change:
    """The constant with a longer time at the upper end: itself times the width, or a rate divided by it."""

    def change(scenario: Scenario, end: float) -> Scenario:
        runtime = scenario.cluster.runtime
        factor = width ** (-end if faster else end)
        update = {name: getattr(runtime.over(scenario.cluster.network.transport_kind), name) * factor}
        # The constants are those of this transport by now.
        return with_value(
            scenario, "cluster.runtime", runtime.over(scenario.cluster.network.transport_kind).model_copy(update=update)
        )

    return change


def _slowdown(scenario: Scenario, plan: Plan) -> UncertainInput:
    """The slowdown of compute by communication: its width is a share of it that is added or taken away."""
    value, share = plan.slowdown, scenario.cluster.runtime.slowdown_width

    def change(changed: Scenario, end: float) -> Scenario:
        return with_value(changed, "workload.compute_slowdown", max(0.0, value * (1 + end * share)))

    slowed = max(0.0, simulate(plan).time - simulate(replace(plan, slowdown=0.0)).time) if plan.live else 0.0
    return UncertainInput(
        "prior",
        "slowdown of compute by communication",
        "assumed",
        1 + share,
        False,
        min(share, 1.0) * slowed,
        share * slowed,
        change,
        source="leave-one-out error over the set-ups in which it was measured",
        measurement=_measurement(RUNTIME_COSTS[SLOWDOWN].label),
        held_out_mape=mean_error(1 + share),
    )


def is_slowdown_estimated(scenario: Scenario, plan: Plan) -> bool:
    """Whether compute is slowed by exchanges as an estimate says that other set-ups gave."""
    stated = scenario.workload.compute_slowdown is not None
    slowed = plan.slowdown > 0 and plan.overlap and scenario.cluster.workers > 1
    return slowed and scenario.cluster.runtime.slowdown_width > 0 and not stated


def _measurement(label: str) -> Measurement:
    return Measurement(label, "sparsim calibrate runtime, with iterations of two workers", MINUTES)
