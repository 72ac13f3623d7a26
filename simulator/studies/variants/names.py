"""What combinations of a method, a schedule and a topology are called in texts."""

from __future__ import annotations

from simulator.scenario.scenario import Scenario
from simulator.scenario.titles import method_name
from simulator.schedulers.bucketed import Bucketed
from simulator.schedulers.sharded import Sharded
from simulator.studies.variants.sharded import sharded_part
from simulator.units import show_bytes, show_time

_SIZES = ("bucket_size", "partition")


def schedule_name(scenario: Scenario) -> str:
    """The schedule with the size of its buckets or slices, where it has one: `bucketed 25 MiB`.

    Buckets that are collected for a time have that too: `bucketed 16 MiB in 25 ms`; sharded models say their groups:
    `fsdp in groups of 8, gathered once, reduced in bf16`.
    """
    scheduler = scenario.scheduler
    if isinstance(scheduler, Sharded):
        return scheduler.name
    sizes = [value for key in _SIZES if isinstance(value := getattr(scheduler, key, None), float)]
    name = scheduler.kind + (f" {show_size(sizes[0])}" if sizes else "")
    if inside := getattr(scheduler, "inside", None):
        return f"{name} with {schedule_name(scenario.model_copy(update={'scheduler': inside}))} inside sites"
    if isinstance(scheduler, Bucketed) and scheduler.rule == "horovod":
        return f"{name} in {show_time(scheduler.cycle_time)}"
    return name


def method_with_rounding(scenario: Scenario) -> str:
    """The method with its density and what groups of a sharded model round: `topk 0.01`, `dense with qgz`."""
    part = sharded_part(scenario.scheduler)
    return method_name(scenario) + (f" with {part.rounded}" if part is not None and part.rounded else "")


def topology_name(scenario: Scenario) -> str:
    """The topology, and where parameter servers are placed: `parameter_server sharded`."""
    placement = getattr(scenario.topology, "placement", None)
    return scenario.topology.kind + (f" {placement}" if placement else "")


def combination_name(scenario: Scenario, rounding: str = "") -> str:
    """Method, how it is rounded, schedule and topology: `topk 0.01 (bucketed 4 MiB, ring)`."""
    return f"{method_name(scenario)}{rounding} ({schedule_name(scenario)}, {topology_name(scenario)})"


def show_size(nbytes: float) -> str:
    """Bytes of a bucket, in binary units where that is a whole number.

    >>> show_size(4 * 2.0**20), show_size(4e6)
    ('4 MiB', '4 MB')
    """
    mebibytes = nbytes / 2.0**20
    return f"{mebibytes:g} MiB" if mebibytes == round(mebibytes) else show_bytes(nbytes)
