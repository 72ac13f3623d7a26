"""MiCRO against ranks that run its published loop one by one, its traffic, and what its parts are."""

import math

import numpy as np
import pytest
from common import block, run
from hypothesis import given
from hypothesis import strategies as st
from replayed import choose, select

from simulator.models.exchange import Bucket
from simulator.models.gradients import Block
from simulator.sparsifiers.micro import Micro, even_bounds


def exclusive_reference(gradients, density, parts):
    """The published loop, rank by rank; `parts(t, counts by rank)` gives (start, end) of each part.

    Yields for each iteration: indices by rank, threshold, residuals (n, d).
    """
    n, d = gradients.shape[1:]
    k = max(1, int(density * d))
    residual, counts, threshold = [[np.float32(0)] * d for _ in range(n)], None, 1 / (2 * math.sqrt(k))
    for t, gradient in enumerate(gradients):
        u = [[residual[r][j] + gradient[r][j] for j in range(d)] for r in range(n)]
        if counts is not None:
            ratio = sum(counts) / k
            if ratio > 1.1:
                threshold *= 1.005
            elif ratio > 0.909:
                threshold *= 1.00125
            else:
                threshold *= 0.995
        cut, found = parts(t, counts), []
        for r in range(n):
            start, end = cut[(t + r) % n]
            mine = [j for j in range(start, end) if abs(u[r][j]) >= np.float32(threshold)]
            found.append(mine if mine or end == start else [start + t % (end - start)])
        counts = [len(mine) for mine in found]
        union = {j for mine in found for j in mine}
        residual = [[np.float32(0) if j in union else u[r][j] for j in range(d)] for r in range(n)]
        yield found, threshold, np.array(residual, dtype=np.float32)


def equal_parts(n, d):
    """Equal contiguous parts, counted out one by one."""
    sizes = [0] * n
    for j in range(d):
        sizes[j % n] += 1
    return [(start, start + size) for start, size in zip([sum(sizes[:i]) for i in range(n)], sizes, strict=True)]


def agrees(member, gradients, parts, numels=None):
    """Compare a member with the reference, step by step; the ratios K/k that came up."""
    ratios = []
    k = max(1, int(member.density * gradients.shape[2]))
    expected = exclusive_reference(gradients, member.density, parts)
    for (state, selection, u, choice), (found, threshold, residual) in zip(
        run(member, gradients, numels), expected, strict=True
    ):
        assert [np.flatnonzero(row).tolist() for row in choice.chosen] == found
        assert choice.detail["threshold"] == pytest.approx(threshold, rel=1e-12)
        np.testing.assert_array_equal(state["residual"], residual)
        np.testing.assert_array_equal(choice.sent, u - residual)
        assert selection.selected.tolist() == [len(mine) for mine in found]
        assert selection.aggregated == sum(len(mine) for mine in found)
        ratios.append(selection.aggregated / k)
    return ratios


@pytest.mark.parametrize(("n", "d"), [(1, 40), (2, 101), (3, 64), (4, 243), (5, 23)])
def test_it_is_the_published_loop(n, d):
    gradients = ((0.5 / math.sqrt(0.1 * d)) * np.random.default_rng(n).standard_normal((40, n, d))).astype(np.float32)
    agrees(Micro(density=0.1), gradients, lambda t, counts: equal_parts(n, d))


def test_all_three_factors_and_empty_parts_come_up():
    gradients = np.random.default_rng(3).laplace(size=(60, 3, 200)).astype(np.float32)
    gradients *= np.array([1e-6] * 10 + [0.05] * 25 + [0.02] * 25, dtype=np.float32)[:, None, None]
    ratios = agrees(Micro(density=0.1), gradients, lambda t, counts: equal_parts(3, 200))
    assert min(ratios) == 3 / 20
    assert {"over" if r > 1.1 else "within" if r > 0.909 else "under" for r in ratios} == {"over", "within", "under"}


@pytest.mark.parametrize(("counts", "factor"), [((60, 50.1), 1.005), ((60, 50), 1.00125), ((50, 41), 1.00125),
                                                ((50, 40.9), 0.995), ((1, 1), 0.995)])  # fmt: skip
def test_the_threshold_starts_and_moves_as_published(counts, factor):
    member, item = Micro(density=0.1), block(np.ones((2, 1000)))
    assert choose(member, item.values, item, {}).detail["threshold"] == 1 / (2 * math.sqrt(100))
    state = {"threshold": 0.25, "counts": list(counts)}
    assert choose(member, item.values, item, state).detail["threshold"] == 0.25 * factor


def test_every_worker_scans_every_coordinate_once_in_n_iterations():
    n, d = 4, 50
    seen = sum(choice.chosen.astype(int) for *_, choice in run(Micro(density=0.1), np.full((n, n, d), 1e3, np.float32)))
    np.testing.assert_array_equal(seen, 1)


@pytest.mark.parametrize("n", [2, 3, 8, 64])
def test_in_closed_form_there_is_no_build_up_and_a_scan_of_one_nth(n):
    bucket = Bucket(0, (100_000, 1), 0)
    for padding in (1.0, 1.5):
        for concentration in (0.0, 30.0, math.inf):
            selection = Micro(density=0.01, padding=padding).expect(bucket, n, concentration)
            assert selection.aggregated == pytest.approx(selection.selected.sum()) == pytest.approx(1000)
            assert n * selection.largest / selection.aggregated == pytest.approx(padding)
            assert selection.scanned == math.ceil(100_001 / n)


@pytest.mark.long
def test_a_sample_of_coordinates_gives_the_same_counts_on_average():
    """Every fourth coordinate, each for four: parts follow the true positions."""
    n, d = 4, 40_000
    gradients = (0.02 * np.random.default_rng(0).standard_normal((30, n, d))).astype(np.float32)
    gradients[:, :, : d // 4] *= 2
    keep, member = np.arange(1, d, 4), Micro(density=0.05)
    state, sampled, parts = None, [], even_bounds(d, n)
    for t, values in enumerate(gradients):
        item = Block(values[:, keep], np.zeros(len(keep), int), keep, np.full(len(keep), 4.0), (d,), t)
        state = member.start(item) if state is None else state
        state, selection, _, choice = select(member, state, item)
        for worker in range(n):
            at, part = keep[choice.chosen[worker]], (t + worker) % n
            assert (parts[part] <= at).all()
            assert (at < parts[part + 1]).all()
        sampled.append((selection.aggregated, selection.largest))
    full = [(item[1].aggregated, item[1].largest) for item in run(member, gradients)]
    np.testing.assert_allclose(np.mean(sampled[5:], axis=0), np.mean(full[5:], axis=0), rtol=0.05)


@given(
    n=st.integers(1, 7),
    d=st.integers(7, 80),
    density=st.floats(0.01, 1),
    seed=st.integers(0, 99),
    exponent=st.floats(-3, 3),
)
def test_selections_are_disjoint_and_what_is_not_sent_stays(n, d, density, seed, exponent):
    draws = np.random.default_rng(seed)
    gradients = (10**exponent * draws.standard_t(2, size=(n + 2, n, d))).astype(np.float32)
    gradients[:, draws.random((n, d)) < 0.2] = 0
    bounds = even_bounds(d, n)
    for t, (state, selection, u, choice) in enumerate(run(Micro(density=density), gradients)):
        assert choice.chosen.sum(axis=0).max() <= 1
        assert selection.aggregated == selection.selected.sum() == choice.aggregated.sum()
        assert selection.selected.min() >= 1
        np.testing.assert_array_equal(choice.sent + state["residual"], u)
        np.testing.assert_array_equal(state["residual"][:, choice.aggregated], 0)
        for worker, row in enumerate(choice.chosen):
            part = (t + worker) % n
            assert row[: bounds[part]].sum() + row[bounds[part + 1] :].sum() == 0
        assert selection.scanned == math.ceil(d / n)
