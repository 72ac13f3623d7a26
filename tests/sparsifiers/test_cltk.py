"""CLT-k against a loop over workers and coordinates."""

import numpy as np
import pytest
from common import block, run, sent_per_worker
from hypothesis import given
from hypothesis import strategies as st
from replayed import select

from simulator.models.exchange import Bucket
from simulator.sparsifiers.cltk import CLTK


@pytest.mark.parametrize("beta", [1.0, 0.3, 0.1])
def test_replay_is_the_published_loop(beta):
    numels, workers, draws = (40, 20), 3, np.random.default_rng(3)
    values, memory = draws.standard_normal((9, workers, 60)), [[0.0] * 60 for _ in range(workers)]
    for iteration, (state, selection, _, choice) in enumerate(run(CLTK(density=0.1, beta=beta), values, numels)):
        gradient = values[iteration].tolist()
        p = [[m + g for m, g in zip(*pair, strict=True)] for pair in zip(memory, gradient, strict=True)]
        leader = p[iteration % workers]
        index = set(sorted(range(40), key=lambda j: -abs(leader[j]))[:4])
        index |= set(sorted(range(40, 60), key=lambda j: -abs(leader[j]))[:2])
        for i in range(workers):
            assert set(np.flatnonzero(choice.chosen[i])) == index
            for j in range(60):
                out = p[i][j] if j in index else 0.0
                assert choice.sent[i, j] == pytest.approx(out, abs=1e-5)
                memory[i][j] = (1 - beta) * memory[i][j] + beta * (p[i][j] - out)
        np.testing.assert_allclose(state["residual"], memory, atol=1e-5)
        assert selection.aggregated == selection.largest == 6


def test_k_is_flat_in_the_number_of_workers():
    values = np.random.default_rng(5).standard_normal((16, 3000))
    member, bucket = CLTK(density=0.01), Bucket(0, (2000, 1000), 0)
    for workers in range(1, 17):
        item = block(values[:workers], (2000, 1000), iteration=workers + 1)
        _, selection, _, choice = select(member, member.start(item), item)
        assert (selection.aggregated, selection.selected.tolist()) == (30, [30] * workers)
        assert choice.chosen[-1, np.argsort(-np.abs(item.values[(workers + 1) % workers][:2000]))[:20]].all()
        expected = member.expect(bucket, workers, float("inf"))
        assert expected.aggregated == expected.largest == 30


@pytest.mark.parametrize("workers", [2, 3, 8, 16])
def test_traffic_is_a_broadcast_and_an_all_reduce_of_k(workers):
    member, bucket, k = CLTK(density=0.001), Bucket(0, (600_000, 400_000), 0), 1000
    steps = member.exchange(member.expect(bucket, workers, 1.0), bucket, workers, "collective")
    forwarded = np.where(np.arange(workers) < workers - 1, 4 * k, 0)  # the chain's last worker forwards nothing
    np.testing.assert_allclose(sent_per_worker(steps, workers), forwarded + 2 * (workers - 1) / workers * 4 * k)


def test_the_filter_costs_one_more_pass():
    bucket, plain, filtered = Bucket(0, (1000,), 0), CLTK(density=0.1), CLTK(density=0.1, beta=0.1)
    selection = plain.expect(bucket, 4, 1.0)
    extra = filtered.compute(selection, bucket, 4)[len(plain.compute(selection, bucket, 4)) :]
    assert [(item.kernel, item.elements, item.calls) for item in extra] == [("elementwise", (1000.0,), 2)]


@given(seed=st.integers(0, 10**6), workers=st.integers(1, 6), beta=st.floats(0.05, 1.0))
def test_compression_commutes_with_the_sum(seed, workers, beta):
    """ScaleCom's point: compressing the sum by the leader's indices is the sum of what all send."""
    member, draws = CLTK(density=0.2, beta=beta), np.random.default_rng(seed)
    before = np.zeros((workers, 30))
    for state, _, u, choice in run(member, draws.standard_normal((4, workers, 30))):
        np.testing.assert_allclose(np.where(choice.chosen[0], u.sum(axis=0), 0), choice.sent.sum(axis=0), atol=1e-5)
        np.testing.assert_allclose(state["residual"] - before, beta * (u - choice.sent - before), atol=1e-4)
        before = state["residual"].copy()
