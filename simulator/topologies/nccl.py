"""NCCL: rings, trees and sums in switches over all NICs, chosen by NCCL's own model or by rows of a tuner plug-in."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from simulator.bounds import BOUNDS
from simulator.component import Spec, expected
from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.hardware.machine import PROTOCOLS, Machine
from simulator.loading.finding import find_in_folder
from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Layout
from simulator.models.small_cache import LatestResults
from simulator.records import replace
from simulator.topologies.base import Rounds, Subset, Topology
from simulator.topologies.nccl_channels import Channels
from simulator.topologies.nccl_times import NcclTimes
from simulator.topologies.nccl_tuning import ALGORITHMS, Knowledge, NcclTuning
from simulator.topologies.ring import Ring
from simulator.topologies.tree import Tree
from simulator.units import Bytes, show_time

Collective = Literal["allreduce", "allgather", "reducescatter", "broadcast", "reduce"]
Algorithm = Literal["tree", "ring"]
WireProtocol = Literal["ll", "ll128", "simple"]
MOST_BYTES = 1e18
MAX_ROWS = 10_000

_WORDS = {"collective": get_args(Collective), "algorithm": get_args(Algorithm), "protocol": get_args(WireProtocol)}
_COLUMNS = ["collective", "min_bytes", "max_bytes", "algorithm", "protocol"]
_COLUMNS += ["channels", "nodes", "ranks", "pipe_ops", "registered"]
_NEEDED = 5
_WHOLE = re.compile(r"-?[0-9]{1,30}")


class TunerRow(Spec):
    """One row: sizes from `min_bytes` to `max_bytes` take `algorithm` and `protocol`; -1 stands for any value.

    Columns and meaning are those of NCCL's example tuner plug-in (NVIDIA/nccl, plugins/tuner/example, v2.30.7, 2025).
    `channels` changes no time here. A row for several operations in a group (`pipe_ops`) or for registered buffers
    (`registered: 1`) never applies.

    - `collective`: to which the row applies.
    - `nodes`: of the job.
    - `ranks`: workers of the job.
    - `registered`: of registered buffers.
    """

    collective: Collective
    min_bytes: Bytes = 0.0
    max_bytes: Bytes = MOST_BYTES
    algorithm: Algorithm
    protocol: WireProtocol
    channels: int = Field(default=-1, ge=-1, le=BOUNDS["count"].largest)
    nodes: int = Field(default=-1, ge=-1, le=BOUNDS["count"].largest)
    ranks: int = Field(default=-1, ge=-1, le=BOUNDS["count"].largest)
    pipe_ops: int = Field(default=-1, ge=-1, le=BOUNDS["count"].largest)
    registered: int = Field(default=-1, ge=-1, le=1)

    def refuse_unfit(self) -> None:
        if self.max_bytes < self.min_bytes:
            raise expected(f"`max_bytes` of at least {self.min_bytes:g} B", f"{self.max_bytes:g} B")

    def matches(self, primitive: str, nbytes: Floats, layout: Layout) -> npt.NDArray[np.bool_]:
        """The payloads (b,) to which the row applies. NCCL has trees for all-reduce only."""
        fits = (
            self.collective == primitive.replace("_", "")
            and (self.algorithm == "ring" or self.collective == "allreduce")
            and self.nodes in (-1, layout.nodes)
            and self.ranks in (-1, layout.workers)
            and self.pipe_ops in (-1, 1)
            and self.registered in (-1, 0)
        )
        return np.asarray((nbytes >= self.min_bytes) & (nbytes <= self.max_bytes) & fits)


def read_tuner(path: Path) -> tuple[TunerRow, ...]:
    """Rows of a tuner plug-in's file with 5 to 10 columns; blank lines, # comments and a heading are skipped.

    Raises InputError that names file, line and column.
    """
    problems: list[Problem] = []
    rows: list[TunerRow] = []
    count = 0
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            for line in reader:
                cells = [cell.strip().lower() for cell in line]
                if not any(cells) or cells[0].startswith("#") or cells[0] == "collective_type":
                    continue
                count += 1
                if count > MAX_ROWS:
                    raise InputError(Problem(f"{path}:{reader.line_num}", f"at most {MAX_ROWS} rows", "more"))
                found = _find_problems(cells, f"{path}:{reader.line_num}")
                if not found:
                    rows.append(_row(cells))
                problems += found
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(Problem(str(path), "a readable CSV file", format_value(str(error)))) from None
    if problems:
        raise InputError(problems)
    return tuple(rows)


def rows_of(value: Any, info: ValidationInfo) -> Any:
    """The rows, or those of the `.csv` file of this name, in the folder of the file that names it."""
    if not isinstance(value, str):
        return value
    path = find_in_folder(value, (info.context or {}).get("near"))
    if not value.endswith(".csv") or path is None:
        raise expected("rows, or the name of a .csv file in the folder of this file", format_value(value))
    try:
        return read_tuner(path)
    except InputError as error:
        raise PydanticCustomError("input_error", "{text}", {"text": str(error), "problems": error.problems}) from None


def _find_problems(cells: list[str], where: str) -> list[Problem]:
    """The problems of one line."""
    if not _NEEDED <= len(cells) <= len(_COLUMNS):
        columns = f"{_NEEDED} to {len(_COLUMNS)} columns"
        return [Problem(where, columns, str(len(cells)), f"in this order: {', '.join(_COLUMNS)}")]
    problems = []
    for column, text in zip(_COLUMNS, cells, strict=False):
        if column in _WORDS:
            if text not in _WORDS[column]:
                hint = suggest_nearest(text, _WORDS[column])
                problems.append(Problem(f"{where}: {column}", f"a known {column}", format_value(text), hint))
            continue
        least, most = (0 if column.endswith("_bytes") else -1), (1 if column == "registered" else np.inf)
        if not _WHOLE.fullmatch(text) or not least <= int(text) <= most:
            what = f"a whole number, {least} or more" if most > 1 else "-1, 0 or 1"
            problems.append(Problem(f"{where}: {column}", what, format_value(text)))
    if not problems and int(cells[2]) < int(cells[1]):
        problems.append(Problem(f"{where}: max_bytes", f"at least {cells[1]}, the `min_bytes`", cells[2]))
    return problems


def _row(cells: list[str]) -> TunerRow:
    """The row of cells without problems."""
    values: dict[str, Any] = dict(zip(_COLUMNS, cells, strict=False))
    # No job has as many nodes or ranks as may be written.
    most = int(BOUNDS["count"].largest)
    numbers = {column: min(int(text), most) for column, text in values.items() if column not in _WORDS}
    sizes = {column: min(float(values[column]), MOST_BYTES) for column in ("min_bytes", "max_bytes")}
    return TunerRow.model_validate({**values, **numbers, **sizes})


def _check_names(known: tuple[str, ...], text: str | None) -> str | None:
    """A list as NCCL takes it, such as `ring,tree` or `^LL128`, checked."""
    if text is not None:
        for name in text.removeprefix("^").split(","):
            if name.strip().lower() not in {item.lower() for item in known}:
                raise expected(f"names out of {', '.join(known)}", name, suggest_nearest(name, known))
    return text


_times: LatestResults[NcclTimes] = LatestResults(64)
"""What collectives take on machines that the points of a sweep have in common."""


class Nccl(Topology, kind="nccl"):
    """NCCL: rings, trees and sums in switches over all NICs, chosen by NCCL's own model for each payload.

    One ring and two complementary binary trees for each NIC of a node, each of which enters and leaves a node by NICs
    of its own; inside a node along the links that there are, as a chain where no ring closes. From Hopper on, sums are
    made in the NVSwitch (NVLS). Each payload takes the algorithm and protocol with the smallest latency + bytes /
    bandwidth by NCCL's tables for its version, the GPUs and the links (NVIDIA/nccl, src/graph/tuning.cc, v2.30.7,
    2025). LL leaves half of the bandwidth or less, LL128 120 of 128 bytes, Simple all of it.

    The time of a collective is its start-up, which counts NCCL's steps inside and between nodes and adds what the
    network's messages take beyond NCCL's constants, plus the bytes over the busiest link: chunks are pipelined, so that
    copies and hops overlap. What was measured of NCCL on a network (its `nccl`) replaces NCCL's constants.

    GPUs of AMD run RCCL: rings and trees, along every link of a full mesh, no sums in switches (ROCm/rccl,
    src/graph/tuning.cc and rome_models.cc, 2025), with NCCL's constants for Ampere. Accelerators of other makers are an
    expected-error.

    - `tuning`: what NCCL knows about the machines, where it is not what the cluster says.
    - `tuner`: rows of a tuner plug-in, written out or in a .csv file; the first row that fits a payload decides.
    - `algorithm`: as NCCL_ALGO, for example `ring` or `^tree`; where NCCL has none of these, it chooses by itself.
    - `protocol`: as NCCL_PROTO, for example `LL,Simple` or `^LL128`.
    - `max_channels`: as NCCL_MAX_NCHANNELS.
    - `tree_up_to`: instead of NCCL's model, a binomial tree for all-reduces of up to so many bytes and one ring above,
      whose steps follow each other.
    """

    by_machine: ClassVar[bool] = True

    tree_up_to: Bytes | None = None
    tuning: NcclTuning = NcclTuning()
    tuner: Annotated[
        tuple[TunerRow, ...],
        BeforeValidator(rows_of, json_schema_input_type=str | tuple[TunerRow, ...]),
    ] = ()
    algorithm: str | None = None
    protocol: str | None = None
    max_channels: int | None = Field(default=None, ge=1, le=64)

    @field_validator("algorithm", "protocol")
    @classmethod
    def _known_names(cls, value: str | None, info: ValidationInfo) -> str | None:
        return _check_names(ALGORITHMS if info.field_name == "algorithm" else PROTOCOLS, value)

    @field_validator("tuning", mode="before")
    @classmethod
    def _no_tuning(cls, value: object) -> object:
        return {} if value is None else value

    def choices(self, primitive: str, nbytes: Floats, layout: Layout, machine: Machine | None = None) -> list[Subset]:
        """One choice for each pair of algorithm and protocol that carries some payload."""
        if self.tree_up_to is not None:
            small = nbytes <= self.tree_up_to if primitive == "all_reduce" else np.zeros(len(nbytes), dtype=bool)
            return [Subset(Tree(), small, "tree"), Subset(Ring(), ~small, "ring")]
        machine = machine or Machine()
        key = self.fingerprint, machine, primitive, layout
        times = _times.get(key, lambda: NcclTimes(self._known(machine, layout), machine, primitive, layout))
        expected_time = times.expected(nbytes)
        chosen, by_row = self._chosen_numbers(primitive, nbytes, layout, expected_time)
        made = []
        for number in np.unique(chosen).tolist():
            mask = chosen == number
            algorithm, protocol = divmod(number, len(PROTOCOLS))
            made.append(
                Subset(
                    Channels(ALGORITHMS[algorithm], machine),
                    mask,
                    _label(number),
                    times.efficiency(algorithm, protocol, nbytes),
                    times.start_up(algorithm, protocol, nbytes),
                    self._reason(primitive, expected_time[..., mask], number, bool(by_row[mask].any())),
                )
            )
        return made

    def _known(self, machine: Machine, layout: Layout) -> Knowledge:
        known = self.tuning.knowledge(machine, layout)
        if self.max_channels is None or known.channels <= self.max_channels:
            return known
        left = self.max_channels / known.channels
        return replace(known, channels=self.max_channels, ring=left * known.ring, tree=left * known.tree)

    def _chosen_numbers(self, primitive: str, nbytes: Floats, layout: Layout, time: Floats) -> tuple[Ints, np.ndarray]:
        """The number of the chosen pair for each payload (b,), and whether a row of a tuner chose it."""
        allowed = self._allowed_pairs[..., None]
        if (np.isfinite(time) & allowed).any(axis=(0, 1)).all():
            time = np.where(allowed, time, np.inf)
        chosen = time.reshape(-1, len(nbytes)).argmin(axis=0)
        by_row = np.zeros(len(nbytes), dtype=bool)
        protocols = [name.lower() for name in PROTOCOLS]
        for row in reversed(self.tuner):  # the first row that fits overwrites the others
            number = ALGORITHMS.index(row.algorithm) * len(PROTOCOLS) + protocols.index(row.protocol)
            fits = row.matches(primitive, nbytes, layout)
            chosen[fits], by_row[fits] = number, True
        return chosen, by_row

    @property
    def _allowed_pairs(self) -> npt.NDArray[np.bool_]:
        """Which algorithms and protocols (6, 3) `algorithm` and `protocol` allow."""
        return _allowed(ALGORITHMS, self.algorithm)[:, None] & _allowed(PROTOCOLS, self.protocol)

    def _reason(self, primitive: str, time: Floats, number: int, by_row: bool) -> str:
        """Why a pair was chosen, with NCCL's estimates for the largest payload that it carries."""
        if by_row:
            return "a row of the tuner asks for it"
        asked = " and ".join(f"{key}: {text}" for key in ("algorithm", "protocol") if (text := getattr(self, key)))
        if asked and self._allowed_pairs.flat[number]:
            return f"asked for by {asked}"
        last = time.reshape(-1, time.shape[-1])[:, -1].copy()
        own, last[number] = last[number], np.inf
        next_best = int(last.argmin())
        reason = f"NCCL's model expects {show_time(own)} of it"
        if asked:
            name = primitive.replace("_", "-")
            reason = f"NCCL cannot carry {name} here with {asked}, and chooses by itself: {reason}"
        if np.isfinite(last[next_best]):
            reason += f", and {show_time(last[next_best])} of {_label(next_best)}"
        return reason

    def collective(self, primitive: str, nbytes: Floats, layout: Layout) -> Rounds:
        """The rounds of the algorithm that carries the largest payload; a broadcast goes along chains from worker 0."""
        total = nbytes.sum(axis=1) if nbytes.ndim == 2 else nbytes
        chosen = self.choices(primitive, np.array([total.max(initial=0.0)]), layout)
        carrier = next(choice.topology for choice in chosen if choice.mask.all())
        rounds: Rounds = getattr(carrier, primitive)(nbytes, layout)
        return rounds


def _label(number: int) -> str:
    """Algorithm and protocol of a pair."""
    algorithm, protocol = divmod(number, len(PROTOCOLS))
    return f"{ALGORITHMS[algorithm]} {PROTOCOLS[protocol]}"


def _allowed(known: tuple[str, ...], text: str | None) -> npt.NDArray[np.bool_]:
    """Which of the names a list such as `ring,tree` or `^tree` allows."""
    if text is None:
        return np.ones(len(known), dtype=bool)
    listed = {name.strip().lower() for name in text.removeprefix("^").split(",")}
    return np.array([(name.lower() in listed) != text.startswith("^") for name in known])
