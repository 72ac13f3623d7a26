"""Results that a sweep asks for again and again: the latest ones are kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class LatestResults(Generic[T]):
    """Up to `most` results by their keys; the one that was made first is dropped first.

    >>> squares = LatestResults(1)
    >>> squares.get(3, lambda: 9), squares.get(3, lambda: 0), squares.get(4, lambda: 16), squares.get(3, lambda: 0)
    (9, 9, 16, 0)
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result of this key; `make` makes it where it is not known."""
        if key not in self._known:
            self._known[key] = make()
            if len(self._known) > self.most:
                self._known.popitem(last=False)
        return self._known[key]
