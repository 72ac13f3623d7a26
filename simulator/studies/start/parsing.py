"""What a person types becomes an answer: networks, ways between sites, methods and whole numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from simulator.aliases import explain, kind_of
from simulator.component import build, discover
from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.fabrics.base import Fabric
from simulator.loading.documents import Document, parse_document, validate_document
from simulator.loading.finding import find_file, known_names
from simulator.scenario.named_parts import read_part
from simulator.sparsifiers.base import Sparsifier
from simulator.studies.start.answers import BetweenSites, NetworkAnswer
from simulator.trainings.options import parse_method
from simulator.units import read_quantity

DENSITIES = {"dgc": 0.001}
"""Density of a method that is named without one: that of its paper (Lin et al., DGC, ICLR 2018)."""
DENSITY = 0.01
"""Density of all other methods that are named without one: what most papers of Top-k use."""
TCP_LATENCY, RDMA_LATENCY = 50e-6, 5e-6
"""Start-up of a message where none is stated: of TCP (measured: 30 to 51 us in networks/10gbe-*), and of InfiniBand and
RDMA (2 to 5 us in networks/100gb-ib* and networks/ib-4xv100)."""
_RDMA_FROM = 100e9 / 8
"""Bytes/s from which on a network is taken to be InfiniBand or RDMA, unless its latency says otherwise."""
_NICS = re.compile(r"(\d{1,2})\s*[x×*]\s*(.+)")
_RATE = re.compile(r"[\d.]+\s*([kMGT]i?)?(bit|b|B)?(/.*)?")
"""What is meant as a rate, and not as the name of a network such as 10gbe-tcp."""
_BETWEEN_METHODS = re.compile(r"\s*(?:[,;]|\bor\b|\band\b)\s*(?![^{]*\})")


def parse_number(option: str, text: str, most: int) -> int:
    """A whole number from 1 to `most`. Raises InputError for anything else."""
    number = int(text) if re.fullmatch(r"\d{1,9}", text.strip()) else 0
    if not 1 <= number <= most:
        raise InputError(Problem(option, f"a whole number from 1 to {most}", format_value(text.strip())))
    return number


def find_name(option: str, text: str, names: Sequence[str]) -> str:
    """The one of `names` that a text stands for: itself, its part after the folder, or a part that only one has.

    Raises InputError, with the nearest name as a hint, where there is none or several.
    """
    text = text.strip()
    if text in names:
        return text
    same = [name for name in names if name.rpartition("/")[2] == text]
    close = same or [name for name in names if text and text.lower() in name.lower()]
    if len(close) == 1:
        return close[0]
    if len(close) > 1:
        got = f"{format_value(text)}, which {len(close)} of them contain"
        raise InputError(Problem(option, "one name", got, ", ".join(close[:8])))
    stems = {name.rpartition("/")[2]: name for name in names}
    raise InputError(Problem(option, "a name of the list", format_value(text), suggest_nearest(text, stems)))


def parse_network(option: str, text: str) -> NetworkAnswer:
    """A shipped network, a file, or a rate with a latency: `25 Gbit/s`, `25 Gbit/s, 20 us`, `8 x 400 Gbit/s`.

    Raises InputError for anything else.
    """
    text = text.strip()
    nics = _NICS.fullmatch(text)
    rate, _, delay = (nics[2] if nics else text).partition(",")
    if nics is None and not delay and not _RATE.fullmatch(rate.strip()):
        name = text if find_file(text, None) else find_name(option, text, known_names("networks"))
        network: Fabric = read_part(name, "networks")
        return NetworkAnswer(name=name, read=network, bandwidth=network.bandwidth, latency=network.latency)
    bandwidth = _quantity(option, rate, "bandwidth")
    if delay.strip():
        latency = _quantity(option, delay, "time")
    else:
        latency = RDMA_LATENCY if bandwidth >= _RDMA_FROM else TCP_LATENCY
    return NetworkAnswer(
        bandwidth=bandwidth,
        latency=latency,
        stated=bool(delay.strip()),
        nics=parse_number(option, nics[1], 64) if nics else 1,
    )


def parse_between(option: str, text: str) -> BetweenSites:
    """The rate and the round trip of the way between sites: `200 Mbit/s, 40 ms`.

    Raises InputError for anything else.
    """
    rate, comma, delay = text.partition(",")
    if not comma:
        what = "a rate and a round trip, such as '200 Mbit/s, 40 ms'"
        raise InputError(Problem(option, what, format_value(text.strip())))
    return BetweenSites(_quantity(option, rate, "bandwidth"), _quantity(option, delay, "time", zero=True))


def is_rdma(network: NetworkAnswer) -> bool:
    """Whether a network that was given by its rate is taken to be one with RDMA."""
    return network.latency <= 2 * RDMA_LATENCY


def _quantity(option: str, text: str, dimension: str, zero: bool = False) -> float:
    value = read_quantity(option, text.strip(), dimension)
    least = 0.0 if zero else 1e-9
    if not least <= value <= (1e15 if dimension == "bandwidth" else 1e3):
        raise InputError(Problem(option, f"a possible {dimension}", format_value(text.strip())))
    return value


def parse_methods(option: str, text: str) -> tuple[Mapping[str, Any], ...]:
    """One or several methods: `topk 1 %`, `dgc, powersgd or dense`, `{kind: topk, density: 0.01}`.

    A number after the kind is its density, or the rank of PowerSGD. Raises InputError for unknown kinds and wrong
    parameters.
    """
    parts = [part for part in _BETWEEN_METHODS.split(text.strip()) if part]
    if not parts:
        raise InputError(Problem(option, "a method, such as topk 1 %", format_value(text)))
    return tuple(_parse_method(option, part) for part in parts)


def _parse_method(option: str, text: str) -> Mapping[str, Any]:
    if text.startswith("{"):
        data = parse_document(text, option).data
    elif explain(text):
        data = {"kind": text}
    else:
        data = parse_method(re.sub(r"(\d)\s*%", r"\1%", text))
        if isinstance(data.get("density"), str):
            data = {**data, "density": read_quantity(option, data["density"], "fraction")}
    kind, known = data.get("kind") if isinstance(data, dict) else None, discover(Sparsifier)
    if isinstance(kind, str) and kind not in known and (meant := kind_of("sparsifier", kind)):
        data, kind = {**data, **meant}, str(meant["kind"])
    if not isinstance(kind, str) or kind not in known:
        hint = explain(str(kind)) or suggest_nearest(str(kind), known)
        raise InputError(Problem(option, "a kind of sparsifier", format_value(kind), hint))
    fields = known[kind].model_fields
    if "density" in fields and "density" not in data:
        data = data | {"density": DENSITIES.get(kind, DENSITY)}
    if "density" in data and "density" not in fields and "rank" in fields:
        data = {"kind": kind, "rank": data["density"]}
    validate_document(lambda value, context: build(Sparsifier, value), Document(option, data, {}))
    return dict(data)
