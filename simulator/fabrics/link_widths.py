"""How wrong the links of a network may be: factors that hold nine of ten cases, from networks that were left out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Literal

from msgspec import convert

from simulator.fabrics.base import Fabric
from simulator.fabrics.collectives import FittedLaw
from simulator.fabrics.nvswitch import OneNode
from simulator.fabrics.transport import PRIORS
from simulator.loading.documents import read_document
from simulator.loading.finding import find_shipped
from simulator.models.widths import DEVIATION, NORMAL_95
from simulator.records import Record
from simulator.units import print_alike

WIDTHS = "configs/network_widths.yaml"
FAST_TCP = "tcp, NIC faster than a stream"
"""TCP over a NIC that carries more than one connection was seen to move."""
ANY = "any"
"""Links of a kind that no network stands for, or that is not stated."""
_LARGE = 2.0**20
_UNKNOWN = 10.0

Level = Literal["measured", "transferred", "assumed"]
Part = Literal["rate", "start_up"]
PARTS: tuple[Part, ...] = ("rate", "start_up")
_WEAKEST: tuple[Level, ...] = ("measured", "transferred", "assumed")


class LinkWidth(Record):
    """How wrong the links may be: each part is right within its factor, either way, in nine of ten cases.

    - `rate`: of the seconds that bytes take on the links.
    - `start_up`: of all other seconds of a message or a collective.
    - `level`: `measured`: the error of the fit at this distance; `transferred`: errors of other networks, each left out
      in turn; `assumed`: no network stands for links of this kind. Of two parts the weaker one.
    - `source`: in words, what the factors rest on.
    """

    rate: float
    start_up: float
    level: Level
    source: str


class LeftOutWidth(Record):
    """Factors from networks that were left out in turn, and how many networks and timings they rest on."""

    rate: float = _UNKNOWN
    start_up: float = _UNKNOWN
    networks: int = 0
    timings: int = 0


Distances = Mapping[str, Mapping[str, LeftOutWidth]]


def link_width(network: Fabric, nodes: int) -> LinkWidth:
    """How wrong the links between nodes may be, when `nodes` nodes exchange.

    - A law that was fitted to timings on as many nodes has the error of its fit (`fitted_for`, else `held_out_mape`);
      where none is stated, that of other networks' fits.
    - ln^2 of the factor grows with every doubling or halving of the nodes, and where the library's version is not the
      one that was fitted. It stays below that of a network that is only described.
    - A described network, or one whose bandwidth was changed, has the error that networks with the same transport had
      which were predicted from data sheets and NCCL's constants; `transport.prior_width` of a user's own transport
      replaces that of its rate.

    The figures are those of `configs/network_widths.yaml`: docs/developers/accuracy.md says from which networks.
    """
    if isinstance(network, OneNode) or nodes < 2:
        return LinkWidth(1.0, 1.0, "measured", "nothing travels between nodes")
    over, transport = _links_between(network), network.transport
    prior = transport.prior_width if transport is not None and transport != PRIORS.get(transport.kind) else None
    doublings = network.fitted_for.doublings(nodes, "nodes") if network.fitted_for else 0.0
    terms = (network.bandwidth, network.latency, network.held_out_mape, network.nccl.version)
    return _width(_Law("nodes", over, network.fitted_for, *terms, doublings=doublings, prior=prior))


def link_width_inside(network: Fabric, gpus_per_node: int | None = None) -> LinkWidth:
    """How wrong the links inside a node may be, when so many GPUs of a node exchange: as `link_width`.

    Without a number of GPUs, the law is used at those that it was fitted to. A network that is the inside of one node
    has its own `fitted_for`, another one that of its `intra_node`.
    """
    if gpus_per_node == 1:
        return LinkWidth(1.0, 1.0, "measured", "nothing travels inside a node")
    inside = network.node_links(range(gpus_per_node or 2))
    own = isinstance(network, OneNode)
    fitted = network.fitted_for if own else inside.fitted_for
    doublings = fitted.doublings(gpus_per_node, "gpus_per_node") if fitted and gpus_per_node else 0.0
    mape, version = (network.held_out_mape, network.nccl.version) if own else (None, None)
    terms = (inside.bandwidth, inside.latency, mape, version)
    return _width(_Law("gpus", inside.joined_by, fitted, *terms, doublings=doublings))


class _Law(Record):
    """A link law as it is used: its place and kind of links, what it was fitted to, and its terms."""

    place: str
    over: str
    fitted: FittedLaw | None
    bandwidth: float
    latency: float
    mape: float | None
    version: str | None
    doublings: float = 0.0
    prior: float | None = None

    def is_fitted(self, part: Part) -> bool:
        """Whether this part of the law is the one that was fitted."""
        if self.fitted is None or not print_alike(self.fitted.bandwidth, self.bandwidth):
            return False
        small = (self.fitted.smallest or 0.0) < _LARGE
        return part == "rate" or (small and print_alike(self.fitted.latency, self.latency))

    def error(self, part: Part) -> float | None:
        """Standard deviation of the logarithm on what was left out of the fit, if it is stated."""
        stated = getattr(self.fitted, part)
        if stated is None and self.mape is not None:
            return DEVIATION * self.mape
        return None if stated is None else float(stated)


def _width(law: _Law) -> LinkWidth:
    (rate, first, words), (start_up, second, other) = (_part(part, law) for part in PARTS)
    level = max(first, second, key=_WEAKEST.index)
    return LinkWidth(rate, start_up, level, f"rate: {words}; start-up: {other}")


def _part(part: Part, law: _Law) -> tuple[float, Level, str]:
    """Factor of one part, its level, and the words for both."""
    described, level, words = _described(part, law)
    if not law.is_fitted(part) or law.fitted is None:
        return described, level, words
    own, fits = law.error(part), _left_out(law, "fitted")
    square = (NORMAL_95 * own) ** 2 if own is not None else math.log(getattr(fits, part)) ** 2
    told = ["error of its fit" if own is not None else f"fits of {_networks(fits)}"]
    if law.doublings > 0:
        farther = _left_out(law, "farther")
        square += law.doublings * math.log(getattr(farther, part)) ** 2
        counted = "nodes" if law.place == "nodes" else "GPUs"
        told.append(f"fitted on another number of {counted} ({_networks(farther)})")
    if law.version and law.fitted.version and law.version != law.fitted.version:
        version = _left_out(law, "version")
        square += math.log(getattr(version, part)) ** 2
        told.append(f"fitted to version {law.fitted.version} ({_networks(version)})")
    level = "measured" if own is not None and len(told) == 1 else "transferred"
    return min(math.exp(math.sqrt(square)), described), level, ", ".join(told)


def _described(part: Part, law: _Law) -> tuple[float, Level, str]:
    """The factor of links that nobody measured."""
    if law.prior is not None and part == "rate":
        return law.prior, "assumed", "width that its transport states"
    known = _left_out(law, "described")
    if law.over in shipped_widths().get(f"{law.place} described", {}) and law.over != ANY:
        return getattr(known, part), "transferred", f"described only, as {_networks(known)} that were left out"
    return getattr(known, part), "assumed", f"described only, by links of an unknown kind ({_networks(known)})"


def _links_between(network: Fabric) -> str:
    """The kind of the links between nodes, as the widths name it. gloo is taken as MPI, as in `PRIORS`."""
    kind, stream = network.transport_kind, PRIORS["tcp"].stream_bandwidth
    if kind == "tcp":
        return FAST_TCP if stream and network.bandwidth > stream else kind
    return {None: ANY, "gloo": "mpi"}.get(kind) or str(kind)


def _networks(width: LeftOutWidth) -> str:
    return f"{width.networks} network{'' if width.networks == 1 else 's'}, {width.timings} timings"


def _left_out(law: _Law, distance: str) -> LeftOutWidth:
    """The factors for a kind of links; those of all kinds where no network stands for it."""
    found = shipped_widths().get(f"{law.place} {distance}", {})
    plain = "tcp" if law.over == FAST_TCP else law.over
    kinds = [library_over(law.over)] if distance == "farther" else [law.over, plain]
    return next((found[kind] for kind in (*kinds, ANY) if kind in found), LeftOutWidth())


def library_over(over: str) -> str:
    """The library whose collectives travel over links of a kind: it decides how errors grow with nodes and GPUs."""
    return "mpi" if over == "mpi" else "nccl"


@cache
def shipped_widths() -> Distances:
    """The widths that ship with the package, by place and distance, then by kind of link; without the file, none."""
    path = find_shipped(WIDTHS)
    return convert(read_document(path).data, Distances) if path else {}
