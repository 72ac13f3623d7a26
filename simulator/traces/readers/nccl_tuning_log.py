"""NCCL's own estimates and choices: the tables and lines of NCCL_DEBUG_SUBSYS=TUNING."""

from __future__ import annotations

import math
import re
from pathlib import Path

from simulator.errors import Problem, format_value
from simulator.records import Record
from simulator.traces.readers.collective_names import collective_named
from simulator.traces.readers.streams import Contents, contents_of, is_whole, numbered_lines

MAX_PROBLEMS = 100
"""Problems after which the rest of a file is not read."""
_BODY = re.compile(r"NCCL INFO\s+(.*)$")
_CELL = re.compile(r"\s*(-?\d+(?:\.\d+)?)/\s*(-?\d+(?:\.\d+)?)\s*")
_CHOICE = re.compile(
    r"(?:(\w+): )?\b([0-9]{1,18}) Bytes -> Algo (\w+) proto (\w+)"
    r"(?: time (-?\d+(?:\.\d+)?))?(?:.*channel\{Lo\.\.Hi\}=\{([0-9]{1,6})\.\.([0-9]{1,6})\})?"
)
_FUNCTIONS = ("Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce")
ALGORITHMS = ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat")
"""NCCL's algorithms in the order of their numbers, which logs before 2.24 print (src/include/nccl_common.h)."""
PROTOCOLS = ("ll", "ll128", "simple")


class TuningCell(Record):
    """One cell of the table: start-up seconds and payload bytes per second that NCCL expects; 0: never chosen."""

    primitive: str
    algorithm: str
    protocol: str
    latency: float
    bandwidth: float


class TuningChoice(Record):
    """NCCL's choice for one call: bytes, algorithm, protocol, expected seconds and channels where they are logged."""

    primitive: str
    nbytes: int
    algorithm: str
    protocol: str
    seconds: float | None
    channels: int | None


def read_nccl_tuning(path: Path) -> Contents[TuningCell | TuningChoice]:
    """Read the lines that NCCL 2.7 to 2.27 writes with NCCL_DEBUG=INFO and TUNING among NCCL_DEBUG_SUBSYS.

    A table has one heading (`Latency/AlgBw | Tree/ LL | ...`, before 2.14) or two (`Algorithm | ...` above
    `Protocol | ...`), and a row `latency us/bandwidth GB/s` per collective. A row that does not fit its heading is a
    problem with file and line. Raises InputError where the file can't be read.
    """
    problems: list[Problem] = []
    parts: list[TuningCell | TuningChoice] = []
    heading, columns = list[str](), list[tuple[str, str]]()
    for number, line in numbered_lines(path, problems):
        found = _BODY.search(line)
        if found is None:
            continue
        if len(problems) >= MAX_PROBLEMS:
            break
        name, *rest = (part.strip() for part in found[1].rstrip("| ").split("|"))
        if name == "Latency/AlgBw":
            columns = [(_name_of(one), _name_of(other)) for one, _, other in (part.partition("/") for part in rest)]
        elif name == "Algorithm":
            heading = [_name_of(part) for part in rest]
        elif name == "Protocol" and heading:
            each, odd = divmod(len(rest), len(heading))
            columns = [(heading[place // each], _name_of(part)) for place, part in enumerate(rest)] if not odd else []
            if not columns:
                what = f"as many protocols for each of {len(heading)} algorithms"
                problems.append(Problem(f"{path}:{number}", what, format_value(found[1].strip())))
        elif name in _FUNCTIONS and rest and columns:
            made = _cells(collective_named(name), rest, columns)
            if isinstance(made, str):
                problems.append(Problem(f"{path}:{number}", made, format_value(found[1].strip())))
            else:
                parts += made
        elif choice := _CHOICE.search(found[1]):
            parts.append(_choice(choice))
    hint = "set NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING"
    return contents_of(parts, problems, Problem(str(path), "NCCL's TUNING tables", "none of their lines", hint))


def _cells(primitive: str, texts: list[str], columns: list[tuple[str, str]]) -> list[TuningCell] | str:
    """The cells of one row, or a text that says what was expected."""
    matches = [match for text in texts if (match := _CELL.fullmatch(text))]
    if not len(matches) == len(texts) == len(columns):
        return f"{len(columns)} cells of latency/bandwidth"
    made = []
    for (algorithm, protocol), match in zip(columns, matches, strict=True):
        latency, bandwidth = map(float, match.groups())
        if not (0 <= latency < math.inf and 0 <= bandwidth < math.inf):
            return "latencies and bandwidths of 0 or more"
        made.append(TuningCell(primitive, algorithm, protocol, latency * 1e-6, bandwidth * 1e9))
    return made


def _choice(match: re.Match[str]) -> TuningChoice:
    name, nbytes, algorithm, protocol, time, low, high = match.groups()
    return TuningChoice(
        collective_named(name) if name in _FUNCTIONS else "",
        int(nbytes),
        _name_from_number(algorithm, ALGORITHMS),
        _name_from_number(protocol, PROTOCOLS),
        None if time is None else float(time) * 1e-6,
        None if low is None else int(high) - int(low) + 1,
    )


def _name_from_number(text: str, names: tuple[str, ...]) -> str:
    """A name, from the number that older logs print."""
    return names[int(text)] if is_whole(text) and int(text) < len(names) else _name_of(text)


def _name_of(text: str) -> str:
    """The name of an algorithm or protocol here: collnet_direct for CollNetDirect, nvls_tree for NVLSTree."""
    known = {"collnet": "collnet_direct"} | {name.replace("_", ""): name for name in ALGORITHMS}
    plain = text.strip().replace("_", "").lower()
    return known.get(plain, plain)
