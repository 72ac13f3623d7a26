"""A Kineto trace as a workload and as tables of gradients and collectives."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import yaml

from simulator.errors import InputError, Problem
from simulator.loading.csv_tables import write_rows
from simulator.traces.readers.kineto import GradientReady, KinetoTrace, ddp_buckets, read_kineto

_READY = ("iteration", "order", "node", "sequence", "numel", "ready_s", "forward_s")
_NODE = re.compile(r"(?:Backward)?\d*$")


def import_kineto(file: Path, out: Path, batch_size: int) -> KinetoTrace:
    """Write the workload of a trace to folder `out`: `workload.yaml` with `layers.csv`, and two more tables.

    `layers.csv` holds the tensors in forward order with medians over the passes (the first one left out where there
    are three or more); `backward_s` is the time since the previous gradient was ready. `gradient_ready.csv` holds every
    gradient of every pass, `collectives.csv` every NCCL kernel. Raises InputError where the trace has no gradients or
    does not state their sizes.
    """
    trace = read_kineto(file)
    passes = _complete_passes(trace.gradients)
    if not passes:
        raise InputError([*trace.problems, Problem(str(file), "a backward pass with gradients", "none")])
    if not all(item.numel for item in passes[0]):
        hint = "record with record_shapes=True"
        raise InputError(Problem(str(file), "the sizes of the gradients", "a trace without shapes", hint))
    out.mkdir(parents=True, exist_ok=True)
    ready = np.median([[item.ready for item in found] for found in passes], axis=0)
    forward = np.median([[item.forward for item in found] for found in passes], axis=0)
    backward = np.diff(np.maximum.accumulate(ready), prepend=0.0)
    first = passes[0]
    rows = [
        (f"{place:03d}.{_NODE.sub('', first[i].node)}", first[i].numel, _rounded(forward[i]), _rounded(backward[i]))
        for place, i in enumerate(reversed(range(len(first))))
    ]
    write_rows(out / "layers.csv", ("name", "numel", "forward_s", "backward_s"), rows)
    write_rows(out / "gradient_ready.csv", _READY, map(_ready_row, trace.gradients))
    kernels = ((k.collective, k.nbytes, k.workers, _rounded(k.seconds), k.start, k.kernel) for k in trace.collectives)
    write_rows(out / "collectives.csv", ("collective", "nbytes", "workers", "time_s", "start_s", "kernel"), kernels)
    buckets = ddp_buckets([item.numel for item in first])
    about = {
        "name": file.name.split(".")[0],
        "batch_size": batch_size,
        "device": trace.device,
        "source": f"{file.name}, {len(passes)} backward passes; DDP would make buckets of {buckets} elements",
        "layers": "layers.csv",
    }
    text = yaml.safe_dump(about, sort_keys=False, width=110, allow_unicode=True)
    (out / "workload.yaml").write_text(text, encoding="utf-8")
    return trace


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
