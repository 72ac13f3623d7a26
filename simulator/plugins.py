"""Installed packages that add members of families: loaded where all kinds are wanted, and kept apart if they break."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

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
