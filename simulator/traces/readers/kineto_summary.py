"""What the import of a profile reports: steps, the parts of a step, and what one has to know to use it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from simulator.models.layers import Layer, Workload
from simulator.traces.readers.kineto import KinetoTrace
from simulator.traces.readers.kineto_choice import AHEAD, Summary
from simulator.traces.readers.kineto_workload import KinetoImport

HOST_BOUND = 0.05
"""Share of a step for which the GPU may wait for launches before the report calls the profile host-bound."""
LOADING = 0.05
"""Share of a step for which the GPU may wait for data before the report warns."""


def report_of(made: KinetoImport) -> dict[str, Any]:
    """Plain data about the steps that were used: seconds of a step, shares of it, collectives and warnings."""
    summary = made.summary
    document: dict[str, Any] = {"device": made.trace.device, "workers": made.trace.workers}
    if summary is None:
        document["warnings"] = [
            "the trace has no steps with one backward pass each, so that the time of an iteration is not known:"
            " call prof.step() after every iteration"
        ]
        return document | {"collectives": _collectives(made.trace, 0)}
    layers = summary.layers
    queued = queued_time(made, summary)
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
        "update_s": summary.update,
        "host_waits": summary.waits,
        "compute_from_layers_s": queued,
        "compute_from_layers_error": queued / summary.compute - 1 if summary.compute > 0 else None,
        "collectives": _collectives(made.trace, len(summary.found)),
        "warnings": _warnings(summary),
    }


def queued_time(made: KinetoImport, summary: Summary) -> float:
    """Seconds of one GPU's iteration as the layers alone give it: host and GPU as two clocks, then the update."""
    layers = summary.layers
    columns = (layers.forward, layers.backward, layers.forward_host, layers.backward_host)
    tensors = tuple(
        Layer.model_construct(
            name=str(place), numel=1, forward=times[0], backward=times[1], forward_host=times[2], backward_host=times[3]
        )
        for place, times in enumerate(reversed(list(zip(*columns, strict=True))))
    )
    queued = Workload.model_construct(batch_size=1, host_ahead=not summary.waits, layers=tensors).queued()
    return queued.forward_time + queued.backward_time + summary.update


def _collectives(trace: KinetoTrace, steps: int) -> list[dict[str, Any]]:
    """Collectives of one kind, size, type and stream: how many, in how many seconds; in the order of their first."""
    groups: dict[tuple[str, int, int, int, int], list[float]] = defaultdict(list)
    for item in trace.collectives:
        groups[item.collective, item.nbytes, item.itemsize, item.workers, item.stream].append(item.seconds)
    return [
        {
            "collective": kind,
            "nbytes": nbytes or None,
            "itemsize": itemsize or None,
            "workers": workers,
            "stream": stream,
            "count": len(seconds),
            "per_step": len(seconds) / steps if steps else None,
            "mean_s": sum(seconds) / len(seconds),
        }
        for (kind, nbytes, itemsize, workers, stream), seconds in groups.items()
    ]


def _warnings(summary: Summary) -> list[str]:
    use, host, data = (part / summary.step for part in (summary.working, summary.host, summary.data))
    made = []
    if host > HOST_BOUND:
        made.append(
            f"the profile is host-bound: the GPU works {use:.0%} of the step and waits {host:.0%} of it for launches;"
            " a faster GPU would not shorten these, and the profiler itself slows the host down: measure a step without"
            " it, and correct compute_time"
        )
    if data > LOADING:
        made.append(f"the GPU waits {data:.0%} of the step for data: input_time holds it apart from compute_time")
    if summary.span > (1 + AHEAD) * summary.wall:
        made.append(
            "the host ran ahead of the GPU in these steps, so that their wall time is too short: the GPU's time is"
            " used; profile more steps"
        )
    if len(summary.used) < 3:
        made.append(f"medians over {len(summary.used)} of {len(summary.found)} steps: profile five or more")
    return made
