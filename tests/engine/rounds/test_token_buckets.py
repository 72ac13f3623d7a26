"""Token buckets on links: closed forms, and the fold against follow_flows."""

import hypothesis
import numpy as np
import pytest
from drawn import durations
from hypothesis import given
from hypothesis import strategies as st
from test_flows import why_not
from test_fold import rounds_of

from simulator.engine.rounds.fold import fold
from simulator.engine.rounds.network import follow_flows
from simulator.fabrics.single_switch import SingleSwitch
from simulator.models.exchange import Layout, Round

B, ALPHA, BURST = 1.25e7, 1e-4, 1e4


def wired(nodes, burst=BURST, latency=ALPHA, bandwidth=B):
    return SingleSwitch(bandwidth=bandwidth, latency=latency, burst=burst).wire(Layout(nodes, 1))


@pytest.mark.parametrize("interpreter", [fold, follow_flows])
@pytest.mark.parametrize("nbytes", [100.0, BURST, 1e6])
@pytest.mark.parametrize("overhead", [0.0, 3e-3])
def test_one_message_saves_a_bucket_and_none_of_its_overhead(interpreter, nbytes, overhead):
    rounds = [Round(np.array([0]), np.array([1]), np.array([[nbytes]]))]
    time = interpreter(rounds, wired(2), np.zeros(2), overhead=overhead)[0, 1]
    assert time == pytest.approx(ALPHA + overhead + max(0.0, nbytes - BURST) / B, rel=1e-12)


@pytest.mark.parametrize("interpreter", [fold, follow_flows])
def test_a_ring_hides_its_start_ups_behind_what_refills_the_bucket(interpreter):
    """Every start-up refills alpha B bytes, which the next message saves: only the first and the last of it is seen."""
    p, nbytes = 8, 8e5
    time = interpreter(rounds_of("ring", "all_reduce", nbytes, Layout(p, 1)), wired(p), np.zeros(p)).max()
    assert ALPHA * B < BURST
    assert time == pytest.approx(14 * nbytes / p / B - BURST / B + ALPHA, rel=1e-9)
    # Start-ups longer than the bucket takes to fill are seen in full, and every message saves all of it.
    slow = interpreter(rounds_of("ring", "all_reduce", nbytes, Layout(p, 1)), wired(p, latency=2e-3), np.zeros(p)).max()
    assert slow == pytest.approx(14 * (2e-3 + (nbytes / p - BURST) / B), rel=1e-9)


@pytest.mark.parametrize("interpreter", [fold, follow_flows])
def test_small_messages_wait_once_the_bucket_is_empty(interpreter):
    """A place sends 30 messages of half a bucket to one receiver: two pass at once, then the link's rate holds."""
    rounds = [Round(np.array([0]), np.array([1]), np.array([[BURST / 2]]), 30)]
    time = interpreter(rounds, wired(2, latency=0.0), np.zeros(2))[0, 1]
    assert time == pytest.approx((15 - 1) * BURST / B, rel=1e-9)


def test_messages_that_leave_together_share_the_bucket():
    """Half of the sender's bucket each, so that equal ones end together; what a small one does not need stays there."""
    at_once = Round(np.array([0, 0]), np.array([1, 2]), np.array([[1e6, 1e6]]))
    times = follow_flows([at_once], wired(3), np.zeros(3))[0]
    assert times[1:] == pytest.approx(2 * [ALPHA + (2e6 - BURST) / B], rel=1e-12)
    unlike = Round(np.array([0, 0]), np.array([1, 2]), np.array([[BURST / 5, 1e6]]))
    small, large = follow_flows([unlike], wired(3), np.zeros(3))[0, 1:]
    assert (small, large) == pytest.approx((ALPHA, ALPHA + (1e6 - BURST / 2) / B), rel=1e-12)


@hypothesis.example(pair=("ring", "all_reduce"), nodes=2, nbytes=1.0000000000000002, burst=1.0, latency=0.0)
@given(
    pair=st.sampled_from(
        [("ring", "all_reduce"), ("ring", "all_gather"), ("recursive_doubling", "all_reduce"), ("tree", "all_reduce")]
    ),
    nodes=st.integers(2, 9),
    nbytes=st.floats(1, 1e7),
    burst=st.floats(1, 1e6),
    latency=durations(1e-2),
)
def test_the_fold_equals_flows(*, pair, nodes, nbytes, burst, latency):
    wiring = wired(nodes, burst, latency)
    rounds = rounds_of(*pair, nbytes, wiring.layout)
    if why_not(rounds, wiring):
        return
    law = fold(rounds, wiring, np.zeros(nodes))
    # A payload less a bucket of nearly its size is known to a rounding of the payload, no better.
    rounding = np.finfo(float).eps * nbytes / B
    np.testing.assert_allclose(follow_flows(rounds, wiring, np.zeros(nodes)), law, rtol=1e-9, atol=rounding)
    without = fold(rounds, wired(nodes, 0.0, latency), np.zeros(nodes))
    messages = sum(item.repeat for item in rounds)
    assert (law <= without * (1 + 1e-12)).all()
    assert (law >= without - messages * burst / B - 1e-12).all()


def test_many_to_one_shares_the_receivers_bucket():
    """Four push at once: together they save one bucket at the receiver's NIC; the fold says that it cannot tell."""
    wiring = wired(5)
    rounds = [Round(np.arange(1, 5), np.zeros(4, dtype=np.int64), np.full((1, 4), 1e5))]
    assert "token bucket" in why_not(rounds, wiring)
    assert follow_flows(rounds, wiring, np.zeros(5)).max() == pytest.approx(ALPHA + (4e5 - BURST) / B, rel=1e-9)


@pytest.mark.parametrize("kind", ["ring", "recursive_doubling", "tree"])
def test_the_fold_is_exact_over_buckets_that_are_alike(kind):
    wiring = wired(8)
    assert why_not(rounds_of(kind, "all_reduce", 1e6, wiring.layout), wiring) == ""


def test_buckets_stand_between_the_nodes_and_not_inside_them():
    wiring = SingleSwitch(bandwidth=B, burst=BURST, intra_node={"bandwidth": 10 * B}).wire(Layout(2, 2))
    assert set(wiring.burst[: wiring.offset]) == {BURST}
    assert not wiring.burst[wiring.offset :].any()


@given(
    pair=st.sampled_from([("ring", "all_reduce"), ("ring", "all_gather"), ("tree", "all_reduce")]),
    shape=st.tuples(st.integers(2, 4), st.integers(2, 3)),
    nbytes=st.floats(1, 1e7),
    burst=st.floats(1, 1e6),
    inside=st.tuples(st.floats(0.03, 30), durations(1e-2)),
)
def test_the_fold_equals_flows_over_links_of_two_kinds(pair, shape, nbytes, burst, inside):
    """Buckets between the nodes and none inside them."""
    intra = {"bandwidth": inside[0] * B, "latency": inside[1]}
    wiring = SingleSwitch(bandwidth=B, latency=ALPHA, burst=burst, intra_node=intra).wire(Layout(*shape))
    rounds = rounds_of(*pair, nbytes, wiring.layout)
    assert why_not(rounds, wiring) == ""
    ready, rounding = np.zeros(wiring.layout.workers), np.finfo(float).eps * nbytes / B
    law = fold(rounds, wiring, ready)
    np.testing.assert_allclose(follow_flows(rounds, wiring, ready), law, rtol=1e-9, atol=rounding)


def test_the_bucket_that_one_exchange_leaves_is_what_the_next_one_finds():
    """The first message saves a bucket, the one right behind it nothing, then, full again, it does."""
    wiring, one = wired(2, latency=0.0), [Round(np.array([0]), np.array([1]), np.array([[4 * BURST]]))]
    links, begun, took = np.zeros((1, len(wiring.capacity))), 0.0, []
    for pause in (0.0, 0.0, BURST / B):
        begun += pause
        ends = fold(one, wiring, np.full(2, begun), links=links)
        took.append(ends.max() - begun)
        begun = ends.max()
    assert took == pytest.approx([3 * BURST / B, 4 * BURST / B, 3 * BURST / B], rel=1e-9)
