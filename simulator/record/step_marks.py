"""Moments of one iteration: when modules start, and when gradients are ready; and what they make of each tensor."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from simulator.models.layers import Layer
from simulator.record.timing import Clock
from simulator.records import Struct, field, replace

Gaps = tuple[float, dict[str, float]]
"""Seconds in total, and by name."""


class Marks(Struct, dict=True):
    """What started or became ready in one step, and when."""

    forward: list[tuple[str, Any]] = field(default_factory=list)
    backward: list[tuple[str, Any]] = field(default_factory=list)


@contextmanager
def mark_hooks(model: Any, parameters: Mapping[str, Any], clock: Clock) -> Iterator[Marks]:
    """Hooks that mark when modules with parameters of their own start, and when gradients are ready."""
    marks = Marks()
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


def _find_owners(model: Any, parameters: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Names of the parameters of each module, by its path; shared parameters belong to the first module."""
    names = {id(parameter): name for name, parameter in parameters.items()}
    return {
        path: tuple(found)
        for path, module in model.named_modules()
        if (found := [names.pop(id(item)) for item in module.parameters(recurse=False) if id(item) in names])
    }


def gaps_from_starts(marks: Sequence[tuple[str, Any]], start: Any, end: Any, clock: Clock) -> Gaps:
    """Seconds in total, and from each module's start to the next; the time before the first counts for the first."""
    gaps: dict[str, float] = {}
    ends = [moment for _, moment in marks[1:]] + [end]
    begin = start
    for (owner, _), after in zip(marks, ends, strict=True):
        gaps[owner] = gaps.get(owner, 0.0) + clock.seconds(begin, after)
        begin = after
    return clock.seconds(start, end), gaps


def gaps_to_ends(marks: Sequence[tuple[str, Any]], start: Any, clock: Clock) -> Gaps:
    """Seconds until the last gradient is ready, and for each gradient since the previous one, in that order."""
    gaps: dict[str, float] = {}
    before = start
    for name, moment in marks:
        gaps[name] = gaps.pop(name, 0.0) + clock.seconds(before, moment)
        before = moment
    return clock.seconds(start, before), gaps


def median_total(steps: Sequence[Gaps]) -> float:
    """The median of the totals of several steps."""
    return statistics.median(total for total, _ in steps)


def median_gaps(steps: Sequence[Gaps]) -> dict[str, float]:
    """Medians of the gaps, in the order of the last step, scaled so that they sum to the median of the total."""
    names = steps[-1][1]
    medians = {name: statistics.median(gaps.get(name, 0.0) for _, gaps in steps) for name in names}
    scale = median_total(steps) / (sum(medians.values()) or 1.0)
    return {name: scale * seconds for name, seconds in medians.items()}


def time_layers(
    layers: Sequence[Layer],
    model: Any,
    parameters: Mapping[str, Any],
    forward: Sequence[Gaps],
    backward: Sequence[Gaps],
) -> list[Layer]:
    """The tensors of a model with the medians of their times over several steps.

    Forward seconds sum to the median of the total: a module's are shared by its tensors in proportion to elements.
    """
    numels = {layer.name: layer.numel for layer in layers}
    shares = _share_among_tensors(median_gaps(forward), _find_owners(model, parameters), numels)
    scale = median_total(forward) / (sum(shares.values()) or 1.0)
    after = median_gaps(backward)
    return [replace(layer, forward=scale * shares[layer.name], backward=after.get(layer.name, 0.0)) for layer in layers]


def _share_among_tensors(
    modules: Mapping[str, float], owners: Mapping[str, tuple[str, ...]], numels: Mapping[str, int]
) -> dict[str, float]:
    """Seconds of each tensor: those of its module, in proportion to elements."""
    seconds = dict.fromkeys(numels, 0.0)
    for owner, time in modules.items():
        own = [name for name in owners.get(owner, ()) if name in numels] or list(numels)
        total = sum(numels[name] for name in own)
        for name in own:
            seconds[name] += time * numels[name] / total
    return seconds
