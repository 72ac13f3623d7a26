"""A shaped link that many sockets share: what its queue drops, and what that costs exchanges in steps."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from simulator.component import Spec
from simulator.units import PositiveBytes, PositiveSeconds, Ratio

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
