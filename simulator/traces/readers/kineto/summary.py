"""What the import of a profile reports: steps, the parts of a step, and what one has to know to use it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from simulator.traces.readers.kineto.reader import KinetoTrace
from simulator.traces.readers.kineto.steps import AHEAD, StepSummary
from simulator.traces.readers.kineto.workload import KinetoImport, RankProfile

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
        document["ranks"] = [_rank(rank) for rank in made.ranks]
    if summary is None:
        document["warnings"] = [
            "the trace has no steps with one backward pass each, so that the time of an iteration is not known:"
            " call prof.step() after every iteration",
            *_unstated(trace),
            *_sharded(made),
        ]
        return document | {"collectives": _collectives(made, 0)}
    layers = summary.layers
    queued = summary.queued + summary.update
    return document | {
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
        "forward_gpu_s": sum(layers.forward),
        "forward_host_s": sum(layers.forward_host),
        "backward_gpu_s": sum(layers.backward),
        "backward_host_s": sum(layers.backward_host),
        "optimiser_gpu_s": summary.optimiser,
        "optimiser_host_s": summary.optimiser_host,
        "optimiser": _described(made.chosen),
        "optimiser_kernels": summary.optimiser_kernels,
        "update_s": summary.update,
        "rest_s": summary.rest,
        "host_waits": summary.waits,
        "compute_from_layers_s": queued,
        "compute_from_layers_error": queued / summary.compute - 1 if summary.compute > 0 else None,
        "collectives": _collectives(made, len(summary.found)),
        "warnings": _warnings(made, summary),
    }


def _described(profile: RankProfile) -> str:
    known, name = profile.optimiser, profile.trace.optimiser
    if known is None:
        return f"{name}, whose implementation is not known" if name else ""
    return f"{known.kind} {known.implementation}" + (" with weight decay" if known.weight_decay else "")


def _rank(profile: RankProfile) -> Mapping[str, Any]:
    summary = profile.summary
    row: dict[str, Any] = {"file": str(profile.file)}
    if summary is None:
        return row
    return row | {
        "step_s": summary.step,
        "compute_s": summary.compute,
        "gpu_use": summary.working / summary.step,
        "host_bound": summary.host / summary.step,
        "data_loading_s": summary.data,
        "exposed_collectives_s": summary.exposed,
    }


def _collectives(made: KinetoImport, steps: int) -> list[Mapping[str, Any]]:
    """Collectives of one kind, size, type and stream: how many, in how many seconds; in the order of their first."""
    groups: dict[tuple[str, int, int, int, int], list[tuple[float, float]]] = defaultdict(list)
    kernels, waited = made.collectives.kernels, made.collectives.waited
    for item, wait in zip(kernels, waited or [0.0] * len(kernels), strict=True):
        groups[item.collective, item.nbytes, item.itemsize, item.workers, item.stream].append((item.seconds, wait))
    return [
        {
            "collective": kind,
            "nbytes": nbytes or None,
            "itemsize": itemsize or None,
            "workers": workers,
            "stream": stream,
            "count": len(times),
            "per_step": len(times) / steps if steps else None,
            "mean_s": sum(seconds for seconds, _ in times) / len(times),
            "waited_s": None if waited is None else sum(wait for _, wait in times) / len(times),
        }
        for (kind, nbytes, itemsize, workers, stream), times in groups.items()
    ]


def _unstated(trace: KinetoTrace) -> list[str]:
    """What the trace leaves open, and settings of the profiler that its times do not allow for."""
    said = []
    if trace.gradients_in is None:
        said.append("the trace does not state the type of its gradients: they count as fp32 (4 B); give `precision`")
    if trace.settings:
        said.append(f"it was recorded with {' and '.join(trace.settings)}, which slows the host down: profile without")
    return said


def _sharded(made: KinetoImport) -> list[str]:
    """What gathers and scatters of a sharded job mean for a workload, which has the gradients of one rank whole."""
    sums = [item for item in made.collectives.kernels if item.collective == "reduce_scatter" and item.itemsize]
    gathers = sum(item.nbytes for item in made.collectives.kernels if item.collective == "all_gather")
    if not sums or not gathers:
        return []
    held = sum(item.numel for item in made.chosen.passes[0])
    scattered = sum(item.nbytes // item.itemsize for item in sums) / len(
        {i.iteration for i in made.chosen.trace.gradients}
    )
    workers = max(item.workers for item in sums)
    text = (
        f"the job is sharded (FSDP or ZeRO): its all-gathers have {gathers:,} B in all, its reduce-scatters"
        f" {scattered:,.0f} elements a pass; set `scheduler` to `fsdp`"
    )
    if workers > 1 and held < (1 + PADDING) * scattered / workers:
        text += f", and times {workers} the sizes of layers.csv, {held:,} elements, which are those of one rank's part"
    return [text]


def _warnings(made: KinetoImport, summary: StepSummary) -> list[str]:
    use, host, data = (part / summary.step for part in (summary.working, summary.host, summary.data))
    said = [*_unstated(made.chosen.trace), *_sharded(made)]
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
    if len(made.ranks) > 1 and made.collectives.waited is None:
        said.append("the ranks took part in different collectives: their times include the wait for the last rank")
    return said
