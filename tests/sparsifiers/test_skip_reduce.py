"""SkipReduce against its ring, message by message as in the authors' kernel."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from replayed import select

from simulator.engine.rounds.fold import fold
from simulator.fabrics.single_switch import SingleSwitch
from simulator.models.exchange import AllReduce, Bucket, Compute, Layout, Messages
from simulator.models.gradients import Block
from simulator.sparsifiers.dense import Dense
from simulator.sparsifiers.skip_reduce import SkipReduce
from simulator.topologies.ring import Ring


def block(values, iteration=0, coordinate=None, numel=None):
    m = values.shape[1]
    places = np.arange(m) if coordinate is None else coordinate
    numel = numel or m
    return Block(np.float32(values), np.zeros(m, int), places, np.full(m, numel / m), (numel,), iteration)


def ring(values, s, shift):
    """Every rank's result, (n, n): one value per chunk; sends start 1 + s chunks behind the rank's own place."""
    n = len(values)
    out = np.full((n, n), np.nan)
    place = [(rank + shift) % n for rank in range(n)]
    wire = [None] * n
    for rank in range(n):
        if s < n - 1:
            wire[rank] = values[rank][(place[rank] - (1 + s)) % n]
    for j in range(2 + s, n):
        wire = [wire[rank - 1] + values[rank][(place[rank] - j) % n] for rank in range(n)]
    for rank in range(n):
        out[rank, place[rank]] = values[rank][place[rank]] + (wire[rank - 1] if s < n - 1 else 0)
    for j in range(1, n):
        for rank in range(n):
            chunk = (place[rank] - j) % n
            out[rank, chunk] = out[rank - 1, chunk]
    return out


@pytest.mark.parametrize("workers", [2, 3, 4, 8])
def test_replay_is_the_ring_with_late_starts(workers):
    draws = np.random.default_rng(workers)
    for s in range(workers + 1):
        member = SkipReduce(steps=s, smallest=0)
        state = member.start(block(np.zeros((workers, workers))))
        for iteration in range(5):
            item = block(draws.standard_normal((workers, workers)), iteration)  # one coordinate per chunk
            state, selection, u, choice = select(member, state, item)
            shift = int(choice.detail.get("shift", 0))
            expected = ring(item.values, min(s, workers - 1), shift)
            np.testing.assert_allclose(expected, np.repeat(choice.sent.sum(axis=0)[None], workers, axis=0), atol=1e-6)
            np.testing.assert_array_equal(u, item.values)
            assert not state["residual"].any()
            assert selection.aggregated == workers


def test_each_chunk_carries_the_contributions_of_the_others_and_all_lose_alike():
    workers, s, d = 8, 4, 800
    member, lost, shifts = SkipReduce(skipped=0.5, smallest=0), np.zeros((workers, d)), set()
    for iteration in range(400):
        item = block(np.ones((workers, d)), iteration)
        _, selection, _, choice = select(member, member.start(item), item)
        assert (choice.chosen.sum(axis=0) == workers - s).all()
        assert selection.selected.tolist() == [d * (workers - s) / workers] * workers
        lost += ~choice.chosen
        shifts.add(choice.detail["shift"])
    assert len(shifts) == workers
    assert 0.4 < lost.min() / 400 < 0.5 < lost.max() / 400 < 0.6


def test_chunks_follow_positions_where_coordinates_are_sampled():
    """The sampled replay sees the columns of the whole one, also where one part is sampled more densely."""
    values = np.random.default_rng(0).standard_normal((4, 1000))
    held = np.sort(np.random.default_rng(1).choice(1000, 100, replace=False))
    held, member = np.union1d(held, np.arange(50)), SkipReduce(smallest=0)
    whole, part = block(values, 3), block(values[:, held], 3, held, 1000)
    chosen = select(member, member.start(whole), whole)[3].chosen
    np.testing.assert_array_equal(select(member, member.start(part), part)[3].chosen, chosen[:, held])


@pytest.mark.parametrize("latency", [0.0, 5e-6])
@pytest.mark.parametrize(("workers", "skipped", "ratio"), [(8, 0.5, 10 / 14), (4, 0.25, 5 / 6), (8, 1.0, 0.5)])
def test_time_is_the_published_share_of_dense(workers, skipped, ratio, latency):
    bucket, layout = Bucket(0, (8_000_000,), 0), Layout(workers, 1)
    wiring = SingleSwitch(bandwidth=1.25e9, latency=latency).wire(layout)
    seconds = []
    for member in (Dense(), SkipReduce(skipped=skipped)):
        (step,) = member.exchange(member.expect(bucket, workers, 1.0), bucket, workers, "collective")
        (rounds,) = Ring().rounds(step, layout)
        seconds.append(fold(rounds, wiring, np.zeros(workers)).max())
    assert seconds[1] / seconds[0] == pytest.approx(ratio, rel=1e-9)


@pytest.mark.parametrize(
    ("pieces", "skips"),
    [((100_000,), 4), ((99_999,), 0), ((31_254_528,), 0), ((31_254_528, 64), 0), ((60_000, 50_000), 4), ((777,), 0)],
)
def test_small_and_protected_gradients_are_reduced_in_full(pieces, skips):
    member, bucket = SkipReduce(protected=(31_254_528,)), Bucket(0, pieces, 0)
    assert member.skips(pieces, 8) == skips
    selection = member.expect(bucket, 8, 1.0)
    travel = [s for s in member.exchange(selection, bucket, 8, "collective") if not isinstance(s, Compute)]
    assert [type(step) for step in travel] == [Messages if skips else AllReduce]
    assert selection.largest == sum(pieces) * (8 - skips) / 8
    if sum(pieces) < 200_000:
        item = block(np.ones((8, sum(pieces))))
        assert (select(member, member.start(item), item)[3].chosen.sum(axis=0) == 8 - skips).all()


@given(workers=st.integers(2, 64), steps=st.integers(0, 80), numel=st.integers(100_000, 10**8))
def test_volume_falls_with_every_skipped_step(workers, steps, numel):
    member, bucket, s = SkipReduce(steps=steps), Bucket(0, (numel,), 0), min(steps, workers - 1)
    selection = member.expect(bucket, workers, 1.0)
    (step,) = member.exchange(selection, bucket, workers, "collective")
    (rounds,) = Ring().rounds(step, Layout(workers, 1))
    nbytes = sum(item.repeat * item.nbytes[0, 0] for item in rounds)
    assert nbytes == pytest.approx((2 * (workers - 1) - s) * 4 * numel / workers)
    assert selection.largest * workers == pytest.approx((workers - s) * numel)
