"""gloo: closed forms, and its all-gather against the steps of `gloo/allgather.cc`, wait by wait."""

import numpy as np
import pytest
from drawn import or_none
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from examples import switch
from simulator.engine.rounds.fold import fold
from simulator.engine.rounds.network import follow_flows
from simulator.topologies.gloo import Gloo
from simulator.topologies.ring import Ring
from simulator.topologies.tree import Tree

B, ALPHA = 1e7, 1e-4
Q = 2.0**17


def gathered(topology, nodes, nbytes, latency=ALPHA, interpreter=fold):
    wiring = switch(nodes, 1, B, latency)
    rounds = topology.all_gather(np.full((1, nodes), float(nbytes)), wiring.layout)
    return float(interpreter(rounds, wiring, np.zeros(nodes)).max())


def step_by_step(p, nbytes, late, latency=ALPHA, queue=Q):
    """Seconds from the start of worker 0, `late` seconds after the others.

    Half i follows the ends of half i-2, sent and received. Its receiver must have said that it is ready: it says so
    after its own send, and on the way its word waits behind what that send has put into the link's queue, all of it
    where word and bytes share a connection. The first half has a head start where its receiver was ready before.
    """
    begin = np.array([late] + [0.0] * (p - 1))
    half, left, right = nbytes / 2, np.roll(np.arange(p), 1), np.roll(np.arange(p), -1)
    ahead = half if p == 2 else min(half, queue)
    ready = begin + latency
    early = begin[right] + latency <= begin  # sends at once, and only then says that it is ready
    ready, sent, received = ready + early * ahead / B, [], []
    for i in range(2 * (p - 1)):
        posted = begin if i < 2 else np.maximum(sent[i - 2], received[i - 2])
        if i:
            ready = np.maximum(ready, posted + np.clip((sent[i - 1] - posted) * B, 0, ahead) / B + latency)
        sent.append(np.maximum(np.maximum(posted, ready[right]), sent[i - 1] if i else 0.0) + half / B)
        received.append(sent[i][left] + latency)
    return float(max(sent[-1].max() + latency, received[-1].max())) - late


@pytest.mark.parametrize("p", [2, 3, 4, 8, 64])
@pytest.mark.parametrize("nbytes", [1e3, 1e5, 1e6])
def test_an_all_gather_is_a_ring_in_halves_and_pays_once_for_a_late_worker(p, nbytes):
    ring = (p - 1) * nbytes / B
    assert gathered(Gloo(start="together"), p, nbytes) == pytest.approx(ring + p * ALPHA, rel=1e-9)
    behind = nbytes / 2 if p == 2 else min(nbytes / 2, Q)
    assert gathered(Gloo(), p, nbytes) == pytest.approx(ring + behind / B + (p + 1) * ALPHA, rel=1e-9)
    assert gathered(Gloo(), p, nbytes, interpreter=follow_flows) == pytest.approx(gathered(Gloo(), p, nbytes), rel=1e-9)


@given(p=st.integers(2, 12), nbytes=st.floats(1e3, 1e7), latency=st.floats(1e-6, 1e-2), queue=or_none("size", 1e6))
def test_rounds_take_as_long_as_the_steps_of_the_library(p, nbytes, latency, queue):
    """To within the start-ups that the library hides behind the other half."""
    late = step_by_step(p, nbytes, 10 * latency, latency, queue)
    assert gathered(Gloo(queue=queue), p, nbytes, latency) == pytest.approx(late, abs=(p + 2) * latency)
    together = step_by_step(p, nbytes, 0.0, latency, queue)
    assert gathered(Gloo(start="together"), p, nbytes, latency) == pytest.approx(together, abs=(p + 2) * latency)


@given(sizes=st.lists(st.floats(0, 1e6), min_size=1, max_size=9), start=st.sampled_from(["one_late", "together"]))
def test_every_worker_receives_the_blocks_of_the_others(sizes, start):
    p = len(sizes)
    rounds = Gloo(start=start).all_gather(np.array([sizes]), switch(p).layout)
    got = np.zeros(p)
    for item in rounds:
        np.add.at(got, item.dst, item.repeat * item.nbytes[0])
    np.testing.assert_allclose(got, sum(sizes) - np.array(sizes), rtol=1e-9, atol=1e-6)


def test_unlike_blocks_travel_as_like_ones_do():
    p, layout = 5, switch(5).layout
    alike = Gloo().all_gather(np.full((1, p), 1e6), layout)
    unlike = Gloo().all_gather(np.full((1, p), 1e6) + np.arange(p) * 1e-6, layout)
    assert [item.repeat for item in alike] == [1, 1, 1, 3, 1]
    assert [item.repeat for item in unlike] == [1] * 7
    wiring = switch(p, 1, B, ALPHA)
    np.testing.assert_allclose(fold(alike, wiring, np.zeros(p)), fold(unlike, wiring, np.zeros(p)), rtol=1e-9)


def test_other_collectives_are_those_of_ring_and_tree():
    layout, payload = switch(6).layout, np.array([1e6])
    for made, known in (
        (Gloo().all_reduce(payload, layout), Ring().all_reduce(payload, layout)),
        (Gloo().broadcast(payload, layout), Tree(children="at_once").broadcast(payload, layout)),
    ):
        for item, other in zip(made, known, strict=True):
            assert all(np.array_equal(getattr(item, name), getattr(other, name)) for name in ("src", "dst", "nbytes"))
            assert item.repeat == other.repeat


def test_a_late_worker_explains_what_was_measured():
    """Two and four ranks, 1 MiB, 100 Mbit/s: a ring alone would take 84 and 254 ms (validation/tcp-namespaces)."""
    bandwidth, nbytes = 12.363e6, 2.0**20
    for p, measured in ((2, 0.1276), (4, 0.2647)):
        wiring = switch(p, 1, bandwidth, 1e-4)
        made = [
            fold(topology.all_gather(np.full((1, p), nbytes), wiring.layout), wiring, np.zeros(p)).max()
            for topology in (Gloo(), Ring())
        ]
        assert made[0] == pytest.approx(measured, rel=0.02)
        assert made[1] < 0.965 * measured


def test_many_workers_need_little_memory_or_are_refused():
    layout = switch(2**17).layout
    assert len(Gloo().all_gather(np.full((1, 2**17), 1e6), layout)) == 5
    with pytest.raises(PydanticCustomError, match="expected blocks of at most 67,108,864 unlike sizes"):
        Gloo().all_gather(np.arange(2.0**17)[None], layout)
