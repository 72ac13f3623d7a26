"""Shaped links: where many sockets overflow the queue, and what is left of the rate there."""

import pytest

from simulator.fabrics.transport import Shaper, Transport


def test_packets_are_dropped_below_the_rate_at_which_two_of_each_socket_fit_the_queue():
    """32 sockets x 2 packets x 64 KiB in 50 ms: 83.9 MB/s."""
    shaper = Shaper()
    assert shaper.threshold == pytest.approx(32 * 2 * 65536 / 0.05)
    assert shaper.rate(1.01 * shaper.threshold) == 1.01 * shaper.threshold
    assert shaper.rate(0.99 * shaper.threshold) == pytest.approx(0.99 * shaper.threshold / 1.084)


@pytest.mark.parametrize(
    ("queue", "sockets", "dropped"), [(0.075, 16, True), (0.09, 16, False), (0.018, 4, True), (0.024, 4, False)]
)
def test_the_threshold_is_where_packets_were_seen_to_be_dropped(queue, sockets, dropped):
    """At 200 Mbit/s, between network namespaces (docs/background/communication.md)."""
    assert (Shaper(queue=queue, sockets=sockets).threshold > 25e6) is dropped


def test_a_longer_queue_or_fewer_sockets_hold_all_packets():
    rate = 25e6
    assert Shaper(queue=0.4, sockets=16).rate(rate) == rate
    assert Shaper(sockets=1).rate(rate) == rate
    assert Shaper(packet=8948).rate(rate) == rate


def test_a_transport_passes_through_its_shaper():
    assert Transport(kind="tcp", shaper=Shaper(lost=0.25)).rate(1e6, 4) == pytest.approx(0.8e6)
    assert Transport(kind="tcp").rate(1e6, 4) == 1e6
