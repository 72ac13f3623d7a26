"""OmniReduce against a loop over blocks, and against the block densities of its closed form."""

import numpy as np
import pytest
from common import block, run
from hypothesis import given
from hypothesis import strategies as st
from replayed import select

from simulator.models.exchange import Bucket
from simulator.sparsifiers.omnireduce import OmniReduce, skewness

SCATTERED = float("inf")


def replayed(member, values):
    item = block(values, (values.shape[1],))
    _, selection, _, choice = select(member, member.start(item), item)
    return selection, choice


def test_replay_is_top_k_cut_into_blocks():
    numels, workers, size, draws = (45, 25), 3, 8, np.random.default_rng(2)
    member = OmniReduce(density=0.1, block_size=size)
    values = np.float32(draws.standard_normal((6, workers, 70)) * np.linspace(3, 0.1, 70))
    residual = np.zeros((3, 70), np.float32)
    for gradients, (state, selection, _, choice) in zip(values, run(member, values, numels), strict=True):
        union = set()
        for i in range(workers):
            u = residual[i] + gradients[i]
            top = set(sorted(range(45), key=lambda j, u=u: -abs(u[j]))[:4])  # round(4.5) = 4
            top |= set(sorted(range(45, 70), key=lambda j, u=u: -abs(u[j]))[:2])
            travels = {j for j in range(70) if any(t // size == j // size for t in top)}
            union |= travels
            assert set(np.flatnonzero(choice.chosen[i])) == travels
            assert set(np.flatnonzero(choice.sent[i])) == top
            assert selection.selected[i] == len(travels)
            residual[i] = [0 if j in top else u[j] for j in range(70)]
        assert selection.aggregated == len(union)
        np.testing.assert_array_equal(state["residual"], residual)


def test_five_per_cent_scattered_gradients_fill_nearly_every_block():
    """1 - 0.95^256 = 0.999998: far above the 30 % that Zen measured on gradients that cluster."""
    bucket = Bucket(0, (256 * 400,), 0)
    assert OmniReduce(density=0.05).expect(bucket, 8, SCATTERED).largest / bucket.numel == pytest.approx(1 - 0.95**256)
    selection, choice = replayed(OmniReduce(density=0.05), np.random.default_rng(0).standard_normal((2, bucket.numel)))
    assert selection.largest / bucket.numel > 0.99
    assert choice.detail["selected_elements"] == 0.05 * bucket.numel


def test_clustered_gradients_fill_fewer_blocks_but_more_than_their_elements():
    draws = np.random.default_rng(4)
    scale = np.repeat(np.exp(2.0 * draws.standard_normal(400)), 256)
    selection, _ = replayed(OmniReduce(density=0.05), draws.standard_normal((4, 256 * 400)) * scale)
    assert 0.05 * 2 < (selection.selected.mean() / (256 * 400)) < 0.6
    clustered = OmniReduce(density=0.05, clustering=1.22).expect(Bucket(0, (10**7,), 0), 8, SCATTERED)
    assert clustered.largest / 10**7 == pytest.approx(0.30, abs=0.001)


@pytest.mark.parametrize(("density", "size"), [(0.002, 256), (0.01, 64), (0.001, 1024), (0.02, 1)])
def test_closed_form_is_what_scattered_gradients_give(density, size):
    member, d = OmniReduce(density=density, block_size=size), 1024 * 300
    selection, _ = replayed(member, np.random.default_rng(size).standard_normal((4, d)))
    expected = member.expect(Bucket(0, (d,), 0), 4, SCATTERED)
    np.testing.assert_allclose(selection.selected, expected.selected, rtol=0.06)
    assert selection.aggregated == pytest.approx(expected.aggregated, rel=0.04)


def test_skewness_shows_where_the_load_would_fall():
    draws, d = np.random.default_rng(6), 80_000
    _, even = replayed(OmniReduce(density=0.01), draws.standard_normal((8, d)))
    values = draws.standard_normal((8, d)) * np.where(np.arange(d) < d / 8, 50, 1)
    _, skewed = replayed(OmniReduce(density=0.01), values)
    assert even.detail["skewness"] < 1.5
    assert skewed.detail["skewness"] == pytest.approx(8, rel=0.02)


@given(
    pieces=st.lists(st.integers(1, 10**6), min_size=1, max_size=4).map(tuple),
    density=st.floats(1e-5, 1.0),
    clustering=st.none() | st.floats(0.01, 1e3),
    workers=st.integers(1, 64),
)
def test_blocks_hold_what_was_selected(pieces, density, clustering, workers):
    member, bucket = OmniReduce(density=density, clustering=clustering), Bucket(0, pieces, 0)
    selection, k = member.expect(bucket, workers, 5.0), member.counts(bucket).sum()
    fewest = sum(min(n, 256 * -(-count // 256)) for n, count in zip(pieces, member.counts(bucket), strict=True))
    assert k <= fewest <= selection.largest * (1 + 1e-9)
    assert selection.largest <= selection.aggregated * (1 + 1e-9)
    assert selection.aggregated <= min(bucket.numel, workers * selection.largest) * (1 + 1e-9)
    elements = OmniReduce(density=density, clustering=clustering, block_size=1).expect(bucket, workers, 5.0)
    assert elements.largest == pytest.approx(k)


def test_nothing_selected_falls_evenly():
    assert skewness(np.zeros(0, dtype=np.int64), block(np.zeros((4, 8)), (8,))) == 1.0
