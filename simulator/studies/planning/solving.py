"""The value of an unknown from which on, or up to which, a target is met."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from simulator.studies.variants.crossing import Gap, Search, changes_of, find_change, known_gaps

_TIGHT = 0.1
"""Share of `close` within which the search encloses the border: it ends there where the target is met by a jump."""


class Solution(NamedTuple):
    """`value`: the border, on the side where the target is met; None where no value tried meets it, or all do.

    `status`: `found`, `always` or `never`. `best`: the value tried with the largest margin. `upwards`: whether the
    target is met from the value on; otherwise up to it. `again`: whether it is met and missed in turn elsewhere.
    """

    status: str
    best: float
    value: float | None = None
    upwards: bool = True
    again: bool = False


def find_border(
    missed: Gap, tried: Sequence[float], least: bool, whole: bool = False, *, close: float
) -> Search[Solution | None]:
    """Where the target begins to be met; None where no value tried could be run.

    `missed`: by which share the target is missed at a value, below 0 where it is met. `tried` rise. Of several
    stretches that meet the target, that which holds the end where most is spent counts: a larger value if the `least`
    is asked for; where that end misses it, the stretch at the other end, or any. `close`: the share of the target
    by which it is met at most, where it is met without a jump.
    """
    known = yield from known_gaps(missed, tried)
    if not known:
        return None
    best = min(known, key=lambda value: known[value])
    met = [found < 0 for found in known.values()]
    if all(met) or not any(met):
        return Solution("always" if all(met) else "never", best)
    changes = changes_of([*known], lambda value: known[value] < 0)
    upwards = met[-1] if least else not met[0]
    if met[0] == met[-1]:  # inside or outside of a stretch: what is asked for is its least, or most, value
        upwards = least
    low, high = next(pair for pair in changes[:: -1 if upwards else 1] if (known[pair[1]] < 0) == upwards)
    ends = (high, low) if upwards else (low, high)
    close = 0.0 if whole else close
    border, _ = yield from find_change(missed, *ends, _TIGHT * close, whole=whole, close=close)
    return Solution("found", best, border, upwards, len(changes) > 1)
