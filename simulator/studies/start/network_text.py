"""The network of a scenario as YAML with comments: shipped, given by its rate, or between sites."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.errors import InputError, Problem
from simulator.studies.start.answers import Answers, BetweenSites, NetworkAnswer
from simulator.studies.start.lines import TextLine, exact_rate, exact_time
from simulator.studies.start.parsing import is_rdma
from simulator.units import show_bandwidth, show_time

_INSIDE: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("h100", "h200", "b200"), "{bandwidth: 365 GB/s, latency: 3.4 us}", "NVSwitch, as in networks/h100-10-nodes"),
    (("a100",), "{bandwidth: 235 GB/s, latency: 2.8 us}", "NVLink, as in networks/slingshot-polaris"),
    (("mi300x", "mi325x"), "{bandwidth: 336 GB/s, latency: 3.4 us}", "7 xGMI links, as in networks/mi300x-nodes"),
    (("mi355x",), "{bandwidth: 403 GB/s, latency: 3.4 us}", "7 xGMI links, as in networks/mi355x-nodes"),
    (("v100",), "{bandwidth: 85 GB/s, latency: 7.9 us}", "NVLink, as in networks/nvlink-v100"),
)
_PCIE = ("{bandwidth: 5.402 GB/s, latency: 2.1 us}", "PCIe through host memory, as in networks/10gbe-tcp")
"""The links inside a machine, which nobody is asked about: measured ones of the same kind of GPU, or else PCIe."""

_TCP = (1448 / 1538, "less the headers of Ethernet, IP and TCP (1448 of 1538 bytes)")
_RDMA = (0.96, "of which NICs carry 96 % (networks/100gb-ib)")
"""Shares of a NIC's rate that are payload: frames of 1500 bytes with time stamps, and 12 of 12.5 GB/s."""
_NAMES = {True: ", RDMA", False: ", TCP"}


def network_lines(answers: Answers) -> Iterator[TextLine]:
    """The key `network` of a cluster. Raises InputError where machines cannot be spread evenly over sites."""
    network = answers.network
    if answers.sites > 1:
        yield from _sites(answers)
    elif network.name:
        yield TextLine(f"  network: {network.name}", network.read.name if network.read else "")
        fitted = network.read.fitted_for if network.read else None
        if fitted is not None and fitted.gpus_per_node == 1 < answers.gpus_per_machine:
            yield TextLine(
                "  # This network was measured with one GPU per machine. State the links inside your machines:"
            )
            yield TextLine(f"  #   --set cluster.network.intra_node='{_inside(answers)[0]}'")
            yield TextLine("  # and, if every GPU has a NIC of its own:")
            yield TextLine(f"  #   --set cluster.network.nics_per_node={answers.gpus_per_machine}")
    else:
        yield TextLine("  network:")
        yield TextLine("    kind: single_switch", "every machine on one switch that never blocks")
        yield TextLine(f"    name: {show_bandwidth(network.bandwidth)}{_NAMES[is_rdma(network)]}")
        yield from _ends(answers)


def _sites(answers: Answers) -> Iterator[TextLine]:
    """Sites as leaves that are joined by one spine: the way between two of them is latency + 2 hop_latency."""
    network, between = answers.network, answers.between
    if between is None:
        raise InputError(Problem("--between", "the way between sites, such as '200 Mbit/s, 40 ms'", "nothing"))
    if answers.machines % answers.sites:
        got = f"{answers.machines} machines on {answers.sites} sites"
        raise InputError(Problem("--sites", "as many machines on every site", got, "--machines counts those of all"))
    one_way = between.round_trip / 2
    if one_way < network.latency:
        got = f"{show_time(one_way)} one way"
        what = f"a round trip of {show_time(2 * network.latency)} or more, that inside a site"
        raise InputError(Problem("--between", what, got))
    yield TextLine("  network:")
    if answers.local_steps and answers.mesh is not None:
        yield from _named_sites(answers, between)
        return
    yield TextLine("    kind: leaf_spine", f"{answers.sites} sites, each a leaf; the way between them is the spine")
    name = f"{answers.sites} sites at {show_bandwidth(between.bandwidth)} and {show_time(between.round_trip)}"
    yield TextLine(f"    name: {name}")
    yield TextLine(f"    nodes_per_leaf: {answers.machines // answers.sites}", "machines of each site")
    yield TextLine("    spines: 1")
    rate = f"{show_bandwidth(between.bandwidth)} in and out of each site, {_TCP[1]}"
    yield TextLine(f"    uplink: {show_bandwidth(_TCP[0] * between.bandwidth)}", rate)
    hop = (one_way - network.latency) / 2
    yield TextLine(
        f"    hop_latency: {exact_time(hop)}",
        f"round trip {show_time(between.round_trip)}: one way {show_time(one_way)} = latency + 2 hop_latency",
    )
    if network.name:
        yield TextLine(f"    # inside a site: rate and latency of {network.name}, without its measured curves")
    yield from _ends(answers)
    window = between.bandwidth * between.round_trip
    yield TextLine(
        f"    # One TCP connection fills this way only with a window of {window / 1e6:.3g} MB (rate x round trip)."
    )


def _named_sites(answers: Answers, between: BetweenSites) -> Iterator[TextLine]:
    """Sites by name, each of which takes its local steps together."""
    yield TextLine("    kind: wide_area", "sites, in each of which all GPUs take their steps together")
    nodes = answers.machines // answers.sites
    sites = ", ".join(f"{{name: site{number}, nodes: {nodes}}}" for number in range(1, answers.sites + 1))
    yield TextLine(f"    sites: [{sites}]")
    rate, one_way = show_bandwidth(_TCP[0] * between.bandwidth), exact_time(between.round_trip / 2)
    yield TextLine(
        f"    between: {{rate: {rate}, latency: {one_way}}}", f"half of the round trip; the rate is {_TCP[1]}"
    )
    yield from _ends(answers)


def _ends(answers: Answers) -> Iterator[TextLine]:
    """The NICs of the machines, and the links inside them."""
    network = answers.network
    known = network.read is not None
    if known:
        yield TextLine(f"    bandwidth: {exact_rate(network.bandwidth)}", "per NIC and direction")
    else:
        share, why = _payload(network)
        rate = f"{show_bandwidth(network.bandwidth)} per NIC and direction, {why}"
        yield TextLine(f"    bandwidth: {show_bandwidth(share * network.bandwidth)}", rate)
    why = "as stated" if network.stated or known else "assumption; measure it: sparsim record collectives"
    yield TextLine(f"    latency: {exact_time(network.latency)}", why)
    if not known:
        kind = "rdma" if is_rdma(network) else "tcp"
        what = "NICs read the GPUs' memory" if kind == "rdma" else "TCP sockets"
        yield TextLine(f"    transport: {kind}", f"{what}; assumption, `rdma`, `tcp`, `mpi` or `gloo`")
    if network.nics > 1:
        yield TextLine(f"    nics_per_node: {network.nics}", "NICs of a machine; its GPUs take them in turn")
    if answers.gpus_per_machine > 1:
        links, why = _inside(answers)
        yield TextLine(f"    intra_node: {links}", f"assumption: {why}")


def _payload(network: NetworkAnswer) -> tuple[float, str]:
    """The share of a NIC's rate that is payload, and why."""
    return _RDMA if is_rdma(network) else _TCP


def _inside(answers: Answers) -> tuple[str, str]:
    device = answers.gpu.read.device.lower()
    found = ((links, why) for models, links, why in _INSIDE if any(model in device for model in models))
    return next(found, _PCIE)
