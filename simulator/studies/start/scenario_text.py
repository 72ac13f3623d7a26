"""The scenario that answers describe, as YAML with comments."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from simulator.hardware.compute_widths import OTHER_GPU_SCALED, measured_elsewhere, same_device
from simulator.hardware.gpu import Gpu
from simulator.hardware.runtime import FRAMEWORKS
from simulator.records import replace
from simulator.studies.start.answers import GOALS, Answers
from simulator.studies.start.lines import TextLine, exact_time, join_lines
from simulator.studies.start.network_text import network_lines
from simulator.units import count_of, show_time

RULE = "1 / sqrt(memory bandwidth x fp32 rate) of the data sheets"
_MPI = ("mpi", "gloo")


def scenario_text(answers: Answers, commands: Mapping[str, str], compute_time: float | None = None) -> str:
    """A scenario that runs, with comments; `commands` are listed at its top.

    `compute_time`: seconds that one GPU needs, derived from the data sheets where nobody has measured it. Raises
    InputError where the answers contradict each other.
    """
    lines = [TextLine(f"# Asked: {GOALS[answers.goal]}."), *(TextLine(f"#   {item}") for item in commands)]
    lines += [TextLine("# `sparsim check` prints all keys with their values; `sparsim list` what can be named here.")]
    lines += [*_workload(answers, compute_time), *_cluster(answers), *_method(answers)]
    return join_lines(lines)


def speed_ratio(slower: Gpu, faster: Gpu) -> float | None:
    """How many times as long `slower` computes, by the rule of `OTHER_GPU_SCALED`; None without a data sheet."""
    rates = [(gpu.memory_bandwidth, gpu.fp32_rate) for gpu in (faster, slower)]
    if any(value is None for pair in rates for value in pair):
        return None
    fast, slow = (float(pair[0] or 0) * float(pair[1] or 0) for pair in rates)
    return math.sqrt(fast / slow)


def _workload(answers: Answers, derived: float | None) -> Iterator[TextLine]:
    workload, gpu = answers.model.read, answers.gpu.read
    yield TextLine("workload:")
    what = f"{workload.numel:,} parameters in {count_of(len(workload.layers), 'tensor')}"
    yield TextLine(f"  trace: {answers.model.name}", what)
    batch = answers.batch or workload.batch_size
    axes = {} if answers.mesh is None else answers.mesh.parallelism
    yield TextLine(f"  batch_size: {batch}", f"samples per {'copy of the model' if axes else 'GPU'} and iteration")
    if "pipeline" in axes:
        yield TextLine(f"  micro_batches: {batch}", "the more, the less stages wait for each other")
    elsewhere = measured_elsewhere(workload, gpu)
    recorded = workload.compute_time if batch == workload.batch_size else None
    if answers.compute_time is not None:
        yield TextLine(f"  compute_time: {exact_time(answers.compute_time)}", "one step of one GPU, as measured")
    elif recorded is not None and same_device(workload.device, gpu.device):
        yield TextLine(f"  compute_time: {exact_time(recorded)}", "one step of one GPU, as recorded with the layers")
    elif workload.origin is not None:
        command = f"sparsim list workload {answers.model.name} --gpu {answers.gpu.name}"
        yield TextLine(f"  # Times are estimated from the GPU's data sheet: {command}")
        yield TextLine("  # compute_time: 100 ms", "better: the step of one of your GPUs, forward, backward and update")
    elif derived is not None:
        yield TextLine(f"  # Nobody has timed this model on {gpu.device}. Its times on {workload.device} are scaled by")
        yield TextLine(f"  # {RULE}; nine in ten such times are")
        yield TextLine(
            f"  # within a factor of {OTHER_GPU_SCALED}. Better: the seconds of one step on one of your GPUs (forward,"
        )
        yield TextLine("  # backward and update) as compute_time, and no compute_width.")
        yield TextLine(f"  compute_time: {show_time(derived)}")
        yield TextLine(f"  compute_width: {OTHER_GPU_SCALED}")
    elif elsewhere:
        yield TextLine(
            f"  # Timed on {workload.device}, not on {gpu.device}: give the step of one of your GPUs as compute_time."
        )
        yield TextLine("  # compute_time: 100 ms")
    elif workload.device and workload.compute_time is None:
        yield TextLine("  # compute_time: 100 ms", "the step of one of your own GPUs; without it, times of the profile")
    if answers.lora:
        yield TextLine(f"  lora: {{rank: {answers.lora}}}", "adapters of queries and values; the model is not trained")
    if answers.recompute:
        yield TextLine("  recompute: full", "activations are computed again: all of them do not fit into memory")
    if answers.precision and answers.precision != "fp32":
        yield TextLine(f"  precision: {answers.precision}", "format of gradients and of what travels")
        if workload.device:
            yield TextLine(
                f"  # Times stay those of the profile, which are of {workload.measured_precision}: give compute_time."
            )


def _cluster(answers: Answers) -> Iterator[TextLine]:
    yield TextLine("cluster:")
    nodes = f"on {answers.sites} sites" if answers.sites > 1 else "machines"
    yield TextLine(f"  nodes: {answers.machines}", nodes)
    yield TextLine(f"  gpus_per_node: {answers.gpus_per_machine}", f"{count_of(answers.workers, 'GPU')} in all")
    yield TextLine(f"  gpu: {answers.gpu.name}", answers.gpu.read.name)
    yield from _slow(answers)
    yield from network_lines(answers)
    yield TextLine(f"  runtime: {answers.framework.name}", answers.framework.read.name)


def _slow(answers: Answers) -> Iterator[TextLine]:
    """The machines with another GPU, which computes as much longer as the data sheets say."""
    if answers.slow_gpu is None:
        return
    first = answers.machines - answers.slow_machines
    ratio = speed_ratio(answers.slow_gpu.read, answers.gpu.read)
    yield TextLine("  other_gpus:")
    yield TextLine(f"    - nodes: {list(range(first, answers.machines))}", "machines count from 0")
    yield TextLine(f"      gpu: {answers.slow_gpu.name}", answers.slow_gpu.read.name)
    if ratio is None:
        yield TextLine("      factor: 1", "no data sheet to derive it from: state how many times as long it computes")
        return
    yield TextLine(f"      # {RULE}; put what you measure here, and no width")
    yield TextLine(f"      factor: {float(f'{ratio:.3g}')!r}", "forward and backward take so many times as long")
    yield TextLine(f"      width: {OTHER_GPU_SCALED}", "nine in ten such factors are right within this one")


def _method(answers: Answers) -> Iterator[TextLine]:
    framework = answers.framework.read.framework
    kind = answers.network.read.transport_kind if answers.network.read is not None else None
    if framework == "byteps":
        yield TextLine("topology: {kind: parameter_server, servers: 0, colocated: true}", "a server on every machine")
    elif framework == "gtopk-sgd" or kind in _MPI:
        yield TextLine(f"topology: {kind or 'mpi'}", "the library of this network")
    else:
        yield TextLine("topology: nccl", "or ring, tree, hierarchical, gloo, ...: sparsim list")
    yield TextLine(f"sparsifier: {flow(answers.method)}", _method_words(answers))
    yield TextLine(f"scheduler: {flow(_schedule(answers))}", "when gradients travel")
    if answers.mesh is not None and answers.mesh.parallelism:
        yield TextLine(f"parallelism: {flow(answers.mesh.parallelism)}", "GPUs that compute one copy of the model")
    if answers.local_steps and answers.method["kind"] == "dense":
        every = dict(_schedule(replace(answers, local_steps=0)))
        if answers.mesh is not None and answers.sites > 1:  # a copy of the model in each site
            every = {"shard": answers.workers // answers.sites} | every
        yield TextLine(f"versus: {flow({'scheduler': every})}", "compare with an exchange in every step")
    elif answers.slow_gpu is not None and answers.method["kind"] == "dense":
        yield TextLine("versus: {cluster.other_gpus: []}", "compare with a cluster without the slow machines")
    elif answers.method["kind"] != "dense":
        yield TextLine("versus: best_dense", "compare with the fastest dense training of the same framework")


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


def _method_words(answers: Answers) -> str:
    others = [item["kind"] for item in answers.methods if item is not answers.method]
    return f"considered, too: {', '.join(others)}" if others else ""


def flow(value: Any) -> str:
    """Plain data as YAML on one line; a kind without parameters as a word."""
    if list(value) == ["kind"]:
        return str(value["kind"])
    return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=1000).strip()
