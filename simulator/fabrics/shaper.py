"""A shaped link that many sockets share: what its queue drops, and what that costs exchanges in steps."""

from __future__ import annotations

from pydantic import Field

from simulator.component import Spec
from simulator.fabrics.tcp_laws import INITIAL_WINDOW
from simulator.units import PositiveBytes, PositiveSeconds, Ratio


class Shaper(Spec):
    """The queue of a shaped link (`tc tbf`, or that of a provider), which all sockets of a node share.

    A queue of `queue` seconds holds queue * rate bytes. Where the sockets' initial windows alone are more, that is
    below a rate of

        sockets * 10 * segment / queue,

    segments are dropped in every step of an exchange. A ring waits for the slowest of its sockets, so the link is idle
    while lost segments are found by probes: an exchange takes 1 + `lost` times as long.

    The default of `lost` was measured: four network namespaces, a ring of all tensors of a model of 31 M parameters
    over 32 sockets for each neighbour, CUBIC, `tbf` with a burst of 32,768 B and `latency 50ms`: 7.4 % at 200, 9.1 % at
    100 and 8.5 % at 50 Mbit/s. It depends on both: 4 to 7 % with 16 sockets, 35 to 43 % with 64; 25 to 40 % with 16
    sockets and 20 ms; 1 % with one socket, or with 400 ms and 16 sockets, where nothing is dropped. Unidirectional
    tests of the rate, such as iperf's, do not show it.

    - `sockets`: connections of a node to one neighbour. NCCL opens 2 x 8 for each channel on AWS (NCCL_SOCKET_NTHREADS,
      NCCL_NSOCKS_PERTHREAD), and has at least two channels.
    - `queue`: seconds of data that the queue holds, `latency` of `tc tbf`.
    - `segment`: bytes of a segment; of TCP with time stamps on Ethernet, the MTU less 52.
    - `lost`: share by which exchanges take longer where segments are dropped.
    """

    sockets: int = Field(default=32, ge=1, le=4096)
    queue: PositiveSeconds = 0.05
    segment: PositiveBytes = 8948.0
    lost: Ratio = 0.084

    @property
    def threshold(self) -> float:
        """Bytes per second below which segments are dropped."""
        return self.sockets * INITIAL_WINDOW * self.segment / self.queue

    def rate(self, rate: float) -> float:
        """Bytes per second that exchanges reach on a link that carries `rate` of one way alone."""
        return rate / (1 + self.lost) if rate < self.threshold else rate
