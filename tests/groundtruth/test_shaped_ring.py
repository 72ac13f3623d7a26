"""A ring over many sockets on shaped links between network namespaces: the ring law, and what drops add to it.

Opt-in (`pytest -m groundtruth tests/groundtruth`), as root on Linux; about a minute and a half on a quiet machine.
"""

from __future__ import annotations

from statistics import median

import pytest

from groundtruth.shaped_ring import Setting, measure, model_tensors, ring_law
from groundtruth.shaping import unavailable
from simulator.fabrics.transport import Shaper

pytestmark = pytest.mark.groundtruth
RATE = 200e6


@pytest.fixture(autouse=True, scope="module")
def shaped_links():
    reason = unavailable()
    if reason:
        pytest.skip(reason)


def excess(*setting):
    """The share above the ring law, and the packets that were dropped."""
    tensors = model_tensors()
    found = measure(Setting(RATE, *setting), tensors, 2)
    return median(found["seconds"]) / ring_law(tensors, RATE) - 1, found["dropped"]


@pytest.mark.parametrize(("queue", "sockets"), [(0.4, 16), (0.05, 1)])
def test_a_queue_that_drops_nothing_leaves_the_ring_law(queue, sockets):
    assert Shaper(queue=queue, sockets=sockets).rate(RATE / 8) == RATE / 8
    late, dropped = excess(queue, sockets)
    assert not dropped
    assert late == pytest.approx(0.005, abs=0.015)


def test_single_segments_of_many_sockets_leave_the_ring_law():
    late, _ = excess(0.05, 32, False)
    assert late == pytest.approx(0.005, abs=0.015)


def test_many_sockets_overflow_a_queue_and_the_ring_waits():
    shaper = Shaper(queue=0.05, sockets=32)
    late, dropped = excess(0.05, 32)
    assert dropped
    assert late == pytest.approx(shaper.lost, abs=0.05)
    assert shaper.threshold > RATE / 8
