"""A cache of the latest results that keeps small results only, so that it does not grow with the cluster."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sized
from functools import wraps
from typing import ParamSpec, TypeVar

MOST = 2**14
"""Length of the longest result that is kept."""
P = ParamSpec("P")
S = TypeVar("S", bound=Sized)


def cache_small_results(make: Callable[P, S]) -> Callable[P, S]:
    """The function with a cache of its latest 64 small results, for calls with hashable positional arguments.

    >>> squares = cache_small_results(lambda n: [i * i for i in range(n)])
    >>> squares(3) is squares(3), squares(MOST + 1) is squares(MOST + 1)
    (True, False)
    """
    known: OrderedDict[Hashable, S] = OrderedDict()

    @wraps(make)
    def cached(*args: P.args, **kwargs: P.kwargs) -> S:
        result = known.get(args)
        if result is not None:
            known.move_to_end(args)
            return result
        result = make(*args, **kwargs)
        if len(result) <= MOST and not kwargs:
            known[args] = result
            if len(known) > 64:
                known.popitem(last=False)
        return result

    return cached
