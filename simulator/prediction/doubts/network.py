"""Doubts about networks: rate and start-up of links between nodes and inside them, measured collectives, idle NICs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from simulator.engine.plan.plan import Plan
from simulator.engine.plan.prices import price_steps
from simulator.fabrics.base import Fabric
from simulator.fabrics.collectives import MeasuredCollective
from simulator.fabrics.link_widths import LinkWidth, link_width, link_width_inside
from simulator.fabrics.wide_area import WideArea
from simulator.models.linear_algebra import weigh
from simulator.models.small_cache import ResultsOfObjects
from simulator.models.widths import UNSTATED_ERROR, width_of_mape
from simulator.models.wiring import Traffic, Wiring
from simulator.prediction.doubts.doubt import (
    FACTORS,
    Change,
    Doubt,
    Level,
    Measurement,
    Said,
    Sentence,
    seconds_at_ends,
)
from simulator.prediction.doubts.sentences import Reader, Remark, SizedWarning
from simulator.prediction.simulated import Simulated
from simulator.records import replace
from simulator.scenario.changes import AnySpec, with_value
from simulator.scenario.scenario import Scenario
from simulator.topologies.nccl import Nccl
from simulator.units import count_of, join_words, show_bandwidth, show_time

MINUTES = 5.0
"""A sweep of collectives over the sizes of a model, on two nodes."""
BETWEEN, INSIDE = "between nodes", "inside a node"
RATE, START_UP = "rate", "start-up"
_LEVELS: dict[Level, str] = {
    "measured": ", measured at other sizes",
    "transferred": ", carried over from other networks",
    "assumed": ", assumed",
}
"""How the parts of a link law are known that were not measured as they are used."""


def doubt_network(made: Simulated) -> Iterator[Doubt]:
    """Doubts about the links that exchanges use, by what scales with their rate and with their start-up; about
    collectives that were measured at this number of workers instead."""
    scenario, plan = made.scenario, made.plan
    cluster, network = scenario.cluster, scenario.cluster.network
    exposed = made.figures.breakdown["communication_exposed"]
    if cluster.workers == 1:
        return
    sentence, laws = _laws_of(scenario, plan)
    for name, (measured, inside) in plan.prices.curves.items():
        width = curve_width(measured)
        key, source = ("collective", f"{network.name}/{name}"), "held-out error of the curve"
        said, change = () if inside else (Said(sentence),), _scaled_curve(measured.id, width)
        mape = measured.held_out_mape
        curve = Doubt(*key, "measured", width, source, None, said, change, held_out_mape=mape, inside=inside)
        yield curve.over(exposed)
    others = [use for use in made.network_uses[1:] if use.algorithms]
    if not (plan.prices.folded or plan.prices.flowed or plan.live or others):
        return
    share = 0.0 if plan.prices.curves and not others else exposed
    busy = [_busiest(use.traffic, use.wiring) for use in others]
    busy = np.max([_busiest(plan.prices.traffic, plan.wiring), *busy], axis=0).tolist()
    for place, is_rate, law in laws:
        if is_rate:
            shorter, longer = _of_rate(busy, plan, scenario, place, law.width)
            yield law.with_seconds(share * shorter, share * longer)
        else:
            yield law


def remark_on_network(reader: Reader) -> Iterator[Remark]:
    """Curves and a transport that were not measured as they are used, NICs that carry nothing, a trace of bandwidths
    that ends, and sites without nodes."""
    scenario, plan = reader.simulated.scenario, reader.simulated.plan
    if scenario.cluster.workers == 1:
        return
    sentence, _ = _laws_of(scenario, plan)
    if sentence.text:
        yield sentence
    yield from _idle_nics(reader)
    yield from _idle_nics_of_servers(reader)
    yield from _short_trace(reader)
    yield from _empty_sites(reader)


_Laws = tuple[Sentence, tuple[tuple[str, bool, Doubt], ...]]
_laws: ResultsOfObjects[_Laws] = ResultsOfObjects(256)


def _laws_of(scenario: Scenario, plan: Plan) -> _Laws:
    """What is said of a network, and the doubts about its link laws: the place, whether it is the rate, and the doubt
    without seconds."""
    cluster, network = scenario.cluster, scenario.cluster.network
    nodes, gpus = cluster.nodes, cluster.gpus_per_node
    curves = (*_curves(scenario, plan),) if network.measured else ()
    return _laws.get((network,), lambda: _make_laws(network, nodes, gpus, curves), nodes, gpus, curves)


def _make_laws(network: Fabric, nodes: int, gpus_per_node: int, curves: tuple[str, ...]) -> _Laws:
    same = (item for item in network.measured if item.workers == nodes * gpus_per_node)
    if foreign := [item.id for item in same if not network.applies(item)]:
        where = f"{', '.join(foreign)} on {network.title}"
        curves = (*curves, f"{where} was measured at another bandwidth or latency; the link law is used")
    transport = _unmeasured_transport(network, nodes)
    sentence = Sentence(
        "; ".join([*curves, *transport]),
        f"{network.title} was not measured as it is used here: ",
        f" ({FACTORS})",
        terms=("communication_exposed",),
        groups=tuple(("", words) for words in _LEVELS.values()),
        place=5,
    )
    made = []
    for place, known in links_of(network, nodes, gpus_per_node):
        settle = Measurement(f"the network {place}", "sparsim record collectives", MINUTES)
        for part, width in ((RATE, known.rate), (START_UP, known.start_up)):
            if width > 1:
                unknown = known.level != "measured"
                name = f"{part} {place} ({width:.2g})" if unknown and not transport else ""
                said = (Said(sentence, name, list(_LEVELS).index(known.level)),) if unknown or curves else ()
                key = "link law", f"{network.name}/{part} {place}"
                law = Doubt(*key, known.level, width, known.source, settle, said, _scaled(place, part, width))
                made.append((place, part == RATE, law))
    return sentence, tuple(made)


def _curves(scenario: Scenario, plan: Plan) -> Iterator[str]:
    """Measured collectives that are used beyond their sizes, or not used, since exchanges meet others, or their own
    past, on the links."""
    network = scenario.cluster.network
    if names := [name for name, (_, inside) in plan.prices.curves.items() if not inside]:
        yield f"{', '.join(names)} on {network.title} was measured at other sizes only; the link law gives the rest"
    if plan.live and plan.setup.alone:
        named = {primitive for primitive, _ in plan.prices.algorithms}
        found = (network.measured_curve(name, scenario.topology.kind, plan.wiring.layout) for name in sorted(named))
        if unused := [item.id for item in found if item is not None]:
            why = "exchanges share links" if plan.streams > 1 else "an exchange depends on those before it"
            yield f"{', '.join(unused)} on {network.title} is not used, since {why}; the link law is used"


def _unmeasured_transport(network: Fabric, nodes: int) -> list[str]:
    """That what a transport leaves of the NIC's rate was not measured."""
    transport = network.transport
    if nodes == 1 or transport is None or transport.prior_width is None:
        return []
    nic, left = network.bandwidth, network.carried_by_nic(network.bandwidth, nodes)
    share = f", {show_bandwidth(left)} of {show_bandwidth(nic)}," if left < nic else ""
    off = f"by a factor of {transport.prior_width:g}"
    off = f"wrong {off} either way" if _times_faster(network, transport.prior_width) > 1 else f"too high {off}"
    return [
        f"the transport {transport.kind} was not measured on {network.title}; what it leaves "
        f"of the NIC's rate{share} is an estimate that may be {off}"
    ]


def _busiest(traffic: Traffic, wiring: Wiring) -> tuple[float, float]:
    """Seconds of the busiest link between nodes, and of that inside them."""
    busy, offset = traffic.links / wiring.capacity, wiring.offset
    between, inside = (float(np.maximum.reduce(part, initial=0.0)) for part in (busy[:offset], busy[offset:]))
    return between, inside


def _of_rate(busy: Sequence[float], plan: Plan, scenario: Scenario, place: str, width: float) -> tuple[float, float]:
    """By which share of itself communication is shorter and longer at the ends of a rate's width, to first order.

    Links of a place count as far as they are the busiest, and NICs as far as the software of an endpoint does not
    limit its messages already. `busy`: seconds of the busiest link between nodes, and inside them.
    """
    between, inside = busy
    mine, others = (inside, between) if place == INSIDE else (between, inside)
    if not max(mine, others):
        return seconds_at_ends(1.0, width)
    ends = [max(others, mine * _slower(plan, scenario, place, factor)) for factor in (1 / width, 1.0, width)]
    return 1 - ends[0] / ends[1], ends[2] / ends[1] - 1


def _slower(plan: Plan, scenario: Scenario, place: str, factor: float) -> float:
    """How many times slower the links of a place are when their own rate is divided by a factor."""
    if place == INSIDE:
        return factor
    endpoint, network = plan.setup.runtime.endpoint_bandwidth or math.inf, scenario.cluster.network
    nic = network.carried(scenario.cluster.nodes)
    return min(nic, endpoint) / min(nic * _times_faster(network, 1 / factor), endpoint)


def _times_faster(network: Fabric, factor: float) -> float:
    """How many times faster NICs are where their rate is multiplied.

    Where a transport says what is left of a NIC, no more than that NIC carries; a rate that was fitted, or of which
    nothing is said, may be higher.
    """
    transport, nic = network.transport, network.bandwidth
    return factor if transport is None or network.fitted_for else min(factor, nic / network.carried_by_nic(nic, 1))


def links_of(network: Fabric, nodes: int, gpus_per_node: int) -> Iterator[tuple[str, LinkWidth]]:
    """The links that messages of this job use, by place.

    Where a network says nothing of the inside of its nodes, links there are those between the nodes, and wrong as they
    are; those of one node alone are the network itself.
    """
    if nodes > 1:
        yield BETWEEN, link_width(network, nodes)
    if gpus_per_node > 1 and (nodes == 1 or network.intra_node is not None):
        yield INSIDE, link_width_inside(network, gpus_per_node)


def curve_width(curve: MeasuredCollective) -> float:
    """The factor within which a measured collective is right in nine of ten cases, by its held-out error."""
    return width_of_mape(UNSTATED_ERROR if curve.held_out_mape is None else curve.held_out_mape)


def _scaled_curve(name: str, width: float) -> Change:
    """The measured collective, every time of it multiplied."""

    def change(scenario: Scenario, end: float) -> Scenario:
        return with_value(scenario, "cluster.network", scaled_curve(scenario.cluster.network, name, width**end))

    return change


def scaled_curve(network: Fabric, name: str, factor: float) -> Fabric:
    """The network with every time of its measured collective of this name multiplied."""
    made = tuple(
        with_value(item, "points", tuple((size, seconds * factor) for size, seconds in item.points))
        if item.id == name
        else item
        for item in network.measured
    )
    return with_value(network, "measured", made)


def _scaled(place: str, part: str, width: float) -> Change:
    """The links of a place with their rate divided, or their start-up multiplied."""

    def change(scenario: Scenario, end: float) -> Scenario:
        network = scenario.cluster.network
        made = scaled.get((network,), lambda: scaled_links(network, place, part, width, end), place, part, width, end)
        return with_value(scenario, "cluster.network", made)

    return change


scaled: ResultsOfObjects[Fabric] = ResultsOfObjects(64)
"""Networks with links of another rate or start-up, whose prices predictions have in common."""


def scaled_links(network: Fabric, place: str, part: str, width: float, end: float) -> Fabric:
    """The network with the rate of a place's links divided by width^end, or their start-up multiplied.

    With the rate of the NICs changes all that limits their transport (`_times_faster`); with the start-up what was
    measured of the library's steps. A line over a wide area carries no more than is stated, and its delay stays: it
    is what a ping shows.
    """
    factor = width ** (-end if part == RATE else end)
    if place == INSIDE and network.intra_node is not None:
        return _with_links(network, {"intra_node": _times(network.intra_node, _INSIDE[part], factor)})
    own = _times_faster(network, factor) if part == RATE else factor
    changes: dict[str, Any] = {name: made * own for name in _FIELDS[part] if (made := getattr(network, name, None))}
    if part == START_UP:
        library = network.nccl
        steps = tuple((size, seconds * factor) for size, seconds in library.step_overhead)
        hops = {pair: seconds * factor for pair, seconds in library.hop_latency.items()}
        slower = _times(library, ("latency",), factor)
        changes["nccl"] = slower.model_copy(update={"step_overhead": steps, "hop_latency": hops})
        return _with_links(network, changes)
    if network.transport is not None:
        changes["transport"] = _times(network.transport, _TRANSPORT_RATES, own)
    return _with_links(network, changes | network.times(min(factor, 1.0), factor, 1.0))


_FIELDS = {
    RATE: ("bandwidth", "uplink", "copy_bandwidth", "host"),
    START_UP: ("latency", "hop_latency", "collective_start_up"),
}
_INSIDE = {RATE: ("bandwidth", "host"), START_UP: ("latency",)}
_TRANSPORT_RATES = ("stream_bandwidth", "cpu_bandwidth", "staging")


def _times(spec: AnySpec, names: Sequence[str], factor: float) -> AnySpec:
    """A spec with those of the fields multiplied that have a value."""
    return spec.model_copy(update={name: value * factor for name in names if (value := getattr(spec, name))})


def _with_links(network: Fabric, changes: Mapping[str, Any]) -> Fabric:
    """The network with changes, to which its measured collectives still apply."""
    same = {name: changes.get(name, getattr(network, name)) for name in ("bandwidth", "latency")}
    measured = tuple(item.model_copy(update=same) if network.applies(item) else item for item in network.measured)
    return network.model_copy(update={**changes, "measured": measured})


def _idle_nics(reader: Reader) -> Iterator[SizedWarning]:
    """NICs that carry nothing although GPUs of the job sit beside them, and what that costs.

    The time is right for this topology; one that uses all NICs saves at most the difference of the exchanges, and no
    more than what is exposed of them.
    """
    scenario, plan = reader.simulated.scenario, reader.simulated.plan
    cluster, wiring = scenario.cluster, plan.wiring
    beside = min(cluster.network.rails, wiring.layout.gpus_per_node)
    if beside < 2 or cluster.nodes < 2 or plan.live or scenario.topology.style != "collective":
        return
    _, used = _count_nics(0, plan.prices.traffic, wiring)
    if not 0 < used < beside:
        return
    times = np.bincount([step for _, step in plan.work.uses], minlength=len(plan.work.steps)).astype(float)
    own = weigh(times, plan.prices.seconds)
    wide = weigh(times, price_steps(plan.work.steps, (), replace(plan.setup.network, topology=Nccl())).seconds)
    exposed = reader.seconds_of("communication_exposed")
    saved = min(max(0.0, own - wide), exposed)
    yield SizedWarning(
        f"{scenario.topology.kind} uses {used} of {count_of(beside, 'NIC')} of a node: its exchanges take "
        f"{show_time(own)} in an iteration, and over all of them, as topology nccl sends, {show_time(wide)}",
        reader.spread.time,
        exposed if saved else 0.0,
        saved,
        0.0,
    )


def _count_nics(node: int, traffic: Traffic, wiring: Wiring) -> tuple[int, int]:
    """How many NICs a node has by which messages leave, and how many of them carry any."""
    start = f"node {node} NIC"
    out = [number for number, name in enumerate(wiring.names) if name.startswith(start) and name.endswith("out")]
    return len(out), int((traffic.links[out] > 0).sum())


def _idle_nics_of_servers(reader: Reader) -> Iterator[SizedWarning]:
    """NICs of servers on machines of their own that carry nothing, since all messages of a server pass its first one.

    Over all of them exchanges save at most what is exposed of them, but for the part that this NIC would still carry. A
    stated bandwidth of servers, or of the store where they stand, is that of the whole server.
    """
    scenario, plan = reader.simulated.scenario, reader.simulated.plan
    cluster, servers = scenario.cluster, plan.wiring.layout.placement().servers
    if not len(servers) or cluster.runtime.server_bandwidth is not None or isinstance(cluster.network, WideArea):
        return
    has, used = _count_nics(int(servers[0]), reader.simulated.network_uses[0].traffic, plan.wiring)
    if not 0 < used < has:
        return
    exposed = reader.seconds_of("communication_exposed")
    saved = exposed * (1 - used / has)
    yield SizedWarning(
        f"a server uses {used} of {count_of(has, 'NIC')} of its node: over all of them, an iteration would take up to "
        f"{show_time(saved)} less",
        reader.spread.time,
        exposed,
        saved,
        0.0,
    )


def _short_trace(reader: Reader) -> Iterator[SizedWarning]:
    """That an iteration, or a period of local steps, lasts longer than the recorded bandwidths of its links."""
    trace, time = reader.simulated.scenario.cluster.link_trace, reader.simulated.plan.steps * reader.spread.time
    if trace is not None and time > trace.length:
        what = "a period" if reader.simulated.plan.steps > 1 else "an iteration"
        yield SizedWarning(
            f"{what} lasts {show_time(time)}, but the recorded bandwidths end after {show_time(trace.length)}; "
            "the last of them holds from then on",
            reader.spread.time,
            min(reader.seconds_of("communication_exposed"), (time - trace.length) / reader.simulated.plan.steps),
        )


def _empty_sites(reader: Reader) -> Iterator[SizedWarning]:
    """That sites of the network have no node, so that exchanges never cross the lines to them."""
    cluster = reader.simulated.scenario.cluster
    if isinstance(cluster.network, WideArea) and (empty := cluster.network.empty_sites(cluster.nodes)):
        nodes, time = count_of(cluster.nodes, "node"), reader.spread.time
        yield SizedWarning(
            f"no node is at {join_words(empty)}: {nodes} fill the sites of the network in order", time, time
        )
