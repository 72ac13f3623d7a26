"""Widths of links, from laws that were judged on networks, nodes and versions that were left out of their fits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from statistics import fmean
from typing import Literal

from msgspec import to_builtins
from pydantic import BaseModel, ConfigDict, Field

from simulator.calibration.fits.accuracy import width_left_out
from simulator.calibration.yaml_text import table_text
from simulator.fabrics.link_widths import ANY, PARTS, Distances, LeftOutWidth, Part, library_over
from simulator.models.groups import group_by

DISTANCES = ("fitted", "farther", "version", "described")


class Case(BaseModel):
    """A law on timings that it was not fitted to, a row of `docs/developers/network-cases.csv`.

    - `network`: the machines; all cases of one network together count once.
    - `place`: links between `nodes`, or between the `gpus` of a node. `over`: the kind of the links.
    - `distance`: `fitted`: every second size left out; `farther`: fitted on fewer nodes or GPUs, by a factor of
      2^`doublings`; `version`: fitted to another version of the library; `described`: not fitted at all.
    - `timings`: how many were predicted. `rate`, `start_up`: the errors (`part_errors`), empty where nothing shows
      them; `own_rate`, `own_start_up`: those of a law that was fitted there.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    network: str
    place: Literal["nodes", "gpus"]
    over: str
    distance: Literal["fitted", "farther", "version", "described"]
    setting: str
    timings: int = Field(ge=1)
    rate: float | None = Field(default=None, ge=0)
    start_up: float | None = Field(default=None, ge=0)
    own_rate: float | None = Field(default=None, ge=0)
    own_start_up: float | None = Field(default=None, ge=0)
    doublings: float = Field(default=1.0, gt=0)

    @property
    def kind(self) -> str:
        """What the case stands for: links of its kind; for a law from fewer nodes or GPUs, collectives of a library."""
        return library_over(self.over) if self.distance == "farther" else self.over

    def square(self, part: Part) -> float | None:
        """The square of the error of one part; for a law from elsewhere, what it has beyond one that was fitted here.

        Per doubling of nodes or GPUs: variances add up, and may come out below 0 for a single case.
        """
        error = getattr(self, part)
        if error is None or self.distance in ("fitted", "described"):
            return None if error is None else float(error**2)
        own = getattr(self, f"own_{part}")
        return None if own is None else float((error**2 - own**2) / self.doublings)


def learn_widths(cases: Sequence[Case]) -> Distances:
    """Widths by place and distance (`nodes fitted`), then by kind of link; `ANY` for links of an unknown kind.

    The error of a network is the root of the mean square of its cases, and every network counts once. The width of a
    kind of links comes from its networks and, with the weight of two, from the networks of all kinds at the same place
    (`width_left_out`). That of `farther` is for one doubling; its kinds are libraries, and its pool is the library's
    networks, between nodes and inside them.
    """
    made: dict[str, dict[str, LeftOutWidth]] = {}
    for place, distance in product(("nodes", "gpus"), DISTANCES):
        alike = [case for case in cases if case.distance == distance]
        here = [case for case in alike if case.place == place]
        if here:
            kinds = [*sorted({case.kind for case in here}), ANY]
            made[f"{place} {distance}"] = {kind: _width(here, alike, kind) for kind in kinds}
    return made


def _width(here: Sequence[Case], alike: Sequence[Case], kind: str) -> LeftOutWidth:
    """The width of one kind of links among the cases of one place, or of all kinds together."""
    own = [case for case in here if kind in (case.kind, ANY)]
    # How an error grows belongs to the library, between nodes as inside them; all other errors to the place.
    grows = own[0].distance == "farther" and kind != ANY
    pool = [case for case in alike if case.kind == kind] if grows else here
    rate, start_up = (width_left_out(_errors(own, part), {"": _errors(pool, part)}) for part in PARTS)
    return LeftOutWidth(rate, start_up, len({case.network for case in own}), sum(case.timings for case in own))


def _errors(cases: Iterable[Case], part: Part) -> list[float]:
    known = (case for case in cases if case.square(part) is not None)
    networks = group_by(known, lambda case: f"{case.network} {case.kind}").values()
    return [math.sqrt(max(0.0, fmean(case.square(part) or 0.0 for case in alike))) for alike in networks]


_HEAD = """\
# Written by `sparsim calibrate widths docs/developers/network-cases.csv`, checked by a test: the factor within which
# links are right, either way, in nine of ten cases, by what they were left out of. `farther`: for one doubling of the
# nodes, or of the GPUs in a node. The factors of `any` rest on the networks of all kinds.
"""


def widths_yaml(widths: Mapping[str, Mapping[str, LeftOutWidth]]) -> str:
    """The text of `configs/network_widths.yaml`."""
    return _HEAD + table_text(to_builtins(widths))
