"""A Kineto trace as a workload and as tables of gradients and collectives, and what its import reports."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from simulator.errors import InputError, Problem
from simulator.files import write_yaml
from simulator.loading.csv_tables import write_rows
from simulator.models.fusing import DDP_LIMITS, fuse
from simulator.models.groups import group_by
from simulator.models.layers import Layer
from simulator.models.optimisers import Optimiser
from simulator.models.precision import NUMBER_BYTES
from simulator.records import Record
from simulator.traces.readers.kineto.clock import Gradient
from simulator.traces.readers.kineto.reader import (
    CollectiveKernel,
    KinetoTrace,
    match_collectives,
    read_kineto,
    recognise_optimiser,
    travels_in,
)
from simulator.traces.readers.kineto.steps import (
    AHEAD,
    LayerTimes,
    StepSummary,
    between_ready,
    choose_steps,
    summarise_steps,
)

_LAYERS = ("name", "numel", "forward_s", "backward_s")
_HOST = ("forward_host_s", "backward_host_s")
_READY = ("iteration", "order", "node", "sequence", "numel", "ready_s", "forward_s")
_COLLECTIVES = ("collective", "nbytes", "workers", "time_s", "start_s", "kernel", "itemsize", "stream")
_NODE = re.compile(r"(?:Backward)?\d*$")


class RankProfile(Record):
    """One rank's file: what was read, the steps that count (None: it names none), and its whole backward passes."""

    file: Path
    trace: KinetoTrace
    summary: StepSummary | None
    passes: list[list[Gradient]]

    @property
    def micro_batches(self) -> int:
        """Backward passes of a step; 1 where the file names no steps."""
        return 1 if self.summary is None else self.summary.passes

    @property
    def optimiser(self) -> Optimiser | None:
        """The optimiser that the steps show; None where it is not known."""
        if self.summary is None:
            return None
        numels = [item.numel for item in self.passes[0]]
        return recognise_optimiser(self.trace.optimiser, self.summary.optimiser_kernels, numels)

    @property
    def layers(self) -> LayerTimes:
        """Medians of the layers over the steps that count, or over all passes where no steps are named."""
        if self.summary is not None:
            return self.summary.layers
        times = [[(item.forward, item.ready) for item in found] for found in self.passes]
        return between_ready(np.median(times, axis=0).T)  # nothing tells the host's share


class KinetoImport(Record):
    """The profiles of all ranks, the one that stands for all of them, and the collectives of the job."""

    ranks: tuple[RankProfile, ...]
    chosen: RankProfile
    collectives: Sequence[CollectiveKernel]
    matched: bool


def import_kineto(files: Sequence[Path], out: Path, batch_size: int, steps: str = "") -> KinetoImport:
    """Write the workload of a trace, or of one for each rank of a job, to folder `out`, and two more tables.

    `workload.yaml` with `layers.csv` is that of the rank whose compute is the median. `layers.csv` holds the tensors in
    forward order with medians over the steps of `choose_steps`; `backward_s` is the time since the previous gradient
    was ready, without the time in which the GPU waited for launches; the host's times stand in columns of their own.
    `compute_time` is the wall time of a step without `input_time`, for which the GPU waits for data, and without
    exposed collectives; `optimiser` is the one whose kernels it launches; `update_time` is what the layers leave of
    `compute_time`. Where a step has several passes, they are its `micro_batches`, and all times those of the whole
    batch in one pass, from which those of the passes follow. A trace without steps has times of the layers only, over
    all passes but the first.

    `gradient_ready.csv` holds every gradient of every pass of that rank, `collectives.csv` every NCCL kernel,
    of several ranks as `match_collectives` says. Raises InputError where a trace has no gradients or does not state
    their sizes, where there is no such step, and for a batch that cannot be cut into the passes of a step.
    """
    ranks = tuple(_read_profile(file, steps) for file in files)
    sizes = [[item.numel for item in rank.passes[0]] for rank in ranks]
    for rank, found in zip(ranks, sizes, strict=True):
        if found != sizes[0]:
            what, got = f"the gradients of {files[0]}, a rank of the same job", f"{len(found)} of other sizes"
            raise InputError(Problem(str(rank.file), what, got))
    first: dict[int | Path, Path] = {}
    for rank in ranks:
        number = rank.file.resolve() if rank.trace.rank is None else rank.trace.rank
        if number in first:
            raise InputError(Problem(str(rank.file), "another rank of the job", f"that of {first[number]} again"))
        first[number] = rank.file
    timed = sorted(ranks, key=lambda rank: rank.summary.compute if rank.summary is not None else 0.0)
    chosen = timed[(len(ranks) - 1) // 2] if all(rank.summary is not None for rank in ranks) else ranks[0]
    if batch_size % chosen.micro_batches:
        hint = "it counts the samples of a whole step, in all of its passes"
        what = f"a multiple of {chosen.micro_batches}, the passes of a step of {chosen.file}"
        raise InputError(Problem("--batch-size", what, str(batch_size), hint))
    own = [rank.trace.collectives for rank in ranks]
    matched = match_collectives(own) if len(ranks) > 1 else None
    collectives = matched if matched is not None else list(chain.from_iterable(own))
    _write_layers(out, chosen)
    ready = (
        (iteration, order, each.name, each.node.sequence, each.numel, _rounded(each.ready), _rounded(each.forward))
        for iteration, found in enumerate(chosen.trace.passes)
        for order, each in enumerate(found)
    )
    write_rows(out / "gradient_ready.csv", _READY, ready)
    kernels = (
        (k.collective, k.nbytes, k.workers, _rounded(k.seconds), k.start, k.kernel)
        + (k.itemsize or "", k.stream if k.stream >= 0 else "")
        + (() if k.waited is None else (_rounded(k.waited),))
        for k in collectives
    )
    write_rows(out / "collectives.csv", _COLLECTIVES if matched is None else (*_COLLECTIVES, "waited_s"), kernels)
    write_yaml(out / "workload.yaml", _about(chosen, batch_size))
    return KinetoImport(ranks, chosen, collectives, matched is not None)


def _read_profile(file: Path, steps: str) -> RankProfile:
    trace = read_kineto(file)
    passes = _complete_passes(trace.passes)
    if not passes:
        raise InputError([*trace.problems, Problem(str(file), "a backward pass with gradients", "none")])
    if not all(item.numel for item in passes[0]):
        hint = "record with record_shapes=True"
        raise InputError(Problem(str(file), "the sizes of the gradients", "a trace without shapes", hint))
    chosen = choose_steps(trace.steps, steps, file.name)
    summary = summarise_steps(trace.steps, chosen) if chosen else None
    if summary is not None and summary.layers.shape[1] != len(passes[0]):
        summary = None  # the steps hold other passes than most of the trace
    return RankProfile(file, trace, summary, passes)


def _about(profile: RankProfile, batch_size: int) -> Mapping[str, Any]:
    file, summary = profile.file, profile.summary
    made_in, travels = profile.trace.gradients_in, travels_in(profile.trace.collectives)
    layers = [Layer(name="", numel=item.numel) for item in reversed(profile.passes[0])]
    groups = fuse(layers, DDP_LIMITS, NUMBER_BYTES[made_in or "fp32"])
    buckets = [sum(layers[place].numel for place in group) for group in groups]
    over = f"{len(profile.passes)} backward passes"
    times: dict[str, Any] = {}
    if summary is not None:
        over = f"steps {', '.join(map(str, summary.used))}"
        if summary.passes > 1:
            over += f" of {summary.passes} passes each"
            times["micro_batches"] = summary.passes
        if summary.compute > summary.rest:
            times["compute_time"] = f"{_rounded(summary.compute_at_once)!r} s"
        times |= {"input_time": f"{_rounded(summary.data)!r} s", "update_time": f"{_rounded(summary.rest)!r} s"}
        times["host_ahead"] = not summary.waits
    if (optimiser := profile.optimiser) is not None:
        times["optimiser"] = optimiser.model_dump(include={"kind", "implementation", "weight_decay"})
    precision: dict[str, Any] = {}
    if made_in is not None:  # it is also that of the times
        narrower = travels is not None and NUMBER_BYTES[travels] < NUMBER_BYTES[made_in]
        precision["precision"] = {"gradients": made_in, "travels": travels} if narrower else made_in
        precision["measured_precision"] = made_in
    return {
        "name": file.name.split(".")[0],
        "batch_size": batch_size,
        **precision,
        "device": profile.trace.device,
        "source": f"{file.name}, medians over {over}; DDP would make buckets of {buckets} elements",
        **times,
        "layers": "layers.csv",
    }


def _write_layers(out: Path, profile: RankProfile) -> None:
    gradients, heading = profile.passes[0], _LAYERS if profile.summary is None else (*_LAYERS, *_HOST)
    rows = (
        (
            f"{place:03d}.{_NODE.sub('', gradients[i].name)}",
            gradients[i].numel,
            *map(_rounded, profile.layers[: len(heading) - 2, i]),
        )
        for place, i in enumerate(reversed(range(len(gradients))))
    )
    write_rows(out / "layers.csv", heading, rows)


def _complete_passes(passes: list[list[Gradient]]) -> list[list[Gradient]]:
    """The passes with the most frequent number of gradients, without the first where there are three or more."""
    lengths = [len(found) for found in passes]
    usual = max(set(lengths), key=lengths.count, default=0)
    alike = [found for found in passes if len(found) == usual]
    return alike[1:] if len(alike) > 2 else alike


def _rounded(seconds: float) -> float:
    """Seconds to the nanosecond, as a trace has them."""
    return round(float(seconds), 9)


HOST_BOUND = 0.05
"""Share of a step for which the GPU may wait for launches before the report calls the profile host-bound."""
PADDING = 0.25
"""Share by which parts of a sharded job may be larger than an equal one before they count as whole gradients."""
LOADING = 0.05
"""Share of a step for which the GPU may wait for data before the report warns."""


def report_of(made: KinetoImport) -> Mapping[str, Any]:
    """Plain data about the steps that were used: seconds of a step, shares of it, collectives and warnings."""
    trace, summary = made.chosen.trace, made.chosen.summary
    document: dict[str, Any] = {"file": str(made.chosen.file), "device": trace.device, "workers": trace.workers}
    if len(made.ranks) > 1:
        document["ranks"] = [
            {"file": str(rank.file), **{key: value for key, value in _figures(rank).items() if key in _OF_RANK}}
            for rank in made.ranks
        ]
    steps = summary.found if summary is not None else ()
    said = {"collectives": _collectives(made, steps), "warnings": _warnings(made, summary)}
    return {**document, **_figures(made.chosen), **said}


_OF_RANK = ("step_s", "compute_s", "gpu_use", "host_bound", "data_loading_s", "exposed_collectives_s")


def _figures(profile: RankProfile) -> Mapping[str, Any]:
    """What a report says of the steps of a rank; nothing where its file names none."""
    summary = profile.summary
    if summary is None:
        return {}
    forward, backward, forward_host, backward_host = map(sum, summary.layers.tolist())
    queued = summary.queued + summary.update
    return {
        "steps_found": list(summary.found),
        "steps_used": list(summary.used),
        "step_s": summary.step,
        "wall_s": summary.wall,
        "gpu_span_s": summary.span,
        "gpu_use": summary.working / summary.step,
        "host_bound": summary.host / summary.step,
        "data_loading_s": summary.data,
        "exposed_collectives_s": summary.exposed,
        "compute_s": summary.compute,
        "forward_gpu_s": forward,
        "forward_host_s": forward_host,
        "backward_gpu_s": backward,
        "backward_host_s": backward_host,
        "optimiser_gpu_s": summary.optimiser,
        "optimiser_host_s": summary.optimiser_host,
        "optimiser": _described(profile),
        "optimiser_kernels": summary.optimiser_kernels,
        "update_s": summary.update,
        "rest_s": summary.rest,
        "host_waits": summary.waits,
        "compute_from_layers_s": queued,
        "compute_from_layers_error": queued / summary.compute - 1 if summary.compute > 0 else None,
    }


def _described(profile: RankProfile) -> str:
    known, name = profile.optimiser, profile.trace.optimiser
    if known is None:
        return f"{name}, whose implementation is not known" if name else ""
    return f"{known.kind} {known.implementation}" + (" with weight decay" if known.weight_decay else "")


def _collectives(made: KinetoImport, steps: Sequence[int]) -> list[Mapping[str, Any]]:
    """Collectives of one kind, size, type and stream: how many, also in one of the steps, and in how many seconds; in
    the order of their first."""
    key = attrgetter("collective", "nbytes", "itemsize", "workers", "stream")
    return [
        {
            "collective": kind,
            "nbytes": nbytes or None,
            "itemsize": itemsize or None,
            "workers": workers,
            "stream": stream if stream >= 0 else None,
            "count": len(alike),
            "per_step": sum(item.step in steps for item in alike) / len(steps) if steps else None,
            "mean_s": sum(item.seconds for item in alike) / len(alike),
            "waited_s": sum(item.waited or 0.0 for item in alike) / len(alike) if made.matched else None,
        }
        for (kind, nbytes, itemsize, workers, stream), alike in group_by(made.collectives, key).items()
    ]


def _sharded(made: KinetoImport) -> list[str]:
    """What gathers and scatters of a sharded job mean for a workload, which has the gradients of one rank whole."""
    sums = [item for item in made.collectives if item.collective == "reduce_scatter" and item.itemsize]
    gathers = sum(item.nbytes for item in made.collectives if item.collective == "all_gather")
    if not sums or not gathers:
        return []
    held = sum(item.numel for item in made.chosen.passes[0])
    scattered = sum(item.nbytes // item.itemsize for item in sums) / len(made.chosen.trace.passes)
    workers = max(item.workers for item in sums)
    text = (
        f"the job is sharded (FSDP or ZeRO): its all-gathers have {gathers:,} B in all, its reduce-scatters"
        f" {scattered:,.0f} elements a pass; set `scheduler` to `fsdp`"
    )
    if workers > 1 and held < (1 + PADDING) * scattered / workers:
        text += f", and times {workers} the sizes of layers.csv, {held:,} elements, which are those of one rank's part"
    return [text]


def _warnings(made: KinetoImport, summary: StepSummary | None) -> list[str]:
    trace, said = made.chosen.trace, list[str]()
    if trace.gradients_in is None:
        said.append("the trace does not state the type of its gradients: they count as fp32 (4 B); give `precision`")
    if trace.settings:
        said.append(f"it was recorded with {' and '.join(trace.settings)}, which slows the host down: profile without")
    said += _sharded(made)
    if summary is None:
        none = "the trace has no steps with whole backward passes, so that the time of an iteration is not known:"
        return [f"{none} call prof.step() after every iteration", *said]
    use, host, data = (part / summary.step for part in (summary.working, summary.host, summary.data))
    if host > HOST_BOUND:
        said.append(
            f"the profile is host-bound: the GPU works {100 * use:.0f} % of the step and waits {100 * host:.0f} % of it"
            " for launches; a faster GPU would not shorten these, and the profiler itself slows the host down: measure"
            " a step without it, and correct compute_time"
        )
    if data > LOADING:
        said.append(
            f"the GPU waits {100 * data:.0f} % of the step for data: input_time holds it apart from compute_time"
        )
    if summary.span > (1 + AHEAD) * summary.wall:
        said.append(
            "the host ran ahead of the GPU in these steps, so that their wall time is too short: the GPU's time is"
            " used; profile more steps"
        )
    if len(summary.used) < 3:
        said.append(f"medians over {len(summary.used)} of {len(summary.found)} steps: profile five or more")
    if len(made.ranks) > 1 and not made.matched:
        said.append("the ranks took part in different collectives: their times include the wait for the last rank")
    return said
