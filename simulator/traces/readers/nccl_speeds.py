"""Which collective the rows of nccl-tests are of: bus bandwidth over bandwidth (NVIDIA/nccl-tests, PERFORMANCE.md)."""

from __future__ import annotations

from simulator.records import Record
from simulator.traces.readers.collective_names import UNKNOWN

_PARTED = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
_FEW = 0.011  # GB/s: bandwidths are printed with two decimals
_NEAR = 0.02


class Speed(Record):
    """Bus bandwidth over bandwidth in one half of a row, how far rounding may have moved it, and the bus bandwidth."""

    ratio: float
    unsure: float
    bus: float


def agree(speed: float, algbw: float) -> bool:
    """Whether the bandwidth that follows from a time (GB/s) is the one that was printed beside it."""
    return abs(speed - algbw) <= _FEW + _NEAR * min(algbw, speed + 1)


def speed_of(busbw: float, speed: float) -> Speed:
    """What a printed bus bandwidth over the bandwidth of the same time says (GB/s)."""
    ratio = busbw / speed
    return Speed(ratio, _FEW / speed + _NEAR / 2 * ratio, busbw)


def fits(name: str, ranks: int, speed: Speed) -> bool:
    """Whether busbw / algbw is that of a collective: 2 (n-1)/n, (n-1)/n or 1 over n ranks (0: of any number)."""
    least, most = (1 - 1 / ranks,) * 2 if ranks else (0.5, 1.0)
    if name == "all_reduce":
        least, most = 2 * least, 2 * most
    elif name not in _PARTED:
        least = most = 1.0
    return least - speed.unsure <= speed.ratio <= most + speed.unsure


def guess_collective(reduction: str, root: str, ranks: int, speed: Speed) -> str:
    """The collective, where the log does not name it: from reduction, root, and bus bandwidth / bandwidth."""
    reduced, rooted = reduction != "none", root != "-1"
    names: tuple[str, ...] = ("all_reduce", "reduce_scatter") if reduced else ("all_gather", "send_receive")
    if rooted:
        names = ("reduce",) if reduced else ("broadcast", "gather", "scatter")
    found = [name for name in names if fits(name, ranks, speed)]
    return found[0] if len(found) == 1 and found[0] != "send_receive" else UNKNOWN
