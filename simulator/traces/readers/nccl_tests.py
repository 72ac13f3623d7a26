"""What a log of nccl-tests holds: its tests, with their settings and rows."""

from __future__ import annotations

import re
from collections.abc import Mapping

from simulator.errors import Problem
from simulator.records import Record
from simulator.traces.readers.streams import is_whole

_SILENT = re.compile(r".*_(?:DEBUG|DUMP|LOG).*")


class NcclRow(Record):
    """One size: bytes of the whole payload, and seconds out of place and in place (None where not run)."""

    nbytes: int
    elements: int
    dtype: str
    out_of_place: float | None
    in_place: float | None
    line: int


class NcclTest(Record):
    """One run of one test program.

    `collective` as in `MeasuredCollective` (all_reduce, all_gather, ...); `ranks` and `nodes` are 0 where the log does
    not list them; `environment`: variables that NCCL says were set; `version`: of NCCL; `network`: the one it chose.
    """

    collective: str
    ranks: int
    nodes: int
    gpus: tuple[str, ...]
    version: str
    network: str
    environment: Mapping[str, str]
    rows: tuple[NcclRow, ...]
    line: int

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


class NcclLog(Record):
    """The tests of a file, a problem for every damaged row or table, and notes on what its lines do not say."""

    tests: tuple[NcclTest, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()
