"""Installed packages that add members of families: loaded where all kinds are wanted, and kept apart if they break."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from traceback import walk_tb
from types import FrameType
from typing import Any

from simulator.errors import CodeError, Problem, SparsimError
from simulator.records import Record

ENTRY_POINT_GROUP = "simulator.plugins"
_LONGEST = 200
"""Most characters of a reason."""


class BrokenPlugin(Record):
    """A plug-in that could not be loaded: the name of its entry point, what that names, and why."""

    name: str
    target: str
    reason: str

    def __str__(self) -> str:
        return f"the plug-in '{self.name}' ({self.target}) could not be loaded: {self.reason}"


def load_plugins(registries: Callable[[], Iterable[dict[str, Any]]]) -> tuple[BrokenPlugin, ...]:
    """Import every installed plug-in, whose classes register themselves; those that could not be loaded.

    `registries`: the members by kind, of every family. What a broken plug-in had registered is taken out again.
    """
    from importlib.metadata import entry_points  # reads the e-mail package: only where all kinds are wanted

    broken = []
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP)):
        before = [(registry, dict(registry)) for registry in registries()]
        try:
            point.load()
        except (Exception, SystemExit) as error:  # whatever a stranger's module raises while it is imported
            for registry, members in before:
                registry.clear()
                registry.update(members)
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST]
            broken.append(BrokenPlugin(point.name, point.value, reason))
            continue
        own = (member.__module__ for registry in registries() for member in registry.values())
        if not any(name == point.module or name.startswith(f"{point.module}.") for name in own):
            reason = 'it defines no member of a family, a class such as `class Strided(Sparsifier, kind="strided")`'
            broken.append(BrokenPlugin(point.name, point.value, reason))
    return tuple(broken)


def blame(error: Exception) -> Problem | None:
    """What a plug-in's code did wrong, by its name, file and line; None where the error is not that of a plug-in.

    That is where its own code raised something, or where what it returned could not be used. Errors that the package
    raises on purpose are about input, and blame nobody, but for `CodeError`.
    """
    if isinstance(error, SparsimError) and not isinstance(error, CodeError):
        return None
    from importlib.metadata import entry_points

    names = {point.module: point.name for point in entry_points(group=ENTRY_POINT_GROUP)}
    if not names:
        return None

    def owner(module: object) -> str:
        """The plug-in that a module belongs to; empty for any other module."""
        found = (name for own, name in names.items() if module == own or str(module).startswith(f"{own}."))
        return next(found, "")

    frames = [(frame, line) for frame, line in walk_tb(error.__traceback__)][::-1]
    mine = [(frame, line) for frame, line in frames if owner(frame.f_globals.get("__name__", ""))]
    if mine:
        frame, line = mine[0]
        # A comprehension or a lambda is a part of the function around it.
        outer = next((item for item, _ in mine if not item.f_code.co_name.startswith("<")), frame)
        name, function = owner(frame.f_globals["__name__"]), outer.f_code.co_name
        where = f"the plug-in '{name}' ({frame.f_code.co_filename}:{line}, in {function})"
        return _problem(error, where, _promise(type(outer.f_locals.get("self")), function, owner))
    if isinstance(error, OSError):  # of the package's own files, which variables of its frames would keep open
        return None
    for member in (item for frame, _ in frames for item in _held(frame)):
        if name := owner(type(member).__module__):
            place = f"{inspect.getfile(type(member))}:{_line_of(type(member), error)}"
            return _problem(
                error, f"the plug-in '{name}' ({place}, {type(member).__name__})", "results that can be used"
            )
    return None


def _problem(error: Exception, where: str, expected: str) -> Problem:
    if isinstance(error, CodeError):
        first = error.problems[0]
        return Problem(where, first.expected, first.where, first.hint)
    text = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST]
    inner = [(frame, line) for frame, line in walk_tb(error.__traceback__)][-1]
    raised = f"raised at {inner[0].f_code.co_filename}:{inner[1]}"
    return Problem(where, expected, text, "" if raised.removeprefix("raised at ") in where else raised)


def _promise(member: type, function: str, owner: Callable[[object], str]) -> str:
    """What a family says of a function that its members have."""
    for base in member.__mro__:
        described = None if owner(base.__module__) else base.__dict__.get(function)
        if described is not None and (words := inspect.getdoc(described)):
            return f"{base.__name__}.{function} without an error ({words.splitlines()[0].rstrip('.')})"
    return f"{function} without an error"


def _held(frame: FrameType) -> Iterator[object]:
    """The objects of a frame, and the members of families that they hold."""
    for value in list(frame.f_locals.values()):
        yield value
        fields = getattr(value, "__dict__", None)
        if isinstance(fields, dict):
            yield from map(fields.get, ("sparsifier", "topology", "scheduler"))


def _line_of(member: type, error: Exception) -> int:
    """The line of a class that has the word that an error is about; otherwise the first one."""
    lines, first = inspect.getsourcelines(member)
    word = error.problems[0].where.split("'")[1] if isinstance(error, CodeError) else str(error).strip("'")
    quoted = (f'"{word}"', f"'{word}'")
    return next((first + i for i, line in enumerate(lines) if any(text in line for text in quoted)), first)
