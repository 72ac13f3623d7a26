"""What one worker keeps in the memory of its GPU, part by part, with the formula of each.

With Adam in mixed precision the parameters, gradients and states are 16 bytes per parameter (Rajbhandari, Rasley,
Ruwase and He, ZeRO, SC 2020, section 3.1): 2 + 2 for weights and gradients in 16 bits, 4 for fp32 weights, 4 + 4 for
the two averages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from simulator.answers import Answer, in_json, says
from simulator.architectures.describing import Origin, description_of
from simulator.engine.plan.setup import DividedModel
from simulator.models.layers import Workload
from simulator.models.operators import WHOLE
from simulator.models.optimisers import STATE_BYTES, Optimiser
from simulator.models.precision import FP32_BYTES, NUMBER_BYTES
from simulator.schedulers.local_steps import LocalSteps
from simulator.sparsifiers.base import Sparsifier
from simulator.units import show_memory

CONTEXT = 0.5e9
"""Bytes that CUDA and its libraries take before the first tensor. Assumed from reports of users: 300 and 400 MB since
kernels are loaded when they are needed (CUDA 11.7; pytorch issues 107667 and 109888), 300 to 400 MB (issue 20532, V100,
2019), 200 to 700 MB (issue 28113), 1,007 MB (issue 28394, Titan V, PyTorch 1.3)."""
LEAST_CONTEXT, MOST_CONTEXT = 0.2e9, 1.2e9
"""The range of these reports. Its upper end has room for NCCL's buffers, 4 MiB for each channel and peer
(NCCL_BUFFSIZE)."""


class MemoryPart(Answer, rename=in_json(size=("least", "most"), nbytes="bytes")):
    """A part of the memory of a worker, and how its size follows; what is not known is left out of all sums."""

    name: Annotated[str, says("a part of the memory")]
    nbytes: Annotated[float | None, says("its size; null where it is not known", "B")]
    least: Annotated[float, says("the least that it may be", "B")]
    most: Annotated[float, says("the most that it may be", "B")]
    how: Annotated[str, says("how it is computed")]


PART_LABELS = {
    "parameters": "parameters",
    "cast_weights": "16-bit copies of the weights",
    "master_weights": "fp32 copies of the weights",
    "optimiser": "states of the optimiser",
    "running_average": "running average of the weights",
    "gradients": "gradients",
    "buckets": "buckets",
    "outer": "outer parameters and their optimiser",
    "method": "state of the method",
    "work_space": "work space of the method",
    "exchange": "payloads of the exchange",
    "activations": "activations",
    "working": "working memory of the backward pass",
    "update": "work space of the update",
    "framework": "CUDA and its libraries",
    "gathered": "gathered parameters",
    "reduced": "gradients that are being reduced",
}
"""Every part by its name, in the order of the document, with what tables call it."""


def exact(name: str, nbytes: float, how: str) -> MemoryPart:
    """A part that follows from what the scenario states."""
    return MemoryPart(name, nbytes, nbytes, nbytes, how)


def model_parts(workload: Workload) -> Iterator[MemoryPart]:
    """Parameters, gradients and what the optimiser keeps of them."""
    precision, numel = workload.precision, workload.numel
    width, made = precision.gradient_bytes, precision.gradients
    frozen, how = workload.not_trained, f"{width} B ({made}) for each of {numel:,} parameters"
    how += f", and {show_memory(frozen)} that are not trained" if frozen else ""
    yield exact("parameters", width * numel + frozen, how)
    if precision.has_master_weights:
        yield exact("master_weights", FP32_BYTES * numel, "4 B per parameter, which the optimiser works on")
    yield _states(workload)
    if workload.optimiser.average is not None:
        averaged = STATE_BYTES * workload.optimiser.average.numel
        yield exact("running_average", averaged, "4 B for each averaged element")
    yield exact("gradients", width * numel, f"{width} B ({made}) per parameter")


def cast_parts(workload: Workload) -> Iterator[MemoryPart]:
    """What automatic mixed precision keeps of weights that every GPU has whole; of others what is gathered is cast."""
    if workload.precision.gradients == "fp32" and workload.measured_precision != "fp32":
        how = "2 B per parameter: torch.autocast keeps the weights that it has cast until the backward pass has ended"
        yield MemoryPart("cast_weights", 2.0 * workload.numel, 0.0, 2.0 * workload.numel, how)


def state_bytes(workload: Workload, optimiser: Optimiser) -> float:
    """Bytes of the averages that an optimiser keeps: fp32 beside fp32 weights, otherwise in the format of these."""
    width = STATE_BYTES if workload.precision.has_master_weights else workload.precision.gradient_bytes
    return float(width * optimiser.states * workload.numel)


def _states(workload: Workload) -> MemoryPart:
    """The averages of the optimiser; of one that is not stated, from none to two."""
    ends = [state_bytes(workload, item) for item in workload.optimisers]
    count = workload.optimiser.states
    how = f"{workload.optimiser.kind}: {count} value{'' if count == 1 else 's'} per parameter"
    how += "" if len(ends) == 1 else "; assumed, since the workload states no optimiser"
    return MemoryPart("optimiser", state_bytes(workload, workload.optimiser), min(ends), max(ends), how)


def method_parts(workload: Workload, method: Sparsifier, buckets: list[tuple[int, ...]]) -> Iterator[MemoryPart]:
    """What a method keeps of the gradients of each of `buckets`, and a copy of what it selects from at a time."""
    width = NUMBER_BYTES[workload.precision.residuals]
    values = sum(method.state_values(pieces) for pieces in buckets)
    per_parameter = values / workload.numel
    how = f"{method.kind} keeps {per_parameter:.3g} x {width} B per parameter: residuals, momentum or factors"
    if values:
        yield exact("method", width * values, how)
    if method.has_residual:
        by_tensor = getattr(method, "granularity", "layer") == "layer"
        largest = max(max(pieces) if by_tensor else sum(pieces) for pieces in buckets)
        unit = "tensor" if by_tensor else "bucket"
        how = f"a copy of the largest {unit}, {largest:,} elements, to select from; assumed, none to two"
        yield MemoryPart("work_space", float(width * largest), 0.0, 2.0 * width * largest, how)


def outer_parts(workload: Workload, scheduler: LocalSteps, differences: bool) -> Iterator[MemoryPart]:
    """What local steps keep: the parameters of the last exchange and the states of the outer optimiser, in fp32.

    Offloaded, they lie in the host's memory, and on the GPU only those of the largest fragment while it is exchanged.
    """
    copies = (scheduler.copies if differences else 0) + (scheduler.outer.states if scheduler.outer else 0)
    if not copies:
        return
    numels = [sum(workload.layers[layer].numel for layer in part) for part in scheduler.parts(workload.layers)]
    on_host = scheduler.host_bandwidth is not None
    held = max(numels) if on_host else sum(numels)
    where = "of the largest fragment, the others in the host's memory" if on_host else "each"
    yield exact("outer", float(STATE_BYTES * copies * held), f"{copies} x 4 B per parameter, {where}")


def activation_part(workload: Workload) -> MemoryPart:
    """What the samples of one pass keep from their forward to their backward pass."""
    if workload.activation_bytes is None:
        return MemoryPart("activations", None, 0.0, 0.0, "not known: the workload does not state `activation_bytes`")
    samples = f"{workload.pass_size:,} sample{'' if workload.pass_size == 1 else 's'} of a pass"
    return exact("activations", workload.activation_bytes * workload.pass_size, f"`activation_bytes` of {samples}")


def working_parts(workload: Workload, divided: DividedModel | None) -> Iterator[MemoryPart]:
    """What the backward pass of a described model needs beside the activations that are kept, at its largest.

    It begins with the gradients of the loss, of which one that is fused or in chunks has less. Later a block that makes
    activations again has them, when those of what stands behind it in the same chunk are free. Nothing is known where
    `activation_bytes` are stated, which may be those of the peak.
    """
    origin: Origin | None = workload.origin
    if origin is None or "activation_bytes" in origin.stated:
        return
    split = WHOLE if divided is None else divided.parallelism.split
    tensors = description_of(origin.architecture, workload.pass_size, workload.precision, split).tensors
    chunks = dict.fromkeys(range(len(tensors)), 0)
    if divided is not None:
        chunks = {layer: int(divided.chunk[layer]) for layer in divided.mine.tolist()}
    behind, again = dict.fromkeys(chunks.values(), 0.0), 0.0
    for layer in sorted(chunks, reverse=True):
        again = max(again, tensors[layer].again - behind[chunks[layer]])
        behind[chunks[layer]] += tensors[layer].kept
    most = max(again, *(tensors[layer].loss for layer in chunks))
    if most:
        parts = ["gradients of the loss, less where it is fused or in chunks"] * (most > again)
        parts += [f"{show_memory(again)} that a block makes again"] * (again > 0)
        yield MemoryPart("working", most, again, most, "; at least ".join(parts))


def update_parts(workload: Workload, freed: float) -> Iterator[MemoryPart]:
    """The temporaries of the optimiser beyond what the passes have `freed` by then.

    On lists of tensors a temporary is as large as all parameters together (torch.optim: the foreach implementation uses
    about that much more memory at its peak); tensor by tensor it is as large as the largest.
    """
    if not any("t" in item.writes for item in workload.optimiser.passes):
        return
    width = STATE_BYTES if workload.precision.has_master_weights else workload.precision.gradient_bytes
    whole = workload.optimiser.implementation == "foreach"
    nbytes = width * (workload.numel if whole else max(layer.numel for layer in workload.layers))
    beyond = max(0.0, nbytes - freed)
    of = "all parameters" if whole else "the largest tensor"
    known = beyond if "optimiser" in workload.model_fields_set else 0.0
    yield MemoryPart("update", beyond, known, beyond, f"a temporary of {of}, beyond what the activations leave free")


FRAMEWORK = MemoryPart("framework", CONTEXT, LEAST_CONTEXT, MOST_CONTEXT, "assumed, from reports of users of PyTorch")
