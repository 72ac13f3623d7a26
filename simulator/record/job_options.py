"""What a recorder of a job is asked for, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from simulator.errors import InputError, Problem, format_value
from simulator.record.even_sample import find_share_problems
from simulator.records import Record, field

FIRST = 3
"""The first iteration that is recorded: DistributedDataParallel forms its buckets anew after the first one."""
Hook = Callable[[Any, Any], Any]
_WHERE = "simulator.record.hook"


class JobOptions(Record):
    """The keywords of `simulator.record.hook`, which explains them. Raises InputError for wrong ones."""

    sample: float = 0.01
    every: int = 20
    block: int = 4
    most: int = 200
    inner: Hook | None = None
    inner_state: Any = None
    scaler: Any = None
    batch_size: int | None = None
    seed: int = 0
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        problems = find_share_problems(_WHERE, self.sample, self.every, self.block)
        if self.most < 1:
            problems.append(Problem(f"{_WHERE}: most", "at least 1", format_value(self.most)))
        if self.batch_size is not None and self.batch_size < 1:
            problems.append(Problem(f"{_WHERE}: batch_size", "at least 1", format_value(self.batch_size)))
        if problems:
            raise InputError(problems)

    def records(self, iteration: int, recorded: int) -> bool:
        """Whether an iteration is recorded, of which so many were before."""
        place = iteration - FIRST
        return place >= 0 and place % self.every < self.block and recorded < self.most
