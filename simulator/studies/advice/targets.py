"""Iterations that a training needs to reach its target, by method."""

from __future__ import annotations

from collections.abc import Mapping

from simulator.component import discover
from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.loading.documents import read_document
from simulator.loading.finding import find_file
from simulator.sparsifiers.base import Sparsifier

MAX_ITERATIONS = 1e15


def read_iterations(path: str) -> dict[str, float]:
    """A file that maps methods to iterations. Raises InputError with the place of everything that is wrong."""
    place = find_file(path, None)
    if place is None:
        raise InputError(Problem(path, "a YAML file of methods and iterations, such as `topk: 32000`", "nothing there"))
    document = read_document(place)
    if not isinstance(document.data, dict):
        got = format_value(document.data)
        raise InputError(Problem(document.where(()), "a mapping from methods to iterations", got))
    problems = [
        Problem(f"{document.where((key,))}: {key}", "iterations above 0, at most 1e15", format_value(value))
        for key, value in document.data.items()
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_ITERATIONS
    ]
    if problems:
        raise InputError(problems)
    return check_methods({str(key): float(value) for key, value in document.data.items()})


def check_methods(targets: Mapping[str, float]) -> dict[str, float]:
    """Iterations by method, each known. Raises InputError for an unknown method, with the nearest known one."""
    kinds, what = discover(Sparsifier), "a method, such as topk or 'topk 0.01'"
    unknown = [name for name in targets if name.split(" ")[0] not in kinds]
    if unknown:
        raise InputError([Problem("iterations to target", what, f"'{n}'", suggest_nearest(n, kinds)) for n in unknown])
    return dict(targets)
