"""Tables of measured collectives over TCP; rows are predicted from link rate, token bucket and ping-pong alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.prices import Prices, price_steps
from simulator.errors import Problem, suggest_nearest
from simulator.fabrics.single_switch import SingleSwitch
from simulator.loading.csv_tables import Row, read_models
from simulator.models.curves import Floats
from simulator.models.exchange import (
    PRIMITIVES,
    AllGather,
    AllReduce,
    Broadcast,
    Communication,
    Layout,
    Messages,
    PushPull,
    Round,
    binomial_reduce,
)
from simulator.reporting.answers.validated import ValidationRow
from simulator.topologies.base import Rounds, Topology
from simulator.topologies.gloo import Gloo
from simulator.topologies.mpi import Mpi
from simulator.topologies.mpi_algorithms import ALGORITHMS as MPI_ALGORITHMS
from simulator.topologies.parameter_server import ParameterServer
from simulator.topologies.recursive_doubling import RecursiveDoubling
from simulator.topologies.ring import Ring
from simulator.topologies.tree import Tree

NAME = "collectives.csv"

ETHERNET_BYTES = 14
"""Header of an Ethernet frame (IEEE 802.3), which a shaper counts; preamble, check sequence and gap it does not."""
TCP_BYTES = 20 + 20 + 12
"""Headers of IPv4 (RFC 791) and TCP (RFC 9293) with its time stamps option (RFC 7323, padded), part of the MTU."""

ALGORITHMS: dict[str, tuple[Topology, Callable[[float], Communication]]] = {
    "ring_all_reduce": (Ring(), AllReduce),
    "recursive_doubling_all_reduce": (RecursiveDoubling(), AllReduce),
    "tree_all_reduce": (Tree(), AllReduce),
    "parameter_server": (ParameterServer(), lambda nbytes: PushPull(nbytes, nbytes)),
    "ring_all_gather": (Ring(), AllGather),
    "tree_broadcast": (Tree(), Broadcast),
    "broadcast_at_once": (Tree(children="at_once"), Broadcast),
    "gloo_all_reduce": (Ring(), AllReduce),
    "gloo_broadcast": (Tree(children="at_once"), Broadcast),
    "gloo_all_gather": (Gloo(start="one_late"), AllGather),
}
"""Topology and step of each name in the column `collective`; the step is a function of the bytes."""


def _exchange(nbytes: Floats, layout: Layout) -> Rounds:
    """Workers 0 and 1 to each other, 2 and 3, ..."""
    workers = np.arange(layout.workers // 2 * 2)
    return [Round(workers, workers ^ 1, np.repeat(nbytes[:, None], len(workers), axis=1))]


MESSAGES: dict[str, Callable[[Floats, Layout], Rounds]] = {
    "reduce": binomial_reduce,
    "send": lambda nbytes, layout: [Round(np.array([0]), np.array([1]), nbytes[:, None])],
    "exchange": _exchange,
}
"""Rounds of what is not a step of its own: a reduce to worker 0, one message, and two-way messages of pairs."""


class CollectiveRow(BaseModel):
    """One measured collective on equal links; bytes are those of a worker's vector (in a gather: of its share).

    `link_rate_bit_per_s` and `burst_bytes` are the shaper's, with headers; `half_round_trip_s` is that of 4 bytes.
    `library` names an MPI library, and `algorithm` the one that it was told to use; without a name it chooses itself.
    Other columns describe the origin of the row and are not read.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    collective: str
    workers: int = Field(ge=2, le=1024)
    message_bytes: float = Field(gt=0)
    link_rate_bit_per_s: float = Field(gt=0)
    burst_bytes: float = Field(ge=0)
    mtu_bytes: int = Field(gt=TCP_BYTES)
    half_round_trip_s: float = Field(ge=0)
    median_s: float = Field(gt=0)
    library: Literal["", "open_mpi", "mpich"] = ""
    algorithm: str = ""


def goodput(link_rate: float, mtu: int, both_ways: bool = False) -> float:
    """Bytes/s of payload over TCP on a link of `link_rate` bit/s: link_rate/8 (MTU - 52)/(MTU + 14).

    With traffic `both_ways` a link also carries acknowledgements of the opposite direction, 66 bytes for every second
    full segment (RFC 9293, 3.8.6.3): link_rate/8 (MTU - 52)/(MTU + 14 + 33).

    >>> round(goodput(100e6, 9000)), round(goodput(100e6, 9000, both_ways=True))
    (12408476, 12363214)
    """
    acknowledgement = (ETHERNET_BYTES + TCP_BYTES) / 2 if both_ways else 0
    return link_rate / 8 * (mtu - TCP_BYTES) / (mtu + ETHERNET_BYTES + acknowledgement)


def payload_share(mtu: int) -> float:
    """Share of a full frame's bytes, as a shaper counts them, that is payload of TCP."""
    return (mtu - TCP_BYTES) / (mtu + ETHERNET_BYTES)


def read(path: Path) -> list[CollectiveRow]:
    """The rows of a table. Raises InputError with every cell that cannot be read, by its line and column."""
    return read_models(path, CollectiveRow, _check_known)


def _check_known(row: CollectiveRow, place: Row) -> None:
    """Where the collective or the algorithm of a row cannot be predicted, `place` gets the problem."""
    column, text, known = "collective", row.collective, [*(PRIMITIVES if row.library else ALGORITHMS), *MESSAGES]
    if text in known and row.algorithm:
        column, text = "algorithm", row.algorithm
        known = list(MPI_ALGORITHMS.get(row.collective, ())) if row.library else []
    if text not in known:
        what = f"one of {', '.join(known)}" if known else "no algorithm of this collective"
        place.problems.append(Problem(f"{place.where}: {column}", what, text, suggest_nearest(text, known)))


def exchange_of(row: CollectiveRow) -> tuple[Topology, Communication]:
    """The topology and the step of a row."""
    size = row.message_bytes
    if not row.library:
        topology, step = ALGORITHMS.get(row.collective, (Ring(), None))
        return topology, step(size) if step else Messages(row.collective, (size,), MESSAGES[row.collective])
    forced = {row.collective: row.algorithm} if row.algorithm else {}
    mpi = Mpi.model_validate({"library": row.library, "algorithms": forced})
    if row.collective == "reduce":
        return mpi, Messages("reduce", (size,), lambda nbytes, layout: mpi.plain_rounds("reduce", nbytes, layout))
    if row.collective in MESSAGES:
        return mpi, Messages(row.collective, (size,), MESSAGES[row.collective])
    return mpi, PRIMITIVES[row.collective](size)


def predict(row: CollectiveRow) -> tuple[Prices, NetworkSetup, bool]:
    """The price of a row's exchange without any fit; its links; whether flows were used where the fold is not exact."""
    topology, exchange = exchange_of(row)
    layout = topology.layout(row.workers, 1)
    both_ways = isinstance(topology, Gloo) or all(
        set(item.src.tolist()) == set(item.dst.tolist())
        for phase in topology.rounds(exchange, layout)
        for item in phase
    )
    bandwidth = goodput(row.link_rate_bit_per_s, row.mtu_bytes, both_ways)
    burst = row.burst_bytes * payload_share(row.mtu_bytes)
    fabric = SingleSwitch(bandwidth=bandwidth, latency=row.half_round_trip_s, burst=burst)
    links = NetworkSetup(topology, fabric, fabric.wire(layout))
    prices = price_steps([exchange], [(0, 0)], links)
    return prices, links, prices.flowed > 0


def table_rows(path: Path, group: str) -> Iterator[ValidationRow]:
    """Rows of `validate`: predicted against measured. Raises InputError as `read` does."""
    for row in read(path):
        prices, links, _ = predict(row)
        predicted = float(prices.seconds[0])
        busiest = float(np.max(prices.traffic.links / links.wiring.capacity))
        name = " ".join(part for part in (row.library, row.algorithm, row.collective) if part)
        size, rate = row.message_bytes / 2**10, row.link_rate_bit_per_s / 1e6
        yield {
            "scenario": f"{name}, {row.workers} workers, {size:g} KiB, {rate:g} Mbit/s",
            "group": group,
            "quantity": "collective",
            "unit": "s",
            "measured": row.median_s,
            "predicted": predicted,
            "intervals": None,
            "stated_interval": None,
            "digest": None,
            "warnings": [],
            "signed_error": predicted / row.median_s - 1,
            "baseline_signed_error": busiest / row.median_s - 1,
            "used_in_fit": False,
        }
