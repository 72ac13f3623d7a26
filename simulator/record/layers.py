"""The layers of a model: when each starts in the forward pass, and when its gradient is ready in the backward pass."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from simulator.errors import InputError, Problem
from simulator.files import write_text, write_yaml
from simulator.models.layers import Layer
from simulator.models.precision import NUMBER_BYTES, NumberFormat
from simulator.record.environment import environment
from simulator.record.kernels import DTYPES
from simulator.record.models import batch_size_of, trainable_parameters
from simulator.record.own_model import OwnModel
from simulator.record.timing import Gaps, clock_of, mark_hooks, median_gaps, median_total, time_layers
from simulator.records import Record

LEARNING_RATE, MOMENTUM = 0.0, 0.9
"""Of the step that is timed: the optimiser does all of its work, but the model does not change."""


class LayerProfile(Record):
    """Measured times in seconds, as medians over `repeats` steps.

    `layers`: tensors in the reverse of the order in which their gradients become ready, which is the order of the
    forward pass. A tensor's backward is the time from the previous ready gradient (the loss, for the first one) to its
    own; its forward the time from the start of its module to the start of the next one, shared among the
    module's own tensors by their elements. `step`: a whole step without any hook: forward, backward and update by SGD
    with momentum. `idle`: tensors without a gradient, which are left out. `precision`: format of the gradients, that of
    most elements where they differ.
    """

    layers: tuple[Layer, ...]
    forward: float
    backward: float
    step: float
    batch_size: int
    repeats: int
    idle: tuple[str, ...] = ()
    precision: NumberFormat = "fp32"


def profile(task: OwnModel, device: str, repeats: int = 30, warm_up: int = 5) -> LayerProfile:
    """Time `repeats` steps on one batch, each without hooks and then with them.

    Raises InputError where no gradient is computed.
    """
    clock, parameters = clock_of(device), trainable_parameters(task.model)
    batch = next(task.inputs)
    optimiser = torch.optim.SGD(list(parameters.values()), LEARNING_RATE, MOMENTUM)
    whole: list[float] = []
    steps: list[tuple[Gaps, Gaps]] = []
    for number in range(warm_up + repeats):
        clock.settle()
        begin = clock.mark()
        optimiser.zero_grad()
        task.loss(task.model, batch).backward()
        optimiser.step()
        end = clock.mark()
        clock.settle()
        with mark_hooks(task.model, parameters, clock.mark) as marks:
            optimiser.zero_grad()
            clock.settle()
            start = clock.mark()
            loss = task.loss(task.model, batch)
            between = clock.mark()
            loss.backward()
            clock.settle()
        if not marks.backward:
            raise InputError(Problem(task.name, "a loss with gradients", "none reached a parameter"))
        if number >= warm_up:
            whole.append(clock.seconds(begin, end))
            steps.append(marks.gaps(start, between, clock))
    forward, backward = zip(*steps, strict=True)
    gaps = median_gaps(backward)
    kept = [(name, parameters[name]) for name in reversed(gaps)]
    layers = [Layer(name=name, numel=item.numel(), shape=tuple(item.shape)) for name, item in kept]
    numels = Counter[Any]()
    for name in gaps:
        numels[parameters[name].dtype] += parameters[name].numel()
    idle = tuple(name for name in parameters if name not in gaps)
    return LayerProfile(
        layers=tuple(time_layers(layers, steps)),
        forward=median_total(forward),
        backward=median_total(backward),
        step=statistics.median(whole),
        batch_size=batch_size_of(batch),
        repeats=repeats,
        idle=idle,
        precision=max(NUMBER_BYTES, key=lambda name: numels[DTYPES[name]]),
    )


def write_workload(folder: Path, name: str, task: str, made: LayerProfile, device: str) -> Path:
    """Write `NAME.yaml` and `NAME.layers.csv`, which a scenario can name as its workload.

    Returns the path of the first. Raises InputError where the folder can't be written.
    """
    rows = ["name,numel,forward_s,backward_s,ready_s,shape"]
    moments = list(itertools.accumulate(layer.backward for layer in reversed(made.layers)))
    for layer, ready in zip(made.layers, reversed(moments), strict=True):
        shape = "x".join(map(str, layer.shape))
        rows.append(f"{layer.name},{layer.numel},{layer.forward:.6g},{layer.backward:.6g},{ready:.6g},{shape}")
    place = environment(device)
    software = f"PyTorch {place.pytorch}"
    if place.cuda:
        software += f", CUDA {place.cuda}, driver {place.driver}"
    source = (
        f"Measured by `sparsim record layers {task}` on {place.date} with {software}; clocks: {place.clock_policy}."
        f" Medians of {made.repeats} steps on one batch: forward {made.forward:.6g} s, backward {made.backward:.6g} s"
        " until the last gradient is ready, by hooks; compute_time without hooks, with an update by SGD with momentum."
        " Tensors stand in the reverse order of their gradients becoming ready."
    )
    if made.idle:
        source += f" No gradient reached {', '.join(made.idle)}, which are left out."
    document = {
        "name": name,
        "batch_size": made.batch_size,
        "device": place.device,
        "source": source,
        "compute_time": f"{made.step:.6g} s",
        "layers": f"{name}.layers.csv",
    }
    if made.precision != "fp32":
        # The optimiser's step that was timed worked on the 16-bit weights themselves.
        plain = {"gradients": made.precision, "master_weights": False, "loss_scaling": False}
        document |= {"precision": plain, "measured_precision": made.precision}
    write_text(folder / f"{name}.layers.csv", "\n".join(rows) + "\n")
    write_yaml(folder / f"{name}.yaml", document)
    return folder / f"{name}.yaml"
