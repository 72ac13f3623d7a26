"""Calls spread over processes: a function of many arguments, with every result as soon as it is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain
from typing import TypeVar, cast

from simulator.errors import InputError, Problem, SparsimError, format_value
from simulator.progress import Watch
from simulator.studies.processes.executors import can_fork, run_locally

Argument = TypeVar("Argument")
Result = TypeVar("Result")
Function = Callable[[Sequence[Argument]], Sequence[Result]]
"""The results of several arguments together."""


def count_processes(processes: int | None, items: int | None = None) -> int:
    """How many processes to use. Raises InputError for less than one.

    `processes`: what was asked for; None: one per core where copies of this process can be made, else this one alone.
    `items`: how many there are to work on.
    """
    if processes is not None and processes < 1:
        raise InputError(Problem("workers", "at least 1", format_value(processes)))
    count = processes or ((os.cpu_count() or 1) if can_fork() else 1)
    return count if items is None else max(1, min(count, items))


def map_in_processes(
    function: Function[Argument, Result], arguments: Sequence[Argument], processes: int | None = None
) -> Generator[tuple[int, Result], None, None]:
    """The place of each argument with its result, in the order in which they are finished.

    The function and its results must be possible to pickle. An exception in the function is raised here. Raises
    SparsimError where a process dies twice.
    """
    call, count = partial(_call, function, arguments), count_processes(processes, len(arguments))
    with closing(run_locally(call, [[number] for number in range(len(arguments))], count)) as batches:
        for number, returned, lost in chain.from_iterable(batches):
            result, error = returned or (None, SparsimError(lost))
            if error is not None:
                raise error
            yield number, cast(Result, result)


def map_in_order(
    function: Function[Argument, Result], arguments: Sequence[Argument], processes: int | None = None
) -> list[Result]:
    """All results in the order of the arguments. Raises what `map_in_processes` raises."""
    made = dict(map_in_processes(function, arguments, processes))
    return [made[place] for place in range(len(arguments))]


def map_watched(
    function: Function[Argument, Result],
    arguments: Sequence[Argument],
    watch: Watch,
    part: str,
    processes: int | None = None,
    *,
    steps: int = 1,
) -> dict[int, Result]:
    """The results by the places of their arguments, in the order in which they are finished.

    `watch` counts `steps` for each, and an interruption of this `part` of the study leaves out what was not finished.
    Raises what `map_in_processes` raises.
    """
    made: dict[int, Result] = {}
    watch.expect(steps * len(arguments))
    with watch.part(part), closing(map_in_processes(function, arguments, processes)) as results:
        for place, result in results:
            made[place] = result
            watch.step(steps)
    return made


def _call(
    function: Function[Argument, Result], arguments: Sequence[Argument], numbers: Sequence[int]
) -> Sequence[tuple[Result | None, Exception | None]]:
    """What the function returns for the arguments of several numbers, or raises, to be raised where it was asked."""
    try:
        return [(result, None) for result in function([arguments[number] for number in numbers])]
    except Exception as error:
        return [(None, error)] * len(numbers)
