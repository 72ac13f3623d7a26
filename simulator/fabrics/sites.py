"""Sites and the lines between them, as a user writes them: rates each way, delays, and what one message gets."""

from __future__ import annotations

import math
import re
from functools import cache
from statistics import NormalDist
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, field_validator

from simulator.bounds import Count
from simulator.component import Spec, expected
from simulator.errors import format_value
from simulator.units import BytesPerSecond, Fraction, PositiveBytes, Seconds

Law = Literal["mathis", "cubic", "bbr"]
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


_CUBIC = (0.4 * 3.7 / 1.2) ** 0.25
"""1.054: (C (3 + beta) / (4 (1 - beta)))^(1/4) with C = 0.4 and beta = 0.7, in packets."""


STORE = "store"
"""The name of the place of servers on machines of their own."""


class Line(Spec):
    """A way over a wide area: its delay, and what one message gets of it.

    One message gets `streams` times the rate of one TCP stream at most, which the `law` gives from the round trip of
    2 `latency`, the loss and the window, or which was measured.

    Jitter: the delay of a message is normal with this standard deviation (taken as no less than 0), and a step of an
    exchange waits for the latest of n messages that cross at the same time. The start-up is therefore
    `latency` + `jitter` E_n, where E_n is the expected maximum of n standard normal draws (`expected_latest`). Between
    sites n is the number of sites, since each sends to one other at a time; to a store it is the number of nodes. An
    exchange whose places wait for single messages only, such as a long ring, takes less.

    - `latency`: one way, end to end: half of the round trip that `ping` shows.
    - `jitter`: standard deviation of the delay of one message (`mdev` of `ping`).
    - `loss`: share of packets that are lost, at most a half.
    - `law`: how a TCP stream reacts to loss: that of its congestion control.
    - `window`: bytes that a stream may have under way, of the smaller buffer of both ends; none: enough.
    - `streams`: TCP connections over which one message is spread.
    - `stream_bandwidth`: measured rate of one of them alone; none: by the law.
    """

    latency: Seconds = 0.0
    jitter: Seconds = 0.0
    loss: Fraction = Field(default=0.0, le=0.5)
    law: Literal["mathis", "cubic", "bbr"] = "cubic"
    window: PositiveBytes | None = None
    streams: int = Field(default=1, ge=1, le=1024)
    stream_bandwidth: BytesPerSecond | None = None

    @property
    def of_stream(self) -> float:
        """Bytes/s of one stream at most; infinite where nothing limits it."""
        return self.stream_bandwidth or stream_rate(self.law, 2 * self.latency, self.loss, self.window)

    def start_up(self, messages: int) -> float:
        """Seconds until the latest of so many messages that start together begins to arrive."""
        return self.latency + self.jitter * expected_latest(messages)

    def times(self, rates: float, streams: float, start_ups: float) -> Self:
        """The line with its rates, those of its streams and its delays multiplied; a stream gets its share of these."""
        changes: dict[str, Any] = {name: start_ups * getattr(self, name) for name in ("latency", "jitter")}
        if streams != 1 and np.isfinite(self.of_stream):
            changes["stream_bandwidth"] = streams * self.of_stream
        return self.model_copy(update=changes | times_rates(self, rates))


class Between(Line):
    """The line between two sites, which their messages share fairly.

    - `rate`: what it carries from the site that is named first in `sites` to the other; none: what their uplink and
      downlink carry.
    - `back`: the same in the other direction; none: as `rate`.
    """

    rate: BytesPerSecond | None = None
    back: BytesPerSecond | None = None


class Store(Line):
    """A place of its own that all sites reach: an object store, or parameter servers.

    - `bandwidth`: what it carries per direction in all (of each server, where there are several).
    """

    bandwidth: BytesPerSecond


class Site(Spec):
    """Nodes in one place, on a local network without bottleneck, and their common way to all other sites.

    - `name`: in the names of its links: `NAME up` and `NAME down`.
    - `nodes`: how many nodes it has.
    - `up`: what it sends to all other sites together; none: all that its NICs send.
    - `down`: what it receives from them; none: all that its NICs receive.
    """

    name: str
    nodes: Count
    up: BytesPerSecond | None = None
    down: BytesPerSecond | None = None

    @field_validator("name")
    @classmethod
    def _one_word(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", value):
            hint = "it is a part of the names of links"
            raise expected("a name of at most 64 letters, digits and `_.-`", format_value(value), hint)
        return value


class Pair(Spec):
    """What is different between two sites; what is not given is as `between` says.

    - `sites`: their names; `rate` is that from the first to the second.
    - `through`: the site that passes on what they send to each other. Its connections end there, and its uplink and
      downlink carry the bytes, too.
    - `rate`: what the line carries from the first to the second site.
    - `back`: the same in the other direction; none: as `rate`, where that is given here.
    - `latency`: one way.
    - `jitter`: standard deviation of the delay.
    - `loss`: share of packets that are lost.
    - `law`: how a TCP stream reacts to loss.
    - `window`: bytes that a stream may have under way.
    - `streams`: TCP connections over which one message is spread.
    - `stream_bandwidth`: measured rate of one of them alone.
    """

    sites: tuple[str, str]
    through: str | None = None
    rate: BytesPerSecond | None = None
    back: BytesPerSecond | None = None
    latency: Seconds | None = None
    jitter: Seconds | None = None
    loss: Fraction | None = Field(default=None, le=0.5)
    law: Literal["mathis", "cubic", "bbr"] | None = None
    window: PositiveBytes | None = None
    streams: int | None = Field(default=None, ge=1, le=1024)
    stream_bandwidth: BytesPerSecond | None = None

    def refuse_unfit(self) -> None:
        if self.sites[0] == self.sites[1] or self.through in self.sites:
            named = [*self.sites, *([self.through] if self.through else [])]
            raise expected("different sites", ", ".join(named), "a line joins two sites, and a relay is a third one")
        if self.through and self.own:
            got = f"{', '.join(f'`{name}`' for name in sorted(self.own))} with `through`"
            raise expected("`through` alone", got, "a relayed pair takes the lines of both with the relay")

    @property
    def own(self) -> dict[str, Any]:
        """The values that are given here."""
        fields = type(self).model_fields.keys() - {"sites", "through"}
        return {name: value for name in fields if (value := getattr(self, name)) is not None}

    def line(self, default: Line) -> Line:
        """The line of this pair but for its rates, since its sites may be in another order than those of `between`."""
        new = self.own
        if new.keys() & {"latency", "loss", "law", "window"}:
            new.setdefault("stream_bandwidth", None)  # it was measured on another line
        return Line.model_construct(**{name: new.get(name, getattr(default, name)) for name in Line.model_fields})


def times_rates(spec: Spec, factor: float) -> dict[str, float]:
    """The rates of a site or line that are given, multiplied."""
    names = ("rate", "back", "bandwidth", "up", "down")
    return {name: factor * value for name in names if (value := getattr(spec, name, None))}


@cache
def expected_latest(draws: int) -> float:
    """The expected maximum of so many standard normal draws, by the trapezium rule over 1 - F(x)^n - F(-x)^n, x > 0.

    >>> [round(expected_latest(n), 6) for n in (1, 2, 3)]  # 0, 1/sqrt(pi), 3/(2 sqrt(pi))
    [0.0, 0.56419, 0.846284]
    """
    steps = np.linspace(0.0, 12.0, 2001)
    above = np.array([NormalDist().cdf(float(x)) for x in steps])
    values = 1 - above**draws - (1 - above) ** draws
    return float(np.sum((values[1:] + values[:-1]) / 2 * np.diff(steps)))
