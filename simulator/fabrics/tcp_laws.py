"""The rate of one TCP stream from its round trip, loss and window, and what its slow start costs."""

from __future__ import annotations

import math
from typing import Final, Literal

Law = Literal["mathis", "cubic", "bbr"]
INITIAL_WINDOW: Final = 10
"""Segments that a connection sends before anything is acknowledged (RFC 6928, 2013; Linux, whatever their size)."""
BBR_LOSS = 0.02
"""Share of lost packets in a round trip that BBRv2 tolerates (draft-cardwell-iccrg-bbr-congestion-control-02, 2.8)."""


def stream_rate(law: Law, round_trip: float, loss: float, window: float | None, segment: float = 1448.0) -> float:
    """Bytes/s of one stream at most, infinite where nothing limits it; `round_trip` in seconds, `window` in bytes.

    A stream never has more than its window under way: window / RTT. Of packets of `segment` bytes of which a share p
    is lost at random, it carries

        mathis: segment / RTT sqrt(3/(2p))                           (Reno: Mathis et al., CCR 27(3), 1997)
        cubic:  segment / RTT max(sqrt(3/(2p)), 1.054 (RTT/p)^(3/4))      (RFC 8312, 5.1; now RFC 9438)
        bbr:    whatever the link carries, up to a loss of 2 %; above it as mathis, which is an assumption.

    >>> round(stream_rate("mathis", 0.04, 1e-4, None) * 8 / 1e6, 1), stream_rate("bbr", 0.04, 1e-4, None)
    (35.5, inf)
    """
    if not round_trip:
        return math.inf
    most = math.inf if window is None else window / round_trip
    if not loss or (law == "bbr" and loss <= BBR_LOSS):
        return most
    packets = math.sqrt(1.5 / loss)
    if law == "cubic":
        packets = max(packets, _CUBIC * (round_trip / loss) ** 0.75)
    return min(most, packets * segment / round_trip)


def slow_start_time(
    nbytes: float, rate: float, round_trip: float, segment: float = 1448.0, initial: int = INITIAL_WINDOW
) -> float:
    """Seconds beyond nbytes/rate that a cold connection takes to send so many bytes, without loss.

    It sends `initial` segments (RFC 6928), then twice as many in every round trip (RFC 5681), until acknowledgements
    come before a window w is sent: w/rate >= RTT. A round in which it waits lasts RTT instead of w/rate, so that

        seconds = sum over the rounds i < n of  RTT - 2^i initial segment / rate,

    with n rounds that are too short and are not the last: 2^i initial segment < rate RTT, and
    (2^(i+1) - 1) initial segment < nbytes (Cardwell, Savage and Anderson, INFOCOM 2000, without loss).

    >>> round(slow_start_time(1e6, 12.5e6, 0.04), 4)
    0.167
    """
    window, sent, seconds = initial * segment, 0.0, 0.0
    while window < rate * round_trip and sent + window < nbytes:
        seconds += round_trip - window / rate
        sent += window
        window *= 2
    return seconds


_CUBIC = (0.4 * 3.7 / 1.2) ** 0.25
"""1.054: (C (3 + beta) / (4 (1 - beta)))^(1/4) with C = 0.4 and beta = 0.7, in packets."""
