"""Networks as uncertain inputs: rate and start-up of links between nodes and inside them, measured collectives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from simulator.engine.plan.plan import Plan
from simulator.fabrics.base import Fabric
from simulator.fabrics.link_widths import LinkWidth, link_width, link_width_inside
from simulator.models.curve_widths import UNSTATED_ERROR
from simulator.models.curves import Floats
from simulator.models.small_cache import ResultsOfObjects
from simulator.models.widths import width_of_mape
from simulator.prediction.uncertainty.inputs import Change, Measurement, UncertainInput, seconds_at_ends
from simulator.scenario.changes import AnySpec, with_value
from simulator.scenario.scenario import Scenario

MINUTES = 5.0
"""A sweep of collectives over the sizes of a model, on two nodes."""


def network_inputs(scenario: Scenario, plan: Plan, breakdown: Mapping[str, float]) -> Iterator[UncertainInput]:
    """The links that exchanges use, by what scales with their rate and with their start-up; collectives that were
    measured at this number of workers instead."""
    cluster, network = scenario.cluster, scenario.cluster.network
    exposed = breakdown["communication_exposed"]
    if cluster.workers == 1:
        return
    for name, (measured, inside) in plan.prices.curves.items():
        width = width_of_mape(UNSTATED_ERROR if measured.held_out_mape is None else measured.held_out_mape)
        yield UncertainInput(
            "collective",
            f"{network.name}/{name}",
            "measured",
            width,
            inside,
            *seconds_at_ends(exposed, width),
            _scaled_curve(measured.id, width),
            source="held-out error of the curve",
            held_out_mape=measured.held_out_mape,
        )
    if not (plan.prices.folded or plan.prices.flowed or plan.live):
        return
    share = 0.0 if plan.prices.curves else exposed
    nodes, gpus = cluster.nodes, cluster.gpus_per_node
    laws = _laws.get((network,), lambda: tuple(_laws_of(network, nodes, gpus)), nodes, gpus)
    busy = plan.prices.traffic.links / plan.wiring.capacity if laws else np.zeros(0)
    for place, is_rate, law in laws:
        if is_rate:
            shorter, longer = _of_rate(busy, plan, scenario, place, law.width)
            yield law.with_seconds(share * shorter, share * longer)
        else:
            yield law


_laws: ResultsOfObjects[tuple[tuple[str, bool, UncertainInput], ...]] = ResultsOfObjects(256)


def _laws_of(network: Fabric, nodes: int, gpus_per_node: int) -> Iterator[tuple[str, bool, UncertainInput]]:
    """What is uncertain of a network's link laws: the place, whether it is the rate, and the input without seconds."""
    for place, known in _links(network, nodes, gpus_per_node):
        for part, width, change in (
            ("rate", known.rate, _scaled_rate(place, known.rate)),
            ("start-up", known.start_up, _scaled_start_up(place, known.start_up)),
        ):
            if width > 1:
                law = UncertainInput(
                    "link law",
                    f"{network.name}/{part} {place}",
                    known.level,
                    width,
                    known.level == "measured",
                    change=change,
                    source=known.source,
                    measurement=Measurement(f"the network {place}", "sparsim record collectives", MINUTES),
                )
                yield place, part == "rate", law


def _of_rate(busy: Floats, plan: Plan, scenario: Scenario, place: str, width: float) -> tuple[float, float]:
    """By which share of itself communication is shorter and longer at the ends of a rate's width, to first order.

    Links of a place count as far as they are the busiest, and NICs as far as the software of an endpoint does not
    limit its messages already. `busy` (L,): seconds of each link.
    """
    offset = plan.wiring.offset
    between, inside = (float(np.maximum.reduce(part, initial=0.0)) for part in (busy[:offset], busy[offset:]))
    mine, others = (inside, between) if place == INSIDE else (between, inside)
    if not max(mine, others):
        return seconds_at_ends(1.0, width)
    ends = [max(others, mine * _slower(plan, scenario, place, factor)) for factor in (1 / width, 1.0, width)]
    return 1 - ends[0] / ends[1], ends[2] / ends[1] - 1


def _slower(plan: Plan, scenario: Scenario, place: str, factor: float) -> float:
    """How many times slower the links of a place are when their own rate is divided by a factor."""
    endpoint, network = plan.runtime.endpoint_bandwidth, scenario.cluster.network
    if place == INSIDE or endpoint is None:
        return factor
    nic = network.carried(scenario.cluster.nodes)
    return min(nic, endpoint) / min(nic / factor, endpoint)


BETWEEN, INSIDE = "between nodes", "inside a node"


def _links(network: Fabric, nodes: int, gpus_per_node: int) -> Iterator[tuple[str, LinkWidth]]:
    """The links that messages of this job use, by place.

    Where a network says nothing of the inside of its nodes, links there are those between the nodes, and wrong as they
    are; those of one node alone are the network itself.
    """
    if nodes > 1:
        yield BETWEEN, link_width(network, nodes)
    if gpus_per_node > 1 and (nodes == 1 or network.intra_node is not None):
        yield INSIDE, link_width_inside(network, gpus_per_node)


def _scaled_curve(name: str, width: float) -> Change:
    """The measured collective, every time of it multiplied."""

    def change(scenario: Scenario, end: float) -> Scenario:
        factor = width**end
        measured = tuple(
            item.model_copy(update={"points": tuple((size, seconds * factor) for size, seconds in item.points)})
            if item.id == name
            else item
            for item in scenario.cluster.network.measured
        )
        return with_value(scenario, "cluster.network.measured", measured)

    return change


def _scaled_rate(place: str, width: float) -> Change:
    """The rate of the links of a place divided: of the NICs, and of all that limits their transport."""

    def change(scenario: Scenario, end: float) -> Scenario:
        network, factor = scenario.cluster.network, width**-end
        if place == INSIDE and network.intra_node is not None:
            return with_value(scenario, "cluster.network.intra_node", _times(network.intra_node, _INSIDE_RATES, factor))
        changes = {name: value * factor for name in _RATES if (value := getattr(network, name, None))}
        if network.transport is not None:
            changes["transport"] = _times(network.transport, _TRANSPORT_RATES, factor)
        return _with_network(scenario, changes | network.times(factor, 1.0))

    return change


def _scaled_start_up(place: str, width: float) -> Change:
    """The start-up of a message of a place multiplied, with what was measured of the library's steps."""

    def change(scenario: Scenario, end: float) -> Scenario:
        network, factor = scenario.cluster.network, width**end
        if place == INSIDE and network.intra_node is not None:
            return with_value(scenario, "cluster.network.intra_node", _times(network.intra_node, ("latency",), factor))
        changes: dict[str, Any] = {
            name: value * factor for name in _START_UPS if (value := getattr(network, name, None))
        }
        terms = network.nccl
        steps = tuple((size, seconds * factor) for size, seconds in terms.step_overhead)
        hops = {pair: seconds * factor for pair, seconds in terms.hop_latency.items()}
        library: dict[str, Any] = {"step_overhead": steps, "hop_latency": hops}
        if terms.latency:
            library["latency"] = terms.latency * factor
        changes["nccl"] = terms.model_copy(update=library)
        return _with_network(scenario, changes)  # the delay of a line over a wide area is what a ping shows

    return change


_RATES = ("bandwidth", "uplink", "copy_bandwidth", "host")
_TRANSPORT_RATES = ("stream_bandwidth", "cpu_bandwidth", "staging")
_INSIDE_RATES = ("bandwidth", "host")
_START_UPS = ("latency", "hop_latency", "collective_start_up")


def _times(spec: AnySpec, names: Sequence[str], factor: float) -> AnySpec:
    """A spec with those of the fields multiplied that have a value."""
    return spec.model_copy(update={name: value * factor for name in names if (value := getattr(spec, name))})


def _with_network(scenario: Scenario, changes: Mapping[str, Any]) -> Scenario:
    """The scenario with a changed network, to which its measured collectives still apply."""
    network = scenario.cluster.network
    same = {name: changes.get(name, getattr(network, name)) for name in ("bandwidth", "latency")}
    measured = tuple(item.model_copy(update=same) if network.applies(item) else item for item in network.measured)
    return with_value(scenario, "cluster.network", network.model_copy(update={**changes, "measured": measured}))
