"""A Kineto trace as a workload and as tables of gradients and collectives."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from simulator.errors import InputError, Problem
from simulator.loading.csv_tables import write_rows
from simulator.traces.readers.kineto import KinetoTrace, ddp_buckets, read_kineto
from simulator.traces.readers.kineto_choice import Summary, choose_steps, summarise_steps
from simulator.traces.readers.kineto_passes import GradientReady
from simulator.traces.readers.kineto_steps import LayerTimes

_LAYERS = ("name", "numel", "forward_s", "backward_s")
_HOST = ("forward_host_s", "backward_host_s")
_READY = ("iteration", "order", "node", "sequence", "numel", "ready_s", "forward_s")
_COLLECTIVES = ("collective", "nbytes", "workers", "time_s", "start_s", "kernel", "itemsize", "stream")
_NODE = re.compile(r"(?:Backward)?\d*$")


@dataclass(frozen=True, slots=True)
class KinetoImport:
    """What was read, the steps that count (None: the trace names none), and the gradients of one of their passes."""

    trace: KinetoTrace
    summary: Summary | None
    gradients: tuple[GradientReady, ...]


def import_kineto(file: Path, out: Path, batch_size: int, steps: str = "") -> KinetoImport:
    """Write the workload of a trace to folder `out`: `workload.yaml` with `layers.csv`, and two more tables.

    `layers.csv` holds the tensors in forward order with medians over the steps of `choose_steps`; `backward_s` is the
    time since the previous gradient was ready, without the time in which the GPU waited for launches; the host's times
    stand in columns of their own. `compute_time` is the wall time of a step without
    `input_time`, for which the GPU waits for data, and without exposed collectives. A trace without steps has times of
    the layers only, over all passes but the first. `gradient_ready.csv` holds every gradient of every pass,
    `collectives.csv` every NCCL kernel. Raises InputError where the trace has no gradients or does not state their
    sizes, and where there is no such step.
    """
    trace = read_kineto(file)
    passes = _complete_passes(trace.gradients)
    if not passes:
        raise InputError([*trace.problems, Problem(str(file), "a backward pass with gradients", "none")])
    if not all(item.numel for item in passes[0]):
        hint = "record with record_shapes=True"
        raise InputError(Problem(str(file), "the sizes of the gradients", "a trace without shapes", hint))
    chosen = choose_steps(trace.steps, steps, file.name)
    summary = summarise_steps(trace.steps, chosen) if chosen else None
    count = len(passes[0])
    if summary is not None and len(summary.layers.backward) != count:
        summary = None  # the steps hold other passes than most of the trace: for instance two each
    layers = summary.layers if summary is not None else _over_passes(passes)
    out.mkdir(parents=True, exist_ok=True)
    _write_layers(out, passes[0], layers, summary is not None)
    write_rows(out / "gradient_ready.csv", _READY, map(_ready_row, trace.gradients))
    kernels = (
        (k.collective, k.nbytes, k.workers, _rounded(k.seconds), k.start, k.kernel, k.itemsize or "", k.stream)
        for k in trace.collectives
    )
    write_rows(out / "collectives.csv", _COLLECTIVES, kernels)
    about = _about(file, batch_size, trace, summary, passes)
    text = yaml.safe_dump(about, sort_keys=False, width=110, allow_unicode=True)
    (out / "workload.yaml").write_text(text, encoding="utf-8")
    return KinetoImport(trace, summary, tuple(passes[0]))


def _about(
    file: Path, batch_size: int, trace: KinetoTrace, summary: Summary | None, passes: list[list[GradientReady]]
) -> dict[str, Any]:
    """What workload.yaml says besides the layers."""
    buckets = ddp_buckets([item.numel for item in passes[0]])
    over = f"{len(passes)} backward passes"
    times: dict[str, Any] = {}
    if summary is not None:
        over = f"steps {', '.join(map(str, summary.used))}"
        update = max(0.0, summary.update)
        if summary.compute > update:
            times["compute_time"] = f"{_rounded(summary.compute)!r} s"
        times |= {"input_time": f"{_rounded(summary.data)!r} s", "update_time": f"{_rounded(update)!r} s"}
        times["host_ahead"] = not summary.waits
    return {
        "name": file.name.split(".")[0],
        "batch_size": batch_size,
        "device": trace.device,
        "source": f"{file.name}, medians over {over}; DDP would make buckets of {buckets} elements",
        **times,
        "layers": "layers.csv",
    }


def _write_layers(out: Path, gradients: list[GradientReady], layers: LayerTimes, with_host: bool) -> None:
    columns = (layers.forward, layers.backward, *((layers.forward_host, layers.backward_host) if with_host else ()))
    rows = (
        (
            f"{place:03d}.{_NODE.sub('', gradients[i].node)}",
            gradients[i].numel,
            *(_rounded(times[i]) for times in columns),
        )
        for place, i in enumerate(reversed(range(len(gradients))))
    )
    write_rows(out / "layers.csv", (*_LAYERS, *(_HOST if with_host else ())), rows)


def _over_passes(passes: list[list[GradientReady]]) -> LayerTimes:
    """Medians over passes of a trace without steps, in which nothing tells the host's share."""
    ready = np.median([[item.ready for item in found] for found in passes], axis=0)
    forward = np.median([[item.forward for item in found] for found in passes], axis=0)
    none = (0.0,) * len(ready)
    backward = np.diff(np.maximum.accumulate(ready), prepend=0.0)
    return LayerTimes(tuple(forward.tolist()), none, tuple(backward.tolist()), none)


def _complete_passes(gradients: Iterable[GradientReady]) -> list[list[GradientReady]]:
    """The passes with the most frequent number of gradients, without the first where there are three or more."""
    passes: dict[int, list[GradientReady]] = {}
    for item in gradients:
        passes.setdefault(item.iteration, []).append(item)
    lengths = [len(found) for found in passes.values()]
    usual = max(set(lengths), key=lengths.count, default=0)
    alike = [found for found in passes.values() if len(found) == usual]
    return alike[1:] if len(alike) > 2 else alike


def _ready_row(item: GradientReady) -> tuple[object, ...]:
    times = _rounded(item.ready), _rounded(item.forward)
    return item.iteration, item.order, item.node, item.sequence, item.numel, *times


def _rounded(seconds: float) -> float:
    """Seconds to the nanosecond, as a trace has them."""
    return round(float(seconds), 9)
