"""What a log of nccl-tests holds: its tests, with their settings and rows, and which collective rows are of."""

from __future__ import annotations

import re

from simulator.records import Record, Struct, field
from simulator.traces.readers.collective_names import UNKNOWN
from simulator.traces.readers.streams import is_whole

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


_SILENT = re.compile(r".*_(?:DEBUG|DUMP|LOG).*")


class NcclRow(Record):
    """One size: bytes of the whole payload, seconds out of place and in place (None where not run), and its speeds."""

    nbytes: int
    out_of_place: float | None
    in_place: float | None
    line: int
    speeds: tuple[Speed, ...] = ()


class NcclTest(Struct):
    """One run of one test program.

    `collective` as in `MeasuredCollective` (all_reduce, all_gather, ...); `ranks` and `nodes` are 0 where the log does
    not list them; `environment`: variables that NCCL says were set; `version`: of NCCL; `network`: the one it chose.
    """

    line: int
    collective: str = ""
    ranks: int = 0
    nodes: int = 0
    gpus: tuple[str, ...] = ()
    version: str = ""
    network: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    rows: tuple[NcclRow, ...] = ()

    @property
    def setting(self) -> str:
        """What was set that may change times, such as `NCCL_NVLS_ENABLE=0`; variables of messages are left out."""
        return ", ".join(f"{k}={v}" for k, v in sorted(self.environment.items()) if not _SILENT.fullmatch(k))

    @property
    def topology(self) -> str:
        """`ring` or `double_binary_tree` where the environment forced NCCL to use it, otherwise `nccl`."""
        forced = self.environment.get("NCCL_ALGO", "").lower()
        if forced in ("ring", "tree"):
            return {"ring": "ring", "tree": "double_binary_tree"}[forced]
        threshold = self.environment.get("NCCL_TREE_THRESHOLD", "")
        if not is_whole(threshold):
            return "nccl"
        sizes = [row.nbytes for row in self.rows]
        if int(threshold) == 0:
            return "ring"
        return "double_binary_tree" if sizes and max(sizes) <= int(threshold) else "nccl"
