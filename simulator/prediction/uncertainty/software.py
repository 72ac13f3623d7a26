"""Costs of the training framework as uncertain inputs: those that it states, and those that nobody measured of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from simulator.engine.clock.iterations import simulate
from simulator.engine.plan.plan import Plan
from simulator.hardware.compute_widths import same_device
from simulator.hardware.cost_widths import FACTOR_COSTS, constant_width, largest_known
from simulator.hardware.frameworks import FRAMEWORKS
from simulator.hardware.kernels import HOST_KERNELS
from simulator.hardware.runtime import RUNTIME_COSTS
from simulator.hardware.slowdown import spread_between_models
from simulator.models.widths import mape_of_width
from simulator.prediction.uncertainty.inputs import Measurement, UncertainInput, seconds_at_ends
from simulator.scenario.changes import with_value
from simulator.scenario.scenario import Scenario

MINUTES = 10.0
"""Some iterations on two workers, from which `sparsim calibrate runtime` fits a cost."""
ABSENT = "cost of software, not measured"
"""What costs are called that the runtime does not state: they are taken as 0."""
_ANY = 10.0
"""Width of a cost of 0, for which no factor says anything: its upper end is a value of its own."""
_OF_ONE_WORKER = ("kernel_launch", "host_read")


def software_inputs(scenario: Scenario, plan: Plan, breakdown: Mapping[str, float]) -> Iterator[UncertainInput]:
    """Every cost of the runtime that takes part in the iteration, and the slowdown of compute."""
    cluster = scenario.cluster
    here = cluster.runtime.over(cluster.network.transport_kind)
    for name in FACTOR_COSTS:
        if cluster.workers == 1 and name not in _OF_ONE_WORKER:
            continue
        if getattr(here, name):
            yield _stated(name, scenario, plan, breakdown)
        elif name in _paid(scenario):
            yield _absent(name, scenario, plan)
    if is_slowdown_unknown(scenario, plan):
        yield _slowdown(scenario, plan)


def _stated(name: str, scenario: Scenario, plan: Plan, breakdown: Mapping[str, float]) -> UncertainInput:
    """A cost that the runtime states, with its width over this transport."""
    runtime, over = scenario.cluster.runtime, scenario.cluster.network.transport_kind
    known = constant_width(runtime, name, over, scenario.cluster.gpu.device)
    width = known.width
    less, more = _first_order(name, width, scenario, plan, breakdown)

    def change(changed: Scenario, end: float) -> Scenario:
        here = changed.cluster.runtime.over(over)
        factor = width ** (-end if RUNTIME_COSTS[name].unit == "B/s" else end)
        return with_value(changed, "cluster.runtime", here.model_copy(update={name: getattr(here, name) * factor}))

    return UncertainInput(
        "cost of software",
        f"{runtime.name}/{name}",
        known.level,
        width,
        known.level == "measured",
        less,
        more,
        change,
        source=known.source,
        measurement=_measurement(name),
        held_out_mape=mape_of_width(width),
    )


def _paid(scenario: Scenario) -> tuple[str, ...]:
    """Costs that arise wherever a framework runs; loops of PyTorch launch their kernels one by one."""
    pays = FRAMEWORKS[scenario.cluster.runtime.framework].pays
    return (*pays, "kernel_launch") if scenario.cluster.gpu.framework.startswith("pytorch") else pays


def _absent(name: str, scenario: Scenario, plan: Plan) -> UncertainInput:
    """A cost that the runtime does not state: it is taken as 0, and may be as large as any set-up showed."""
    cost, most = RUNTIME_COSTS[name], largest_known(name)

    def change(changed: Scenario, end: float) -> Scenario:
        here = changed.cluster.runtime.over(changed.cluster.network.transport_kind)
        return with_value(changed, "cluster.runtime", here.model_copy(update={name: max(0.0, end) * most}))

    return UncertainInput(
        ABSENT,
        f"{scenario.cluster.runtime.name}/{name}",
        "assumed",
        _ANY,
        False,
        0.0,
        most * len(plan.uses) if cost.per_call else 0.0,
        change,
        source=f"taken as 0; the largest that another set-up showed is {most:.3g} {cost.unit}",
        measurement=_measurement(name),
    )


def _first_order(
    name: str, width: float, scenario: Scenario, plan: Plan, breakdown: Mapping[str, float]
) -> tuple[float, float]:
    """Seconds by which an iteration is shorter and longer at the ends of a cost's width.

    A rate of the software counts as far as it limits the way of a message, which the NIC limits, too.
    """
    seconds = _seconds(name, plan, breakdown)
    if RUNTIME_COSTS[name].unit != "B/s":
        return seconds_at_ends(seconds, width)
    network, rate = scenario.cluster.network, float(getattr(plan.runtime, name))
    nic = network.carried(scenario.cluster.nodes)
    now, slow, fast = (min(nic, rate * factor) for factor in (1.0, 1 / width, width))
    return seconds * (1 - now / fast), seconds * (now / slow - 1)


def _seconds(name: str, plan: Plan, breakdown: Mapping[str, float]) -> float:
    """Seconds of an iteration that are proportional to a cost, to first order."""
    cost, value = RUNTIME_COSTS[name], float(getattr(plan.runtime, name))
    if cost.unit == "B/s":
        return breakdown["communication_exposed"]
    kernel = next((kernel for kernel, field in HOST_KERNELS.items() if field == name), None)
    if kernel is not None:
        return plan.work.kernels[kernel].seconds if kernel in plan.work.kernels else 0.0
    return value * len(plan.uses) if cost.per_call else 0.0


def _slowdown(scenario: Scenario, plan: Plan) -> UncertainInput:
    """The slowdown of compute by communication: its spread is added or taken away, and it is not below 0."""
    value, spread = plan.slowdown, slowdown_spread(scenario)

    def change(changed: Scenario, end: float) -> Scenario:
        return with_value(changed, "workload.compute_slowdown", max(0.0, value + end * spread))

    slowed = max(0.0, simulate(plan).time - simulate(replace(plan, slowdown=0.0)).time) if value else 0.0
    share = spread / value if value else 0.0
    return UncertainInput(
        "prior",
        "slowdown of compute by communication",
        "assumed",
        1 + (share or spread),
        False,
        min(share, 1.0) * slowed,
        share * slowed,
        change,
        source="leave-one-out error over the set-ups and models in which it was measured",
        measurement=_measurement("compute_slowdown"),
        held_out_mape=mape_of_width(1 + (share or spread)),
    )


def slowdown_spread(scenario: Scenario) -> float:
    """What the slowdown of compute may be off by, added either way; 0 where it was measured for this model.

    An estimate (`auto`) has its own width; a slowdown that was measured for other models, or for none, is off by as
    much as those of two models are on one GPU.
    """
    workload, runtime = scenario.workload, scenario.cluster.runtime
    if workload.compute_slowdown is not None:
        return 0.0
    if runtime.slowdown_width:
        return runtime.slowdown_width * runtime.compute_slowdown
    of = runtime.fitted_on
    if of is not None and workload.name in of.workloads and same_device(of.device, scenario.cluster.gpu.device):
        return 0.0
    return spread_between_models()


def is_slowdown_unknown(scenario: Scenario, plan: Plan) -> bool:
    """Whether exchanges meet compute that they may slow down by more or less than is assumed."""
    return plan.overlap and scenario.cluster.workers > 1 and slowdown_spread(scenario) > 0


def _measurement(name: str) -> Measurement:
    command = "sparsim calibrate runtime SCENARIOS --term"
    return Measurement(RUNTIME_COSTS[name].label, command, MINUTES, name)
