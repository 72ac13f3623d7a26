"""gTop-k against dictionaries merged one by one, and against the published cost of its tree."""

import numpy as np
import pytest
from common import block, run
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from pydantic_core import PydanticCustomError
from replayed import select

from simulator.engine.rounds.fold import fold
from simulator.fabrics.single_switch import SingleSwitch
from simulator.models.exchange import Bucket, Compute, Layout
from simulator.sparsifiers.gtopk import GTopK


def reference(u, k):
    """Released loop in plain Python: own choices (sets), the surviving sums (dict), what goes back."""
    own = [sorted(range(len(row)), key=lambda j, row=row: -abs(row[j]))[:k] for row in u]
    sums = [{j: row[j] for j in index} for row, index in zip(u, own, strict=True)]
    step = 1
    while step < len(u):
        for low in range(0, len(u), 2 * step):
            for j, value in sums[low + step].items():
                sums[low][j] = sums[low].get(j, np.float32(0)) + value
            kept = sorted(sums[low], key=lambda j, low=low: -abs(sums[low][j]))[:k]
            sums[low] = {j: sums[low][j] for j in kept}
        step *= 2
    residual = u.copy()
    for row, index in zip(residual, own, strict=True):
        row[[j for j in index if j in sums[0]]] = 0
    return own, sums[0], residual


@pytest.mark.parametrize("workers", [2, 4, 8])
@pytest.mark.parametrize("granularity", ["bucket", "layer"])
def test_replay_is_the_published_loop(workers, granularity):
    numels, member, draws = (70, 50), GTopK(density=0.1, granularity=granularity), np.random.default_rng(workers)
    units = [(0, 120, 12)] if granularity == "bucket" else [(0, 70, 7), (70, 120, 5)]
    values = np.float32(draws.standard_normal((8, workers, 120)) + draws.standard_normal((8, 1, 120)))
    residual = np.zeros((workers, 120), np.float32)
    for gradients, (state, selection, u, choice) in zip(values, run(member, values, numels), strict=True):
        np.testing.assert_array_equal(u, residual + gradients)
        for start, stop, k in units:
            own, final, residual[:, start:stop] = reference(u[:, start:stop], k)
            for row, index in zip(choice.chosen[:, start:stop], own, strict=True):
                assert set(np.flatnonzero(row)) == set(index)
            assert set(np.flatnonzero(choice.aggregated[start:stop])) == set(final)
        np.testing.assert_array_equal(state["residual"], residual)
        assert selection.aggregated == 12


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_the_union_never_grows(workers):
    item = block(np.random.default_rng(1).standard_normal((workers, 5000)), (5000,))
    member = GTopK(density=0.01)
    _, selection, _, choice = select(member, member.start(item), item)
    assert selection.aggregated == 50 == selection.largest
    assert choice.chosen.any(axis=0).sum() > 1.8 * 50  # Top-k would have built up
    assert choice.detail["put_back"] == (choice.chosen & ~choice.aggregated).sum() / workers > 10
    for n in (1, 2, 4, 64, 1024):
        assert member.expect(Bucket(0, (5000,), 0), n, float("inf")).aggregated == 50


def test_a_value_dropped_early_is_lost_where_its_coordinate_survives():
    item = block([[5, 0, 0], [0, 4, 0], [0, 9, 0], [0, 0, 1]], (3,))
    member = GTopK(density=0.34)
    state, _, _, choice = select(member, member.start(item), item)
    assert np.flatnonzero(choice.aggregated).tolist() == [1]
    np.testing.assert_array_equal(state["residual"], [[5, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 1]])


@pytest.mark.parametrize(("workers", "k"), [(4, 1), (4, 12), (16, 7), (64, 3)])
def test_the_update_is_the_mean_of_the_sums_that_survive_the_tree(workers, k):
    """Not of all that was selected at the surviving coordinates: what a merge dropped before did not come back."""
    draws = np.random.default_rng(workers).standard_normal((workers, 120)).astype(np.float32)
    item, member = block(draws, (120,)), GTopK(density=k / 120)
    state = member.start(item)
    done = member.send(state, member.collect(state, item), item)
    update = np.zeros(120)
    for j, value in reference(draws, k)[1].items():
        update[j] = value / workers
    np.testing.assert_allclose(member.combine(done, item), update, rtol=1e-6)


def test_the_update_of_four_workers_by_hand():
    item, member = block([[5, 0, 0], [0, 4, 0], [0, 9, 0], [0, 0, 1]], (3,)), GTopK(density=0.34)
    state = member.start(item)
    assert member.combine(member.send(state, member.collect(state, item), item), item).tolist() == [0, 9 / 4, 0]


@given(values=arrays.arrays(np.float32, (4, 24), elements=st.integers(-3, 3).map(float)), density=st.floats(0.01, 1.0))
def test_ties_and_zeros_lose_nothing(values, density):
    item, member = block(values, (24,)), GTopK(density=density)
    state, selection, u, choice = select(member, member.start(item), item)
    k = max(1, round(density * 24))
    np.testing.assert_array_equal(state["residual"] + choice.sent, u)
    assert selection.largest <= selection.aggregated == min(k, choice.aggregated.sum())
    assert not (choice.aggregated & ~choice.chosen.any(axis=0)).any()
    assert not (choice.sent != 0)[:, ~choice.aggregated].any()


def test_published_cost_of_32_workers_on_1_gigabit():
    """ICDCS'19: VGG-16 at 0.001; the tree alone 15 ms, with host merges of 11 us an element 811.8 ms as measured."""
    member, bucket = GTopK(density=0.001), Bucket(0, (14_728_266,), 0)
    merge, tree, *after = member.exchange(member.expect(bucket, 32, 1.0), bucket, 32, "collective")
    wiring = SingleSwitch(bandwidth=1 / 9e-9, latency=0.436e-3).wire(Layout(32, 1))
    seconds = fold(tree.rounds(wiring.layout), wiring, np.zeros(32)).max()
    assert seconds == pytest.approx(2 * 5 * (0.436e-3 + 8 * 14_728 * 9e-9), rel=1e-9)
    assert seconds == pytest.approx(0.015, rel=0.01)
    assert merge.kernel == "host_merge"
    assert seconds + 11e-6 * sum(merge.elements) == pytest.approx(0.8118, rel=0.02)
    assert all(isinstance(step, Compute) for step in after)


def test_what_cannot_be_merged_in_pairs_is_refused():
    member, bucket = GTopK(density=0.1), Bucket(0, (100,), 0)
    with pytest.raises(PydanticCustomError, match="power of two, got 6"):
        member.exchange(member.expect(bucket, 6, 1.0), bucket, 6, "collective")
    with pytest.raises(PydanticCustomError, match="power of two, got 3"):
        select(member, member.start(block(np.ones((3, 4)), (4,))), block(np.ones((3, 4)), (4,)))
