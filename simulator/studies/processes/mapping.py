"""Calls spread over processes: a function of many arguments, with every result as soon as it is there."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Generic, NamedTuple, TypeVar

from simulator.errors import InputError, Problem, SparsimError, format_value
from simulator.progress import Watch
from simulator.records import Record
from simulator.studies.processes.executors import Executor, LocalExecutor, ProcessExecutor, can_fork

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


def choose_executor(count: int) -> Executor:
    """This process, or several."""
    return LocalExecutor() if count == 1 else ProcessExecutor(count)


def map_in_processes(
    function: Function[Argument, Result], arguments: Sequence[Argument], processes: int | None = None
) -> Generator[tuple[int, Result], None, None]:
    """The place of each argument with its result, in the order in which they are finished.

    The function and its results must be possible to pickle. An exception in the function is raised here. Raises
    SparsimError where a process dies twice.
    """
    executor = choose_executor(count_processes(processes, len(arguments)))
    calls = _FunctionCalls(function, arguments)
    with closing(executor.run(calls, [[number] for number in range(len(arguments))])) as batches:
        for batch in batches:
            for number, error, result in batch:
                if error is not None:
                    raise error
                yield number, result[0]


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


class _Returned(NamedTuple, Generic[Result]):
    """What a call returned in the place of a number, alone in a sequence, or why there is nothing."""

    number: int
    error: Exception | None
    result: Sequence[Result]


class _FunctionCalls(Record, Generic[Argument, Result]):
    """An evaluator whose points are arguments."""

    function: Function[Argument, Result]
    arguments: Sequence[Argument]

    def evaluate(self, numbers: Sequence[int]) -> list[_Returned[Result]]:
        """Call the function with the arguments of several numbers."""
        try:
            results = self.function([self.arguments[number] for number in numbers])
        except Exception as error:  # to be raised in the process that asked
            return [_Returned(numbers[0], error, ())]
        return [_Returned(number, None, (result,)) for number, result in zip(numbers, results, strict=True)]

    def failure(self, number: int, message: str) -> _Returned[Result]:
        """What is returned where no process survived."""
        return _Returned(number, SparsimError(message), ())
