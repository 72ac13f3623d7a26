"""Recorded bandwidths: what links carried over time, from a CSV file, as a scenario names it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from simulator.bounds import BOUNDS, ShareOfLink
from simulator.component import Spec, expected
from simulator.engine.plan.network_setup import LinkSteps
from simulator.errors import InputError, Problem, format_value
from simulator.loading.csv_tables import read_rows
from simulator.loading.finding import find_in_folder
from simulator.units import RateOrZero, Seconds, parse

MAX_STEPS = 100_000
"""Rows of a trace: a day at one row a second."""


class RecordedLink(Spec):
    """What the links whose name is or starts with `link` carried from each of `seconds` on, until the next one.

    - `link`: as in the `links` of a cluster.
    - `seconds`: times in rising order.
    - `share`: shares of their bandwidth that they carried.
    - `rate`: bandwidths, at most those that the network states; instead of `share`.
    """

    link: str = Field(min_length=1)
    seconds: tuple[Seconds, ...] = Field(min_length=1, max_length=MAX_STEPS)
    share: tuple[ShareOfLink, ...] = ()
    rate: tuple[RateOrZero, ...] = ()

    @model_validator(mode="after")
    def _rising(self) -> Self:
        if {len(self.share), len(self.rate)} != {0, len(self.seconds)}:
            got = f"{len(self.share)} and {len(self.rate)} for {len(self.seconds)} times"
            raise expected("a share, or a rate, for each time", got)
        fallen = next((pair for pair in pairwise(self.seconds) if pair[0] >= pair[1]), None)
        if fallen:
            raise expected("times that rise", f"{fallen[0]:g} s, then {fallen[1]:g} s", f"rows of {self.link} in order")
        return self


class LinkTrace(Spec):
    """Recorded bandwidths of links: the name of a CSV file beside the scenario, or a mapping with `file` and `start`.

    The columns of the file are `seconds`, `link` (a name as in the `links` of a cluster) and either `share` (of the
    link's bandwidth, 0 to 1) or `rate` (with its unit); the rows of a link are in order of time. Each row holds until
    the next one of the same link. A link has its whole bandwidth before its first row, and after its last row what
    that says; a result warns where an iteration is longer than the trace.

    Every iteration, and every period of local steps, begins at second `start` of the trace. Schedules whose exchanges
    reach into the next period are refused.

    - `start`: seconds of the trace that have passed when an iteration begins.
    - `links`: the rows of the file, link by link.
    """

    start: Seconds = 0.0
    links: tuple[RecordedLink, ...] = Field(min_length=1)

    @property
    def length(self) -> float:
        """Seconds from `start` to the last row."""
        return max(item.seconds[-1] for item in self.links) - self.start

    @model_validator(mode="after")
    def _starts_within(self) -> Self:
        if self.length < 0:
            last = self.length + self.start
            raise expected(f"a `start` within the trace, at most {last:g} s", f"{self.start:g} s")
        return self

    def steps(self) -> tuple[LinkSteps, ...]:
        """The steps of every link, in seconds of an iteration."""
        return tuple(
            LinkSteps(item.link, tuple(time - self.start for time in item.seconds), item.share, item.rate)
            for item in self.links
        )


def read_link_trace(path: Path) -> tuple[Mapping[str, Any], ...]:
    """The rows of a trace, link by link. Raises InputError with file, line and column of everything that is wrong."""
    problems: list[Problem] = []
    made: dict[str, dict[str, Any]] = {}
    for count, row in enumerate(read_rows(path, ("seconds", "link"), problems)):
        given = [name for name in ("share", "rate") if name in row.cells]
        if count == MAX_STEPS or len(given) != 1:
            much = count == MAX_STEPS
            what = f"at most {MAX_STEPS:,} rows" if much else "a column share or a column rate"
            problems.append(Problem(row.where, what, "more" if much else " and ".join(given) or "neither"))
            break
        time = row.convert("seconds", float, "seconds, 0 or more", _allows("time"))
        if given[0] == "share":
            value = row.convert("share", float, "a share from 0 to 1", _allows("share of a link"))
        else:
            what = "a rate with its unit, such as 187.5 Mbit/s, or 0"
            value = row.convert("rate", lambda text: parse(text, "bandwidth"), what, _allows("bandwidth"))
        name = row.convert("link", str.strip, "the name of a link", bool) or ""
        link = made.setdefault(name, {"seconds": [], given[0]: []})
        if None not in (time, value):
            if link["seconds"] and time <= link["seconds"][-1]:
                row.note("seconds", f"more than {link['seconds'][-1]:g}, the time before", format_value(time))
            link["seconds"].append(time)
            link[given[0]].append(value)
    if problems or not made:
        raise InputError(problems or Problem(str(path), "at least one row", "none"))
    return tuple({"link": name, **columns} for name, columns in made.items())


def _allows(kind: str) -> Callable[[float], bool]:
    """Whether a number is 0 or within the bounds of its kind."""
    return lambda value: math.isfinite(value) and not BOUNDS[kind].problem(value, zero=True)


def _read(value: Any, info: ValidationInfo) -> Any:
    """The trace with the rows of its file in the place of its name."""
    value = {"file": value} if isinstance(value, str) else value
    if not isinstance(value, Mapping) or "file" not in value:
        return value
    name, near = value["file"], (info.context or {}).get("near")
    path = (find_in_folder(name, near) or find_in_folder(name, None)) if isinstance(name, str) else None
    if path is None:
        where = "in the folder of the scenario or the current one"
        raise expected(f"the name of a CSV file with recorded bandwidths, {where}", format_value(name))
    try:
        links = [RecordedLink.model_validate(item) for item in read_link_trace(path)]
    except InputError as error:
        raise PydanticCustomError("input_error", "{text}", {"text": str(error), "problems": error.problems}) from None
    return {**{key: item for key, item in value.items() if key != "file"}, "links": links}


FileOrTrace = Annotated[
    LinkTrace, BeforeValidator(_read, json_schema_input_type=str | dict[str, str | float] | LinkTrace)
]
"""A trace of links, or the name of its file, or a mapping with `file` and `start`."""
