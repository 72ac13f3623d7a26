"""Laws of TCP streams: published figures, limits, and the directions in which they go."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.fabrics.sites import BBR_LOSS, stream_rate

SEGMENT = 1500.0
"""Bytes of a packet in the tables of RFC 8312."""
RENO = {1e-2: 12, 1e-3: 38, 1e-4: 120, 1e-5: 379, 1e-6: 1200, 1e-7: 3795, 1e-8: 12_000}
CUBIC = {
    0.1: {1e-2: 12, 1e-3: 38, 1e-4: 187, 1e-5: 1054, 1e-6: 5926, 1e-7: 33_325, 1e-8: 187_400},
    0.01: {1e-2: 12, 1e-3: 38, 1e-4: 120, 1e-5: 379, 1e-6: 1200, 1e-7: 5926, 1e-8: 33_325},
}
"""Average windows in packets by round trip and loss (RFC 8312, tables 1 and 2, C = 0.4)."""
ROUNDED = 0.04
"""Two digits; and RFC 8312 takes Reno's window from RFC 3649, 1.2/sqrt(p), which is 2 % below sqrt(3/(2p))."""


def packets(law, round_trip, loss):
    """The window of a stream whose packets are those of the tables."""
    return stream_rate(law, round_trip, loss, None, SEGMENT) * round_trip / SEGMENT


@pytest.mark.parametrize("loss", RENO)
def test_windows_are_those_of_rfc_8312(loss):
    assert packets("mathis", 0.1, loss) == pytest.approx(RENO[loss], rel=ROUNDED)
    for round_trip, windows in CUBIC.items():
        assert packets("cubic", round_trip, loss) == pytest.approx(windows[loss], rel=ROUNDED)


@pytest.mark.parametrize(("rate", "loss"), [(100e6, 1.4e-5), (1e9, 6.3e-7), (10e9, 2.9e-8)])
def test_cubic_has_a_rate_at_the_loss_that_rfc_8312_says(rate, loss):
    """Table 3: which loss lets CUBIC have a rate, at 0.1 s; losses have two digits."""
    assert 8 * stream_rate("cubic", 0.1, loss, None, SEGMENT) == pytest.approx(rate, rel=ROUNDED)


@pytest.mark.parametrize(("round_trip", "loss"), [(0.04, 1e-2), (0.001, 1e-4), (0.0001, 1e-6)])
def test_cubic_is_never_slower_than_reno(round_trip, loss):
    assert stream_rate("cubic", round_trip, loss, None) == stream_rate("mathis", round_trip, loss, None)


def test_bbr_keeps_its_rate_up_to_its_threshold():
    assert stream_rate("bbr", 0.04, BBR_LOSS, None) == math.inf
    assert stream_rate("bbr", 0.04, BBR_LOSS, 4e6) == 1e8
    assert stream_rate("bbr", 0.04, 2 * BBR_LOSS, None) == stream_rate("mathis", 0.04, 2 * BBR_LOSS, None)


@given(
    law=st.sampled_from(["mathis", "cubic", "bbr"]),
    round_trip=st.floats(1e-5, 1),
    loss=st.floats(1e-8, 0.5),
    window=st.floats(1e3, 1e9),
    factor=st.floats(1, 10),
)
def test_more_loss_a_longer_way_and_a_smaller_window_never_help(law, round_trip, loss, window, factor):
    rate = stream_rate(law, round_trip, loss, window)
    assert 0 < rate <= window / round_trip
    assert stream_rate(law, round_trip, min(0.5, factor * loss), window) <= rate
    assert stream_rate(law, factor * round_trip, loss, window) <= rate * (1 + 1e-12)
    assert stream_rate(law, round_trip, loss, window / factor) <= rate


def test_without_a_round_trip_or_loss_nothing_limits():
    assert stream_rate("mathis", 0.0, 0.1, 1e5) == math.inf
    assert stream_rate("cubic", 0.04, 0.0, None) == math.inf


def follow_segments(segments, rate, round_trip, segment):
    """Seconds that a cold connection takes, segment by segment: each acknowledgement of ten lets two more leave."""
    begins = []
    for number in range(segments):
        free = begins[-1] + segment / rate if begins else 0.0
        needed = -(-(number + 1 - 10) // 2)
        begins.append(max(free, begins[needed - 1] + round_trip) if needed > 0 else free)
    return begins[-1] + segment / rate


def test_slow_start_explains_no_first_synchronisation():
    """Four machines needed 0.65 s more for their first one: 31 MB at 15 Gbit/s and some 0.2 ms cost less than 2 ms."""
    rate, segments = 15e9 / 8, 3465
    assert 0 < follow_segments(segments, rate, 2e-4, 8948.0) - segments * 8948.0 / rate < 0.002
