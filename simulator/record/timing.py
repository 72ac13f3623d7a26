"""Clocks of host and GPU, and the moments of a step: when modules start, and when gradients are ready."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from simulator.models.layers import Layer
from simulator.records import Struct, field, replace

HEAD_START_CYCLES = 2_000_000
"""GPU cycles (about a millisecond) for which the GPU is kept busy while the host queues the timed calls."""


class Clock:
    """Marks moments of a device's work and gives the seconds between two of them; here of the processor, whose work is
    done when the call returns."""

    def mark(self) -> Any:
        """A moment after all work that the device has been given so far."""
        return time.perf_counter()

    def seconds(self, begin: Any, end: Any) -> float:
        """Seconds between two moments; the device must have `settled`."""
        return float(end - begin)

    def settle(self) -> None:
        """Wait until the device has done all work."""

    def head_start(self) -> None:
        """Keep the device busy for a moment, so that the host can queue work ahead of it."""


class GpuClock(Clock):
    """CUDA events in the current stream."""

    def mark(self) -> Any:
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, begin: Any, end: Any) -> float:
        return 1e-3 * float(begin.elapsed_time(end))

    def settle(self) -> None:
        torch.cuda.synchronize()

    def head_start(self) -> None:
        """Queue a kernel that only waits (no public call); without it, small kernels are timed with launch gaps."""
        wait = getattr(torch.cuda, "_sleep", None)
        if wait is not None:
            wait(HEAD_START_CYCLES)


def clock_of(device: str) -> Clock:
    """The clock for `cpu` or a GPU."""
    return Clock() if device == "cpu" else GpuClock()


Gaps = tuple[float, dict[Any, float]]
"""Seconds in total, and by what they belong to: the name of a gradient, or a module as its path and its own tensors."""


class Marks(Struct, dict=True):
    """What started or became ready in one step, and when."""

    forward: list[tuple[tuple[str, tuple[str, ...]], Any]] = field(default_factory=list)
    backward: list[tuple[str, Any]] = field(default_factory=list)

    def gaps(self, start: Any, between: Any, clock: Clock) -> tuple[Gaps, Gaps]:
        """Of the forward pass, from each module's start to the next; of the backward pass, until the last gradient is
        ready and from the previous one to each, in that order. The time before the first module counts for it."""
        forward, backward = dict[Any, float](), dict[Any, float]()
        begin = start
        for (owner, _), after in zip(self.forward, [*(moment for _, moment in self.forward[1:]), between], strict=True):
            forward[owner] = forward.get(owner, 0.0) + clock.seconds(begin, after)
            begin = after
        before = between
        for name, moment in self.backward:
            backward[name] = backward.pop(name, 0.0) + clock.seconds(before, moment)
            before = moment
        return (clock.seconds(start, between), forward), (clock.seconds(between, before), backward)


@contextmanager
def mark_hooks(model: Any, parameters: Mapping[str, Any], mark: Callable[[], Any]) -> Iterator[Marks]:
    """Hooks that `mark` when modules with parameters of their own start, and when gradients are ready.

    A module is named by its path and its own tensors; those that modules share belong to the first one.
    """
    marks = Marks()
    names = {id(parameter): name for name, parameter in parameters.items()}
    free = dict(names)
    with ExitStack() as hooks:
        for path, module in model.named_modules():
            own = [id(parameter) for parameter in module.parameters(recurse=False) if id(parameter) in names]
            if own:
                owner = path, tuple(free.pop(place) for place in own if place in free)
                hook = module.register_forward_pre_hook(
                    lambda module, inputs, owner=owner: marks.forward.append((owner, mark()))
                )
                hooks.callback(hook.remove)
        for name, parameter in parameters.items():
            hook = parameter.register_post_accumulate_grad_hook(
                lambda parameter, name=name: marks.backward.append((name, mark()))
            )
            hooks.callback(hook.remove)
        yield marks


def median_total(steps: Sequence[Gaps]) -> float:
    """The median of the totals of several steps."""
    return statistics.median(total for total, _ in steps)


def median_gaps(steps: Sequence[Gaps]) -> dict[Any, float]:
    """Medians of the gaps, in the order of the last step, scaled so that they sum to the median of the total."""
    names = steps[-1][1]
    medians = {name: statistics.median(gaps.get(name, 0.0) for _, gaps in steps) for name in names}
    scale = median_total(steps) / (sum(medians.values()) or 1.0)
    return {name: scale * seconds for name, seconds in medians.items()}


def time_layers(layers: Sequence[Layer], steps: Sequence[tuple[Gaps, Gaps]]) -> list[Layer]:
    """The tensors of a model with the medians of their times over several steps.

    Forward seconds sum to the median of the total: a module's are shared by its tensors in proportion to elements.
    """
    forward, backward = zip(*steps, strict=True)
    numels = {layer.name: layer.numel for layer in layers}
    shares, after = dict.fromkeys(numels, 0.0), median_gaps(backward)
    for (_, names), seconds in median_gaps(forward).items():
        own = [name for name in names if name in numels] or list(numels)
        total = sum(numels[name] for name in own)
        for name in own:
            shares[name] += seconds * numels[name] / total
    scale = median_total(forward) / (sum(shares.values()) or 1.0)
    return [replace(layer, forward=scale * shares[layer.name], backward=after.get(layer.name, 0.0)) for layer in layers]
