"""Results that are remembered, as long as they are small: what a long sweep keeps must not grow with its clusters."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sized
from functools import wraps
from typing import ParamSpec, TypeVar

MOST = 2**14
"""Length of the longest result that is kept."""
P = ParamSpec("P")
S = TypeVar("S", bound=Sized)


def remembered(make: Callable[P, S]) -> Callable[P, S]:
    """The function, with its latest 64 results kept by their arguments (hashable, by place) where they are small.

    >>> squares = remembered(lambda n: [i * i for i in range(n)])
    >>> squares(3) is squares(3), squares(MOST + 1) is squares(MOST + 1)
    (True, False)
    """
    known: OrderedDict[Hashable, S] = OrderedDict()

    @wraps(make)
    def found(*args: P.args, **kwargs: P.kwargs) -> S:
        made = known.get(args)
        if made is not None:
            known.move_to_end(args)
            return made
        made = make(*args, **kwargs)
        if len(made) <= MOST and not kwargs:
            known[args] = made
            if len(known) > 64:
                known.popitem(last=False)
        return made

    return found
