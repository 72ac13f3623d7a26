"""DEFT against ranks that run its published steps one by one, its traffic, and how it scales."""

import math

import numpy as np
import pytest
from common import run
from hypothesis import given
from hypothesis import strategies as st
from replayed import select

from simulator.models.exchange import Bucket
from simulator.models.gradients import Block
from simulator.sparsifiers.deft import Deft, _norms, pack_pieces, pieces, share_out


def cut(numels, n):
    """(start, end) of the pieces: tensors above d/n elements in n, the rest whole."""
    found, start = [], 0
    for numel in numels:
        sizes = [numel]
        if numel > sum(numels) / n:
            sizes = [numel // n + (1 if i < numel % n else 0) for i in range(n)]
        for size in sizes:
            if size:
                found.append((start, start + size))
            start += size
    return found


def reference(gradients, density, numels):
    """The published steps, rank by rank; yields indices by rank, common indices, residuals (n, d)."""
    n, d = gradients.shape[1:]
    residual, where = np.zeros((n, d), dtype=np.float32), cut(numels, n)
    for t, gradient in enumerate(gradients):
        u, shares = residual + gradient, []
        for r in range(n):
            norms = [float(np.float32(math.sqrt(sum(float(x) ** 2 for x in u[r, a:b])))) for a, b in where]
            left, weight, share = max(1, int(density * d)), sum(norms), [0] * len(where)
            for i in sorted(range(len(where)), key=lambda i: -norms[i]):
                want = int(left * (norms[i] / weight)) if weight > 0 else 0
                size = where[i][1] - where[i][0]
                share[i] = size if want > size else max(1, want)
                left, weight = left - share[i], weight - norms[i]
            shares.append(share)
        lead, loads, bins, common = shares[t % n], [0.0] * n, [[] for _ in range(n)], []
        open_pieces = list(range(len(where)))
        while open_pieces:
            cost = {i: (where[i][1] - where[i][0]) * (math.log2(lead[i]) if lead[i] > 1 else 1) for i in open_pieces}
            i = max(open_pieces, key=lambda i: (cost[i], -i))
            open_pieces.remove(i)
            if lead[i] == where[i][1] - where[i][0]:
                common.extend(range(*where[i]))
                continue
            lightest = loads.index(min(loads))
            bins[lightest].append(i)
            loads[lightest] += cost[i]
        found = []
        for r in range(n):
            mine = set()
            for i in bins[(t + r) % n]:
                ranked = sorted(range(*where[i]), key=lambda j: -abs(u[r, j]))
                mine |= set(ranked[: shares[r][i]])
            found.append(mine)
        union, residual = sorted(set(common).union(*found)), u.copy()
        residual[:, union] = 0
        yield found, set(common), residual


@pytest.mark.parametrize(
    ("n", "numels", "density"),
    [
        (1, (30, 12), 0.2),
        (2, (60, 5, 31, 1), 0.1),
        (3, (100, 40, 1, 3, 17), 0.05),
        (4, (12, 90, 2, 55), 0.3),
        (5, (3,), 0.5),
    ],
)
def test_it_is_the_published_method(n, numels, density):
    draws, d = np.random.default_rng(n), sum(numels)
    scale = np.repeat(draws.lognormal(0, 1, len(numels)), numels)
    gradients = (scale * draws.standard_normal((12, n, d))).astype(np.float32)
    steps = zip(run(Deft(density=density), gradients, numels), reference(gradients, density, numels), strict=True)
    shared = 0
    for (state, selection, u, choice), (found, common, residual) in steps:
        assert [set(np.flatnonzero(row).tolist()) for row in choice.chosen] == [mine | common for mine in found]
        np.testing.assert_array_equal(state["residual"], residual)
        np.testing.assert_array_equal(choice.sent, u - residual)
        assert selection.aggregated == sum(map(len, found)) + len(common)
        assert selection.selected.sum() == selection.aggregated + (n - 1) * len(common)
        shared += len(common)
    assert (shared > 0) == (min(numels) < 5)


def test_only_tensors_above_one_nth_are_cut():
    assert pieces((10, 10), 2).tolist() == [0, 10, 20]
    assert pieces((11, 9), 2).tolist() == [0, 6, 11, 20]
    assert pieces((2, 1), 8).tolist() == [0, 1, 2, 3]


def test_k_follows_the_norms_between_one_and_the_piece():
    assert share_out(100, np.array([1.0, 6.0, 3.0]), [500, 500, 500]) == [10, 60, 30]
    assert share_out(100, np.array([1.0, 6.0, 3.0]), [500, 20, 500]) == [20, 20, 60]
    assert share_out(10, np.array([0.0, 1.0, 0.0]), [5, 500, 5]) == [1, 10, 1]
    assert share_out(10, np.zeros(3), [5, 500, 5]) == [1, 1, 1]


def test_the_costliest_piece_goes_to_the_lightest_bin_and_common_pieces_to_none():
    bins, loads = pack_pieces([100, 50, 100, 30, 8], [4, 16, 2, 1, 8], 2)
    assert bins == [[0, 2], [1, 3]]
    assert loads == [300, 230]


NUMELS = (432, 64, 9_216, 64, 18_432, 128, 36_864, 128, 73_728, 256, 12_800, 100)
SCALES = (4.0, 1.0, 1.5, 1.0, 1.2, 1.0, 1.0, 1.0, 0.7, 1.0, 3.0, 2.0)


@pytest.mark.long
@pytest.mark.parametrize("concentration", [pytest.param(0.0, marks=pytest.mark.long), math.inf])
def test_the_density_is_the_target_for_any_number_of_workers(concentration, record_property):
    """n = 1 to 16 on tensors like a convolutional network's; the work of the busiest worker beside d log2 k / n."""
    d, density = sum(NUMELS), 0.01
    k, draws, scale = density * d, np.random.default_rng(0), 1e-3 * np.repeat(SCALES, NUMELS)
    rows = []
    for n in (1, 2, 4, 8, 16):
        noise = np.tile(draws.standard_normal(d), (n, 1)) if concentration == 0 else draws.standard_normal((n, d))
        gradients = [(scale * noise).astype(np.float32)] * 3
        for _, selection, _, choice in run(Deft(density=density), np.array(gradients), NUMELS):
            ratio, work = selection.aggregated / k, choice.detail["cost"] * n / (d * math.log2(k))
            rows.append((n, ratio, work, selection.scanned * n / d))
        closed = Deft(density=density).expect(Bucket(0, NUMELS, 0), n, concentration)
        assert closed.aggregated == pytest.approx(k, rel=0.05)
    n, ratio, work, scanned = np.array(rows).T
    record_property(
        "deft", f"K/k {ratio.min():.3f} to {ratio.max():.3f}; n cost / (d log2 k) {work.min():.3f} to {work.max():.3f}"
    )
    np.testing.assert_allclose(ratio, 1, atol=0.05)
    assert ((work > 0.5) & (work < 1.1)).all()
    assert (scanned[n > 1] < 1.5).all()


def test_a_sample_of_coordinates_gives_the_same_counts():
    """Every fourth coordinate of the largest tensor, each for four, and all of the others."""
    n, d, numels = 4, 40_000, (30_000, 6_000, 4_000)
    gradients = np.random.default_rng(0).laplace(size=(4, n, d)).astype(np.float32)
    gradients[:, :, :30_000] /= 3
    keep, member = np.append(np.arange(1, 30_000, 4), np.arange(30_000, d)), Deft(density=0.05)
    weight = np.where(keep < 30_000, 4.0, 1.0)
    full = [(item[1].aggregated, item[1].scanned, *sorted(item[1].selected)) for item in run(member, gradients, numels)]
    state, sampled = None, []
    for t, values in enumerate(gradients):
        block = Block(values[:, keep], np.searchsorted(np.cumsum(numels), keep, side="right"), keep, weight, numels, t)
        state = member.start(block) if state is None else state
        state, selection, _, _ = select(member, state, block)
        sampled.append((selection.aggregated, selection.scanned, *sorted(selection.selected)))
    np.testing.assert_allclose(np.mean(sampled, axis=0), np.mean(full, axis=0), rtol=0.05)


@given(
    n=st.integers(1, 6),
    numels=st.lists(st.integers(1, 60), min_size=1, max_size=6).map(tuple),
    density=st.floats(0.01, 1),
    seed=st.integers(0, 99),
)
def test_pieces_belong_to_one_worker_and_what_is_not_sent_stays(n, numels, density, seed):
    draws, d = np.random.default_rng(seed), sum(numels)
    gradients = draws.standard_t(2, size=(4, n, d)).astype(np.float32)
    where = cut(numels, n)
    assert pieces(numels, n).tolist() == [0, *(end for _, end in where)]
    for state, selection, u, choice in run(Deft(density=density), gradients, numels):
        times = choice.chosen.sum(axis=0)
        assert set(times.tolist()) <= {0, 1, n}
        np.testing.assert_array_equal(choice.sent + state["residual"], u)
        np.testing.assert_array_equal(state["residual"][:, times > 0], 0)
        for a, b in where:
            owners = choice.chosen[:, a:b].any(axis=1).sum()
            assert owners == 1 or (owners == n and choice.chosen[:, a:b].all())
        assert selection.aggregated <= min(d, n * (max(1, int(density * d)) + len(where)))


def test_a_share_of_one_is_one_element():
    """k = 4 over 4 pieces of equal norms: each worker sends one element of each piece in its bin, the largest."""
    numels = (8, 8, 8, 8)
    values = np.zeros((4, 32), dtype=np.float32)
    values[:, ::2] = np.tile([1.0, 2.0, 3.0, 2.0], 4)
    block = Block(values, np.repeat(np.arange(4), 8), np.arange(32), np.ones(32), numels)
    member = Deft(density=4 / 32)
    _, selection, _, choice = select(member, member.start(block), block)
    assert selection.selected.tolist() == [1.0] * 4
    assert np.flatnonzero(choice.chosen.any(axis=0)).tolist() == [4, 12, 20, 28]


def test_pieces_without_sampled_coordinates_have_norm_0():
    """Of a sample, some pieces hold nothing: before, between, and after those that do."""
    item = Block(np.array([[3.0, 4.0]], np.float32), np.array([1, 1]), np.array([4, 7]), np.array([4.0, 1.0]), (2, 8))
    assert _norms(item.values[0], item, np.array([0, 0, 1, 1, 2, 2])).tolist() == [0.0, 6.0, 0.0, 4.0, 0.0]
