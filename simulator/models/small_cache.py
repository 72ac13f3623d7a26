"""Caches of the latest results, which a sweep asks for again and again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sized
from functools import wraps
from typing import Generic, ParamSpec, TypeVar, cast

_UNKNOWN = object()
MOST = 2**14
"""Length of the longest result that is kept."""
P = ParamSpec("P")
S = TypeVar("S", bound=Sized)
T = TypeVar("T")


class LatestResults(Generic[T]):
    """Up to `most` results by their keys; the one that was used longest ago is dropped first.

    >>> squares = LatestResults(1)
    >>> squares.get(3, lambda: 9), squares.get(3, lambda: 0), squares.get(4, lambda: 16), squares.get(3, lambda: 0)
    (9, 9, 16, 0)
    """

    def __init__(self, most: int, fits: Callable[[T], bool] | None = None) -> None:
        self.most, self.fits = most, fits
        self._known: OrderedDict[Hashable, T] = OrderedDict()

    def __contains__(self, key: Hashable) -> bool:
        """Whether the result of this key is known."""
        return key in self._known

    def clear(self) -> None:
        """Forget all results."""
        self._known.clear()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The result of this key; `make` makes it where it is not known, and it is kept if it `fits`."""
        found = self._known.get(key, _UNKNOWN)
        if found is not _UNKNOWN:
            self._known.move_to_end(key)
            return cast("T", found)
        result = make()
        if self.fits is None or self.fits(result):
            self._known[key] = result
            if len(self._known) > self.most:
                self._known.popitem(last=False)
        return result


def cache_small_results(make: Callable[P, S]) -> Callable[P, S]:
    """The function with a cache of its latest 64 small results, for calls with hashable positional arguments.

    >>> squares = cache_small_results(lambda n: [i * i for i in range(n)])
    >>> squares(3) is squares(3), squares(MOST + 1) is squares(MOST + 1)
    (True, False)
    """
    latest: LatestResults[S] = LatestResults(64, lambda result: len(result) <= MOST)

    @wraps(make)
    def cached(*args: P.args, **kwargs: P.kwargs) -> S:
        return make(*args, **kwargs) if kwargs else latest.get(args, lambda: make(*args, **kwargs))

    return cached


class ResultsOfObjects(Generic[T]):
    """Up to `most` results by the very objects that they were made of, which must not change.

    Points of a sweep share most of their parts, which are asked for faster by identity than by value. The objects are
    kept as long as the result is, so that no other one takes their place. `also`: whatever else the result depends on.

    >>> lengths, words = ResultsOfObjects(1), ["a", "b"]
    >>> lengths.get((words,), lambda: 2), lengths.get((words,), lambda: 0), lengths.get((["a", "b"],), lambda: 3)
    (2, 2, 3)
    """

    def __init__(self, most: int) -> None:
        self._latest: LatestResults[tuple[T, tuple[object, ...]]] = LatestResults(most)

    def clear(self) -> None:
        """Forget all results."""
        self._latest.clear()

    def get(self, objects: tuple[object, ...], make: Callable[[], T], *also: Hashable) -> T:
        """The result that was made of these objects; `make` makes it where it is not known."""
        return self._latest.get((*map(id, objects), *also), lambda: (make(), objects))[0]
