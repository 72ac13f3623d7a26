"""Shaped links: where many sockets overflow the queue, and what is left of the rate there."""

import pytest

from simulator.fabrics.shaper import Shaper
from simulator.fabrics.transport import Transport


def test_segments_are_dropped_below_the_rate_at_which_initial_windows_fit_the_queue():
    """32 sockets x 10 segments x 8,948 B in 50 ms: 57.3 MB/s."""
    shaper = Shaper()
    assert shaper.threshold == pytest.approx(32 * 10 * 8948 / 0.05)
    assert shaper.rate(1.01 * shaper.threshold) == 1.01 * shaper.threshold
    assert shaper.rate(0.99 * shaper.threshold) == pytest.approx(0.99 * shaper.threshold / 1.084)


def test_a_longer_queue_or_fewer_sockets_hold_all_segments():
    rate = 25e6
    assert Shaper(queue=0.4, sockets=16).rate(rate) == rate
    assert Shaper(sockets=1).rate(rate) == rate


def test_a_transport_passes_through_its_shaper():
    assert Transport(kind="tcp", shaper=Shaper(lost=0.25)).rate(1e6, 4) == pytest.approx(0.8e6)
    assert Transport(kind="tcp").rate(1e6, 4) == 1e6
