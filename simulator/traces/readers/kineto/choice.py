"""Which steps of a profile count, and what they say together."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from simulator.errors import InputError, Problem
from simulator.models.curves import Floats
from simulator.models.layers import Layer, Workload
from simulator.traces.readers.kineto.steps import LayerTimes, StepParts, StepTimes

OUTLIER = 3.0
"""A step is left out if its wall time is further from the median than so many times the usual distance (1.4826 times
the median distance, the standard deviation of normal noise; Hampel 1974) ..."""
NEAR = 0.05
"""... and than this share of the median: a profile of even steps keeps all of them."""
AHEAD = 0.1
"""The host runs ahead in the steps of a profile if they take longer on the GPU by more than this share."""
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")


class StepSummary(StepParts, dict=True):
    """Medians over the steps that count, in seconds.

    `found` and `used`: numbers of steps. `step`: the step's time that counts, `wall` unless the host ran ahead in these
    steps. `compute`: what is left of it without data and exposed collectives, the iteration of one GPU. `layers`: in
    the order of the gradients.
    """

    found: tuple[int, ...]
    used: tuple[int, ...]
    step: float
    layers: LayerTimes

    @property
    def compute(self) -> float:
        """Seconds of the step without waiting for data and collectives."""
        return self.step - self.data - self.exposed

    @cached_property
    def queued(self) -> float:
        """Seconds of forward and backward pass as the layers alone give them: host and GPU as two clocks."""
        columns = zip(*(getattr(self.layers, name) for name in LayerTimes.__struct_fields__), strict=True)
        layers = tuple(
            Layer(name="", numel=1, forward=times[0], forward_host=times[1], backward=times[2], backward_host=times[3])
            for times in reversed(list(columns))
        )
        queued = Workload.model_construct(batch_size=1, host_ahead=not self.waits, layers=layers).queued()
        return queued.forward_time + queued.backward_time

    @property
    def rest(self) -> float:
        """Seconds of `compute` besides the layers: `update`, and what the host does between steps while the GPU waits.

        Layers then keep the times that they were measured with.
        """
        return max(0.0, self.update, self.compute - self.queued)


def parse_steps(text: str) -> list[tuple[int, int]]:
    """Ranges of step numbers. Raises InputError for anything else.

    >>> parse_steps("3-5, 9")
    [(3, 5), (9, 9)]
    """
    ranges = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise InputError(Problem("--steps", "numbers of steps such as 3-5 or 3,5", repr(text)))
        ranges.append((int(match[1]), int(match[2] or match[1])))
    return ranges


def choose_steps(steps: Sequence[StepTimes], wanted: str, where: str) -> list[StepTimes]:
    """The steps that count: those that are wanted, or all but the first and those that took unusually long or short.

    The first one is left out where there are three or more. Steps without the usual number of gradients never count.
    Raises InputError where a step that is wanted is none of the others.
    """
    counts = [len(step.layers.backward) for step in steps if step.layers is not None]
    usual = statistics.mode(counts) if counts else 0
    whole = [step for step in steps if step.layers is not None and len(step.layers.backward) == usual]
    if wanted:
        ranges = parse_steps(wanted)
        chosen = [step for step in whole if any(low <= step.number <= high for low, high in ranges)]
        missing = [low for low, high in ranges if not any(low <= step.number <= high for step in chosen)]
        if missing:
            among = ", ".join(str(step.number) for step in whole) or "none"
            raise InputError(Problem("--steps", f"steps with a whole backward pass of {where}: {among}", wanted))
        return chosen
    later = whole[1:] if len(whole) > 2 else whole
    walls = [step.wall for step in later]
    if len(walls) < 3:
        return later
    middle = statistics.median(walls)
    distance = statistics.median(abs(wall - middle) for wall in walls)
    most = max(OUTLIER * 1.4826 * distance, NEAR * middle)
    return [step for step in later if abs(step.wall - middle) <= most]


def summarise_steps(steps: Sequence[StepTimes], chosen: Sequence[StepTimes]) -> StepSummary:
    """Medians over the chosen steps; of layers, those of the times that their gradients were ready or launched."""

    times = [step.layers for step in chosen if step.layers is not None]
    names = [name for name in StepParts.__struct_fields__ if name != "waits"]
    medians = {name: float(np.median([getattr(step, name) for step in chosen])) for name in names}
    wall, span = medians["wall"], medians["span"]
    ready = _medians(times, lambda item: np.cumsum(item.backward))
    return StepSummary(
        **medians,
        found=tuple(step.number for step in steps),
        used=tuple(step.number for step in chosen),
        step=span if span > (1 + AHEAD) * wall else wall,
        waits=all(step.waits for step in chosen),
        layers=LayerTimes(
            _medians(times, lambda item: item.forward),
            _medians(times, lambda item: item.forward_host),
            tuple(np.diff(np.maximum.accumulate(ready), prepend=0.0).tolist()),
            _medians(times, lambda item: item.backward_host),
        ),
    )


def _medians(
    times: Sequence[LayerTimes], values: Callable[[LayerTimes], Sequence[float] | Floats]
) -> tuple[float, ...]:
    return tuple(np.median([values(item) for item in times], axis=0).tolist())
