"""The layers of a model: when each starts in the forward pass, and when its gradient is ready in the backward pass."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import yaml

from simulator.errors import InputError, Problem
from simulator.models.layers import Layer
from simulator.models.precision import NUMBER_BYTES, NumberFormat
from simulator.record.environment import Environment
from simulator.record.kernels import DTYPES
from simulator.record.rows import write_whole
from simulator.record.tasks import Task, batch_size_of, trainable_parameters
from simulator.record.timing import Clock, clock_of

LEARNING_RATE, MOMENTUM = 0.0, 0.9
"""Of the step that is timed: the optimiser does all of its work, but the model does not change."""


@dataclass(frozen=True, slots=True)
class Profile:
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

    @property
    def ready(self) -> tuple[float, ...]:
        """Seconds from the start of backward until each tensor's gradient is ready."""
        backward = list(itertools.accumulate(layer.backward for layer in reversed(self.layers)))
        return tuple(reversed(backward))


@dataclass
class _Marks:
    """What started or became ready in one step, and when."""

    forward: list[tuple[str, Any]] = field(default_factory=list)
    backward: list[tuple[str, Any]] = field(default_factory=list)


@contextmanager
def _mark_hooks(model: Any, parameters: dict[str, Any], clock: Clock) -> Iterator[_Marks]:
    """Hooks that mark when modules with parameters of their own start, and when gradients are ready."""
    marks = _Marks()
    names = {id(parameter): name for name, parameter in parameters.items()}
    hooks: list[Any] = []

    def started(owner: str) -> Callable[..., None]:
        return lambda module, inputs: marks.forward.append((owner, clock.mark()))

    def ready(name: str) -> Callable[[Any], None]:
        return lambda parameter: marks.backward.append((name, clock.mark()))

    try:
        for path, module in model.named_modules():
            if any(id(parameter) in names for parameter in module.parameters(recurse=False)):
                hooks.append(module.register_forward_pre_hook(started(path)))
        for name, parameter in parameters.items():
            hooks.append(parameter.register_post_accumulate_grad_hook(ready(name)))
        yield marks
    finally:
        for hook in hooks:
            hook.remove()


def profile(task: Task, device: str, repeats: int = 30, warm_up: int = 5) -> Profile:
    """Time `repeats` steps on one batch, each without hooks and then with them.

    Raises InputError where no gradient is computed.
    """
    clock, parameters = clock_of(device), trainable_parameters(task.model)
    batch = next(task.batches)
    optimiser = torch.optim.SGD(list(parameters.values()), LEARNING_RATE, MOMENTUM)
    owners = _owners(task.model, parameters)
    steps: list[float] = []
    forward: list[tuple[float, dict[str, float]]] = []
    backward: list[tuple[float, dict[str, float]]] = []
    for number in range(warm_up + repeats):
        begin, end = _whole_step(task, batch, optimiser, clock)
        with _mark_hooks(task.model, parameters, clock) as marks:
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
            steps.append(clock.seconds(begin, end))
            forward.append(_gaps_from_starts(marks.forward, start, between, clock))
            backward.append(_gaps_to_ends(marks.backward, between, clock))
    gaps, forward_time, backward_time = _medians(backward), _total(forward), _total(backward)
    shares = _share_among_tensors(_medians(forward), owners, {name: parameters[name].numel() for name in gaps})
    scale = forward_time / (sum(shares.values()) or 1.0)
    layers = [
        Layer(name=name, numel=parameters[name].numel(), forward=scale * shares[name], backward=gaps[name])
        for name in reversed(gaps)
    ]
    idle = tuple(name for name in parameters if name not in gaps)
    size = batch_size_of(batch)
    return Profile(
        layers=tuple(layers),
        forward=forward_time,
        backward=backward_time,
        step=statistics.median(steps),
        batch_size=size,
        repeats=repeats,
        idle=idle,
        precision=_format_of([parameters[name] for name in gaps]),
    )


def _format_of(parameters: Sequence[Any]) -> NumberFormat:
    """The format of most elements; fp32 for formats that gradients are not sent in."""
    elements: dict[NumberFormat, int] = dict.fromkeys(NUMBER_BYTES, 0)
    for name in elements:
        elements[name] = sum(item.numel() for item in parameters if item.dtype == DTYPES[name])
    return max(elements, key=lambda name: elements[name])


def _whole_step(task: Task, batch: Any, optimiser: Any, clock: Clock) -> tuple[Any, Any]:
    clock.settle()
    begin = clock.mark()
    optimiser.zero_grad()
    task.loss(task.model, batch).backward()
    optimiser.step()
    end = clock.mark()
    clock.settle()
    return begin, end


def _owners(model: Any, parameters: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """Names of the parameters of each module, by its path; shared parameters belong to the first module."""
    names = {id(parameter): name for name, parameter in parameters.items()}
    return {
        path: tuple(found)
        for path, module in model.named_modules()
        if (found := [names.pop(id(item)) for item in module.parameters(recurse=False) if id(item) in names])
    }


def _gaps_from_starts(
    marks: list[tuple[str, Any]], start: Any, end: Any, clock: Clock
) -> tuple[float, dict[str, float]]:
    """Seconds in total, and from each module's start to the next; the time before the first counts for the first."""
    gaps: dict[str, float] = {}
    ends = [moment for _, moment in marks[1:]] + [end]
    begin = start
    for (owner, _), after in zip(marks, ends, strict=True):
        gaps[owner] = gaps.get(owner, 0.0) + clock.seconds(begin, after)
        begin = after
    return clock.seconds(start, end), gaps


def _gaps_to_ends(marks: list[tuple[str, Any]], start: Any, clock: Clock) -> tuple[float, dict[str, float]]:
    """Seconds until the last gradient is ready, and for each gradient since the previous one, in that order."""
    gaps: dict[str, float] = {}
    before = start
    for name, moment in marks:
        gaps[name] = gaps.pop(name, 0.0) + clock.seconds(before, moment)
        before = moment
    return clock.seconds(start, before), gaps


def _total(steps: list[tuple[float, dict[str, float]]]) -> float:
    return statistics.median(total for total, _ in steps)


def _medians(steps: list[tuple[float, dict[str, float]]]) -> dict[str, float]:
    """Medians of the gaps, in the order of the last step, scaled so that they sum to the median of the total."""
    names = steps[-1][1]
    medians = {name: statistics.median(gaps.get(name, 0.0) for _, gaps in steps) for name in names}
    scale = _total(steps) / (sum(medians.values()) or 1.0)
    return {name: scale * seconds for name, seconds in medians.items()}


def _share_among_tensors(
    modules: dict[str, float], owners: dict[str, tuple[str, ...]], numels: dict[str, int]
) -> dict[str, float]:
    """Seconds of each tensor: those of its module, in proportion to elements."""
    seconds = dict.fromkeys(numels, 0.0)
    for owner, time in modules.items():
        own = [name for name in owners.get(owner, ()) if name in numels] or list(numels)
        total = sum(numels[name] for name in own)
        for name in own:
            seconds[name] += time * numels[name] / total
    return seconds


def write_workload(folder: Path, name: str, task: str, made: Profile, place: Environment) -> Path:
    """Write `NAME.yaml` and `NAME.layers.csv`, which a scenario can name as its workload.

    Returns the path of the first. Raises InputError where the folder can't be written.
    """
    rows = ["name,numel,forward_s,backward_s,ready_s"]
    for layer, ready in zip(made.layers, made.ready, strict=True):
        rows.append(f"{layer.name},{layer.numel},{layer.forward:.6g},{layer.backward:.6g},{ready:.6g}")
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
    write_whole(folder / f"{name}.layers.csv", "\n".join(rows) + "\n")
    text = yaml.safe_dump(document, sort_keys=False, width=110, allow_unicode=True)
    write_whole(folder / f"{name}.yaml", text)
    return folder / f"{name}.yaml"
