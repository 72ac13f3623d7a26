"""Things in groups: by a key, and each group left out in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

Item = TypeVar("Item")
Group = TypeVar("Group")


def group_by(items: Iterable[Item], key: Callable[[Item], Group]) -> dict[Group, list[Item]]:
    """The items of each group, in their order; groups in the order of their first items."""
    found: dict[Group, list[Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def leave_out(items: Iterable[Item], key: Callable[[Item], Any]) -> Iterator[tuple[Any, list[Item], list[Item]]]:
    """Each group with its items and all others, in their order; nothing where there is one group only."""
    every = list(items)
    groups = group_by(every, key)
    for group, held in groups.items() if len(groups) > 1 else ():
        yield group, held, [item for item in every if key(item) != group]
