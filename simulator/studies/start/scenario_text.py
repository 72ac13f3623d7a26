"""The scenario that answers describe, as YAML with comments."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import yaml

from simulator.errors import InputError, Problem
from simulator.hardware.gpu import Gpu
from simulator.hardware.runtime import FRAMEWORKS
from simulator.hardware.widths import OTHER_GPU_SCALED, measured_elsewhere, same_device
from simulator.records import replace
from simulator.studies.start.answers import GOALS, Answers, BetweenSites, Machines
from simulator.studies.start.questions import is_rdma
from simulator.units import count_of, parse, show_bandwidth, show_time

_COLUMN, _WIDTH = 44, 120


Line = str | tuple[str, str]
"""A line, and its comment if it has one."""


def join_lines(lines: Iterable[Line]) -> str:
    """The text of lines: comments in one column, and above their line where both are too long for one line."""
    made = []
    for text, comment in ((line, "") if isinstance(line, str) else line for line in lines):
        if not comment:
            made.append(text)
        elif len(beside := f"{text:<{_COLUMN}}  # {comment}") <= _WIDTH:
            made.append(beside)
        else:
            indent = " " * (len(text) - len(text.lstrip()))
            made += [f"{indent}# {comment}", text]
    return "\n".join(made) + "\n"


def exactly(value: float, show: Callable[[float], str]) -> str:
    """A bandwidth in bytes/s or a time in seconds as text that reads back as the same number.

    >>> exactly(1.25e9, show_bandwidth), exactly(123456789.0, show_bandwidth), exactly(0.009975, show_time)
    ('10 Gbit/s', '123456789.0 B/s', '9.975 ms')
    """
    dimension, unit = {show_bandwidth: ("bandwidth", "B/s"), show_time: ("time", "s")}[show]
    shown = show(value)
    return shown if math.isclose(parse(shown, dimension), value, rel_tol=1e-12) else f"{value!r} {unit}"


_INSIDE: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("h100", "h200", "gh200"), "{bandwidth: 365 GB/s, latency: 3.4 us}", "NVSwitch, as in networks/h100-10-nodes"),
    (("b200", "b300"), "{bandwidth: 722 GB/s, latency: 3.4 us}", "NVSwitch, as in networks/400gb-b200-nodes"),
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


def network_lines(machines: Machines) -> Iterator[Line]:
    """The key `network` of a cluster within one site."""
    network = machines.network
    if network.name:
        yield f"  network: {network.name}", network.read.name if network.read else ""
        fitted = network.read.fitted_for if network.read else None
        if fitted is not None and fitted.gpus_per_node == 1 < machines.gpus_per_machine:
            yield "  # This network was measured with one GPU per machine. State the links inside your machines:"
            yield f"  #   --set cluster.network.intra_node='{_inside(machines)[0]}'"
            yield "  # and, if every GPU has a NIC of its own:"
            yield f"  #   --set cluster.network.nics_per_node={machines.gpus_per_machine}"
    else:
        yield "  network:"
        yield "    kind: single_switch", "every machine on one switch that never blocks"
        yield f"    name: {show_bandwidth(network.bandwidth)}{_NAMES[is_rdma(network)]}"
        yield from _ends(machines)


def _sites(answers: Answers) -> Iterator[Line]:
    """Sites as leaves that are joined by one spine: the way between two of them is latency + 2 hop_latency.

    Raises InputError where machines cannot be spread evenly over sites.
    """
    network, between = answers.network, answers.between
    if between is None:
        raise InputError(Problem("--between", "the way between sites, such as '200 Mbit/s, 40 ms'", "nothing"))
    if answers.machines % answers.sites:
        got = f"{answers.machines} machines on {answers.sites} sites"
        raise InputError(Problem("--sites", "as many machines on every site", got, "--machines counts those of all"))
    if between.round_trip < 2 * network.latency:
        what = f"a round trip of {show_time(2 * network.latency)} or more, twice the latency inside a site"
        raise InputError(Problem("--between", what, show_time(between.round_trip)))
    yield "  network:"
    if answers.local_steps and answers.mesh is not None:
        yield from _named_sites(answers, between)
        return
    yield "    kind: leaf_spine", f"{answers.sites} sites, each a leaf; the way between them is the spine"
    name = f"{answers.sites} sites at {show_bandwidth(between.bandwidth)} and {show_time(between.round_trip)}"
    yield f"    name: {name}"
    yield f"    nodes_per_leaf: {answers.machines // answers.sites}", "machines of each site"
    yield "    spines: 1"
    rate = f"{show_bandwidth(between.bandwidth)} in and out of each site, {_TCP[1]}"
    yield f"    uplink: {show_bandwidth(_TCP[0] * between.bandwidth)}", rate
    one_way = between.round_trip / 2
    hop = (one_way - network.latency) / 2
    whole = f"round trip {show_time(between.round_trip)}: one way {show_time(one_way)} = latency + 2 hop_latency"
    yield f"    hop_latency: {exactly(hop, show_time)}", whole
    if network.name:
        yield f"    # inside a site: rate and latency of {network.name}, without its measured curves"
    yield from _ends(answers)
    window = between.bandwidth * between.round_trip
    yield f"    # One TCP connection fills this way only with a window of {window / 1e6:.3g} MB (rate x round trip)."


def _named_sites(answers: Answers, between: BetweenSites) -> Iterator[Line]:
    """Sites by name, each of which takes its local steps together."""
    yield "    kind: wide_area", "sites, in each of which all GPUs take their steps together"
    nodes = answers.machines // answers.sites
    sites = ", ".join(f"{{name: site{number}, nodes: {nodes}}}" for number in range(1, answers.sites + 1))
    yield f"    sites: [{sites}]"
    rate, one_way = show_bandwidth(_TCP[0] * between.bandwidth), exactly(between.round_trip / 2, show_time)
    yield f"    between: {{rate: {rate}, latency: {one_way}}}", f"half of the round trip; the rate is {_TCP[1]}"
    yield from _ends(answers)


def _ends(machines: Machines) -> Iterator[Line]:
    network = machines.network
    known = network.read is not None
    if known:
        yield f"    bandwidth: {exactly(network.bandwidth, show_bandwidth)}", "per NIC and direction"
    else:
        share, why = _RDMA if is_rdma(network) else _TCP
        rate = f"{show_bandwidth(network.bandwidth)} per NIC and direction, {why}"
        yield f"    bandwidth: {show_bandwidth(share * network.bandwidth)}", rate
    why = "as stated" if network.stated or known else "assumption; measure it: sparsim record collectives"
    yield f"    latency: {exactly(network.latency, show_time)}", why
    if not known:
        kind = "rdma" if is_rdma(network) else "tcp"
        what = "NICs read the GPUs' memory" if kind == "rdma" else "TCP sockets"
        yield f"    transport: {kind}", f"{what}; assumption, `rdma`, `tcp`, `mpi` or `gloo`"
    if network.nics > 1:
        yield f"    nics_per_node: {network.nics}", "NICs of a machine; its GPUs take them in turn"
    if machines.gpus_per_machine > 1:
        links, why = _inside(machines)
        yield f"    intra_node: {links}", f"assumption: {why}"


def _inside(machines: Machines) -> tuple[str, str]:
    device = machines.gpu.read.device.lower()
    found = ((links, why) for models, links, why in _INSIDE if any(model in device for model in models))
    return next(found, _PCIE)


RULE = "1 / sqrt(memory bandwidth x fp32 rate) of the data sheets"
_MPI = ("mpi", "gloo")


def scenario_text(answers: Answers, commands: Mapping[str, str], compute_time: float | None = None) -> str:
    """A scenario that runs, with comments; `commands` are listed at its top.

    `compute_time`: seconds that one GPU needs, derived from the data sheets where nobody has measured it. Raises
    InputError where the answers contradict each other.
    """
    lines: list[Line] = [f"# Asked: {GOALS[answers.goal]}.", *(f"#   {item}" for item in commands)]
    lines += ["# `sparsim check` prints all keys with their values; `sparsim list` what can be named here."]
    lines += [*_workload(answers, compute_time), *_cluster(answers), *_method(answers)]
    return join_lines(lines)


def speed_ratio(slower: Gpu, faster: Gpu) -> float | None:
    """How many times as long `slower` computes, by the rule of `OTHER_GPU_SCALED`; None without a data sheet."""
    rates = [(gpu.memory_bandwidth, gpu.fp32_rate) for gpu in (faster, slower)]
    if any(value is None for pair in rates for value in pair):
        return None
    fast, slow = (float(pair[0] or 0) * float(pair[1] or 0) for pair in rates)
    return math.sqrt(fast / slow)


def _workload(answers: Answers, derived: float | None) -> Iterator[Line]:
    workload, gpu = answers.model.read, answers.gpu.read
    yield "workload:"
    what = f"{workload.numel:,} parameters in {count_of(len(workload.layers), 'tensor')}"
    yield f"  trace: {answers.model.name}", what
    batch = answers.batch or workload.batch_size
    axes = {} if answers.mesh is None else answers.mesh.parallelism
    yield f"  batch_size: {batch}", f"samples per {'copy of the model' if axes else 'GPU'} and iteration"
    if "pipeline" in axes:
        yield f"  micro_batches: {batch}", "the more, the less stages wait for each other"
    elsewhere = measured_elsewhere(workload, gpu)
    recorded = workload.compute_time if batch == workload.batch_size else None
    if answers.compute_time is not None:
        yield f"  compute_time: {exactly(answers.compute_time, show_time)}", "one step of one GPU, as measured"
    elif recorded is not None and same_device(workload.device, gpu.device):
        yield f"  compute_time: {exactly(recorded, show_time)}", "one step of one GPU, as recorded with the layers"
    elif workload.origin is not None:
        command = f"sparsim list workload {answers.model.name} --gpu {answers.gpu.name}"
        yield f"  # Times are estimated from the GPU's data sheet: {command}"
        yield "  # compute_time: 100 ms", "better: the step of one of your GPUs, forward, backward and update"
    elif derived is not None:
        yield f"  # Nobody has timed this model on {gpu.device}. Its times on {workload.device} are scaled by"
        yield f"  # {RULE}; nine in ten such times are"
        better = "Better: the seconds of one step on one of your GPUs (forward,"
        yield f"  # within a factor of {OTHER_GPU_SCALED}. {better}"
        yield "  # backward and update) as compute_time, and no compute_width."
        yield f"  compute_time: {show_time(derived)}"
        yield f"  compute_width: {OTHER_GPU_SCALED}"
    elif elsewhere:
        yield f"  # Timed on {workload.device}, not on {gpu.device}: give the step of one of your GPUs as compute_time."
        yield "  # compute_time: 100 ms"
    elif workload.device and workload.compute_time is None:
        yield "  # compute_time: 100 ms", "the step of one of your own GPUs; without it, times of the profile"
    yield from _training(answers)


def _training(answers: Answers) -> Iterator[Line]:
    """Keys of the workload that say how it is trained."""
    workload = answers.model.read
    if workload.origin is not None and len(workload.optimisers) > 1 and workload.origin.architecture.kind != "listed":
        yield "  optimiser: {kind: adamw, implementation: fused, weight_decay: true}", "assumption: give your own"
    if answers.lora:
        yield f"  lora: {{rank: {answers.lora}}}", "adapters of queries and values; the model is not trained"
    if answers.recompute:
        yield "  recompute: full", "activations are computed again: all of them do not fit into memory"
    if answers.precision == "fp8":
        if workload.origin is None:
            raise InputError(Problem("--precision", "a described model, for products in fp8", answers.model.name))
        yield "  arithmetic: fp8", "products of the blocks; gradients are in bf16"
        yield "  precision: bf16"
    elif answers.precision and answers.precision != workload.precision.gradients:
        yield f"  precision: {answers.precision}", "format of gradients and of what travels"
        if workload.device:
            yield f"  # Times stay those of the profile, which are of {workload.measured_precision}: give compute_time."


def _cluster(answers: Answers) -> Iterator[Line]:
    yield "cluster:"
    nodes = f"on {answers.sites} sites" if answers.sites > 1 else "machines"
    yield f"  nodes: {answers.machines}", nodes
    yield f"  gpus_per_node: {answers.gpus_per_machine}", f"{count_of(answers.workers, 'GPU')} in all"
    yield f"  gpu: {answers.gpu.name}", answers.gpu.read.name
    yield from _slow(answers)
    yield from _sites(answers) if answers.sites > 1 else network_lines(answers)
    yield f"  runtime: {answers.framework.name}", answers.framework.read.name


def _slow(answers: Answers) -> Iterator[Line]:
    """The machines with another GPU, which computes as much longer as the data sheets say."""
    if answers.slow_gpu is None:
        return
    first = answers.machines - answers.slow_machines
    ratio = speed_ratio(answers.slow_gpu.read, answers.gpu.read)
    yield "  other_gpus:"
    yield f"    - nodes: {list(range(first, answers.machines))}", "machines count from 0"
    yield f"      gpu: {answers.slow_gpu.name}", answers.slow_gpu.read.name
    if ratio is None:
        yield "      factor: 1", "no data sheet to derive it from: state how many times as long it computes"
        return
    yield f"      # {RULE}; put what you measure here, and no width"
    yield f"      factor: {float(f'{ratio:.3g}')!r}", "forward and backward take so many times as long"
    yield f"      width: {OTHER_GPU_SCALED}", "nine in ten such factors are right within this one"


def _method(answers: Answers) -> Iterator[Line]:
    framework = answers.framework.read.framework
    kind = answers.network.read.transport_kind if answers.network.read is not None else None
    if framework == "byteps":
        yield "topology: {kind: parameter_server, servers: 0, colocated: true}", "a server on every machine"
    elif framework == "gtopk-sgd" or kind in _MPI:
        yield f"topology: {kind or 'mpi'}", "the library of this network"
    else:
        yield "topology: nccl", "or ring, tree, hierarchical, gloo, ...: sparsim list"
    others = [item["kind"] for item in answers.methods if item is not answers.method]
    yield f"sparsifier: {flow(answers.method)}", f"considered, too: {', '.join(others)}" if others else ""
    yield f"scheduler: {flow(_schedule(answers))}", "when gradients travel"
    if answers.mesh is not None and answers.mesh.parallelism:
        yield f"parallelism: {flow(answers.mesh.parallelism)}", "GPUs that compute one copy of the model"
    if answers.local_steps and answers.method["kind"] == "dense":
        every = dict(_schedule(replace(answers, local_steps=0)))
        if answers.mesh is not None and answers.sites > 1:  # a copy of the model in each site
            every = {"shard": answers.workers // answers.sites} | every
        yield f"versus: {flow({'scheduler': every})}", "compare with an exchange in every step"
    elif answers.slow_gpu is not None and answers.method["kind"] == "dense":
        yield "versus: {cluster.other_gpus: []}", "compare with a cluster without the slow machines"
    elif answers.method["kind"] != "dense":
        yield "versus: best_dense", "compare with the fastest dense training of the same framework"


def _schedule(answers: Answers) -> Mapping[str, Any]:
    """That of the mesh, else the framework's default for dense gradients; tensor by tensor where a method runs beside
    Horovod's fusion. After local steps with an outer optimiser, as DiLoCo takes them."""
    if answers.local_steps:
        inside = {} if answers.mesh is None else {"inside": dict(answers.mesh.schedule)}
        return {"kind": "diloco", "inner_steps": answers.local_steps, "bucket_size": "100 MB"} | inside
    if answers.mesh is not None:
        return answers.mesh.schedule
    framework, dense = answers.framework.read.framework, answers.method["kind"] == "dense"
    if framework in ("horovod", "gtopk-sgd") and not dense:
        return {"kind": "wfbp"}
    chosen = dict(FRAMEWORKS[framework].schedules[0].scheduler)
    return {key: f"{value:.12g} B" if key in _BYTES else value for key, value in chosen.items()} | (
        {"cycle_time": f"{chosen['cycle_time']!r} s"} if "cycle_time" in chosen else {}
    )


_BYTES = ("bucket_size", "partition", "credit")


def flow(value: Any) -> str:
    """Plain data as YAML on one line; a kind without parameters as a word."""
    if list(value) == ["kind"]:
        return str(value["kind"])
    return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1000).strip()
