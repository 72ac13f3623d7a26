"""The transport of a network: what the software and hardware between memory and NIC leave of the NIC's rate."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Any, Final, Self

import numpy as np
from pydantic import BeforeValidator, Field

from simulator.bounds import Count
from simulator.component import Spec, expected
from simulator.hardware.runtime import TransportKind
from simulator.models.curves import map_each
from simulator.units import BytesPerSecond, Density, PositiveBytes, PositiveSeconds, Ratio, Seconds

PACKETS: Final = 2
"""Packets of one socket in its machine's own queue (tcp_limit_output_bytes in the kernel's ip-sysctl)."""


class Shaper(Spec):
    """The queue of a shaped link (`tc tbf`, or that of a provider), which all sockets of a node share.

    A queue of `queue` seconds holds queue * rate bytes. Linux lets each socket have two packets in it (TCP small
    queues, Dumazet 2012), which are cut into segments later. Below a rate of

        sockets * 2 * packet / queue

    packets are dropped in every step of an exchange. A ring waits for the slowest of its sockets, so the link is idle
    until a lost segment is sent again, or a timer hands over a packet that the queue refused whole: an exchange takes
    1 + `lost` times as long.

    Both were measured between four network namespaces, with a ring of all tensors of a model of 31 M parameters, CUBIC,
    and `tbf` with a burst of 32,768 B. At 200 Mbit/s with 4 and 16 sockets the threshold is right within 14 %; with
    single segments (GSO off) no time is lost. `lost` is the median of 6 to 9 % with 32 sockets, a queue of 50 ms and
    50 to 500 Mbit/s. It depends on both: 2 to 7 % with 16 sockets, 25 to 60 % with 64, 21 to 42 % with 16 and 20 ms.
    Unidirectional tests of the rate, such as iperf's, do not show it.

    - `sockets`: connections of a node to one neighbour. NCCL opens 2 x 8 for each channel on AWS (NCCL_SOCKET_NTHREADS,
      NCCL_NSOCKS_PERTHREAD), and has at least two channels.
    - `queue`: seconds of data that the queue holds, `latency` of `tc tbf`.
    - `packet`: bytes that TCP hands to the queue at once: 64 KiB with GSO, as Linux does, else a segment.
    - `lost`: share by which exchanges take longer where packets are dropped.
    """

    sockets: int = Field(default=32, ge=1, le=4096)
    queue: PositiveSeconds = 0.05
    packet: PositiveBytes = 65536.0
    lost: Ratio = 0.084

    @property
    def threshold(self) -> float:
        """Bytes per second below which packets are dropped."""
        return self.sockets * PACKETS * self.packet / self.queue

    def rate(self, rate: float) -> float:
        """Bytes per second that exchanges reach on a link that carries `rate` of one way alone."""
        return rate / (1 + self.lost) if rate < self.threshold else rate


class Transport(Spec):
    """How messages between nodes travel: their rate is the least of NIC, sockets and the way through the host.

    rate = min(NIC, streams * stream_bandwidth, cpu_bandwidth / NICs of a node, staging) * share(nodes), per NIC and
    direction. With `store_and_forward`, staging does not run while the network does, so that seconds per byte add up:
    1 / (1 / min(NIC, ...) + 1 / staging). What is not given does not limit. The share of crowded networks is
    interpolated between the numbers of nodes that were measured, on log axes, and is constant beyond them.

    A network names a kind, and then has that kind's prior figures (`PRIORS`), or gives its own.

    - `kind`: `tcp`, `rdma`, `mpi` (an MPI library over TCP, through host memory) or `gloo`.
    - `streams`: connections between two nodes that carry one exchange.
    - `stream_bandwidth`: what one of them moves.
    - `cpu_bandwidth`: what the CPUs of one node copy and check per direction, all streams and NICs together.
    - `staging`: at which data pass between GPUs and one NIC through host memory.
    - `store_and_forward`: whether a message is staged whole before it is sent.
    - `set_up`: seconds that the first collective of a process takes longer than later ones, in which the library finds
      its peers, connects and loads its kernels; none: not known.
    - `shaper`: the queue of a shaped link, which many sockets overflow; none: nothing is dropped.
    - `crowding`: measured pairs of a number of nodes that exchange at the same time and the share of the rate that is
      left.
    - `prior_width`: factor by which the rate may be wrong either way, in nine of ten cases; none: it was measured.
    - `source`: where the figures come from.

    Raises an expected-error for streams without a rate, and for numbers of nodes that do not rise.
    """

    kind: TransportKind
    streams: int = Field(default=1, ge=1, le=1024)
    stream_bandwidth: BytesPerSecond | None = None
    cpu_bandwidth: BytesPerSecond | None = None
    staging: BytesPerSecond | None = None
    store_and_forward: bool = False
    set_up: Seconds | None = None
    shaper: Shaper | None = None
    crowding: tuple[tuple[Count, Density], ...] = ()
    prior_width: float | None = Field(default=None, ge=1, le=100)
    source: str = ""

    def refuse_unfit(self) -> None:
        if self.streams > 1 and self.stream_bandwidth is None:
            raise expected(
                "`stream_bandwidth` with `streams`", "`streams` alone", "the rate of one stream is not known"
            )
        if any(after[0] <= before[0] for before, after in pairwise(self.crowding)):
            raise expected(
                "numbers of nodes that rise", str([nodes for nodes, _ in self.crowding]), "`crowding` is a curve"
            )

    def shared_by(self, in_node: int, share: float) -> Self:
        """What one of so many groups of GPUs in a node has, with its share of a NIC: streams are a group's own."""
        parts = (("cpu_bandwidth", 1 / in_node), ("staging", share))
        return self.model_copy(update={name: rate * part for name, part in parts if (rate := getattr(self, name))})

    def rate(self, nic: float, nodes: int, nics: int = 1) -> float:
        """Bytes/s per NIC and direction when `nodes` nodes exchange, of `nics` in a node that carry `nic` bytes/s."""
        sockets = self.streams * self.stream_bandwidth if self.stream_bandwidth else np.inf
        carried = min(nic, sockets, self.cpu_bandwidth / nics if self.cpu_bandwidth else np.inf)
        if self.staging and self.store_and_forward:
            carried = 1 / (1 / carried + 1 / self.staging)
        elif self.staging:
            carried = min(carried, self.staging)
        carried = self.shaper.rate(carried) if self.shaper is not None else carried
        return float(carried * self.share(nodes))

    def share(self, nodes: int) -> float:
        """The share of the rate that is left when so many nodes exchange at the same time."""
        if not self.crowding:
            return 1.0
        # Of the standard library, whose last digit does not depend on the processor.
        known, left = map_each(math.log, np.array(self.crowding)).T
        return math.exp(float(np.interp(math.log(nodes), known, left)))


_MPI = Transport(
    kind="mpi",
    staging=1.412e9,
    store_and_forward=True,
    prior_width=2,
    source="copies from and to the GPU and sums on the CPU, 0.708 ns per byte (scenarios/validation/8xv100-grace)",
)

PRIORS: dict[str, Transport] = {
    "tcp": Transport(
        kind="tcp",
        stream_bandwidth=3.18e9,
        set_up=0.65,
        prior_width=2,
        source="what NCCL moved over sockets between two nodes of Polaris (networks/slingshot-polaris-tcp); `set_up`: "
        "median of four runs on four machines without a shaper (scenarios/validation/4xl40s-diloco)",
    ),
    "rdma": Transport(
        kind="rdma",
        prior_width=1.5,
        source="the NIC reads the GPU's memory itself, and its slot carries what it does",
    ),
    "mpi": _MPI,
    "gloo": _MPI.model_copy(
        update={"kind": "gloo", "source": "not measured: taken as MPI, whose way through host memory it shares"}
    ),
}
"""What each kind of transport leaves of a NIC where nobody has measured it: figures of one machine, with a width."""


def _named(value: Any) -> Any:
    return PRIORS.get(value, {"kind": value}) if isinstance(value, str) else value


NamedTransport = Annotated[Transport, BeforeValidator(_named, json_schema_input_type=TransportKind | Transport)]
"""A transport, or the name of a kind, which stands for its prior figures."""
