"""Ok-Topk against its messages: regions, owners and thresholds in plain Python."""

import math
from itertools import pairwise

import numpy as np
import pytest
from common import block, run, sent_per_worker
from hypothesis import given
from hypothesis import strategies as st
from replayed import select

from simulator.models.exchange import Bucket
from simulator.models.overlap import union_density
from simulator.sparsifiers.oktopk import OkTopK


class Reference:
    """The released loop of every worker at once, with the constants of its VGG."""

    def __init__(self, workers, d, k, intervals):
        self.n, self.d, self.k, (self.interval, self.repartition) = workers, d, k, intervals
        self.residual = [np.zeros(d, np.float32) for _ in range(workers)]
        self.local, self.world, self.starts = [0.0] * workers, 0.0, []

    def step(self, t, gradients):
        """Indices by worker and survivors; `nbytes` are those of all workers, 8 for a pair and 4 for a size."""
        exact = t % self.interval == 0
        u = [r + g for r, g in zip(self.residual, gradients, strict=True)]
        own = [self.selected(i, u[i], exact) for i in range(self.n)]
        if t % self.repartition == 0:
            proposals = [[index[len(index) // self.n * r] for r in range(1, self.n)] for index in own]
            self.starts = [0, *(sum(column) // self.n for column in zip(*proposals, strict=True)), self.d]
        sums = self.reduced(u, own)
        final = self.survivors(sums, exact)
        away = sum(
            not begin <= j < end for index, (begin, end) in zip(own, pairwise(self.starts), strict=True) for j in index
        )
        gathered = sum(value != 0 for value in sums.values()) if exact else len(final)
        self.nbytes = 8 * (away + (self.n - 1) * gathered) + 2 * 4 * self.n * (self.n - 1)
        for i in range(self.n):
            u[i][[j for j in own[i] if j in final]] = 0
            self.residual[i] = u[i]
        return own, final

    def selected(self, i, u, exact):
        if exact:
            self.local[i] = float(sorted(np.abs(u))[-self.k])
        else:
            for _ in range(5):
                if sum(abs(x) > np.float32(self.local[i]) for x in u) <= 4 * self.k // 3:
                    break
                self.local[i] *= 1.03
        own = [j for j in range(self.d) if abs(u[j]) > np.float32(self.local[i])]
        if len(own) < 2 * self.k / 3:
            self.local[i] /= 1.012
        elif len(own) > 5 * self.k / 4:
            self.local[i] *= 1.012
        return own

    def reduced(self, u, own):
        """What the owners of the regions add up, of what everyone sends them."""
        sums = {}
        for begin, end in pairwise(self.starts):
            for values, index in zip(u, own, strict=True):
                for j in (j for j in index if begin <= j < end):
                    sums[j] = sums.get(j, np.float32(0)) + values[j]
        return sums

    def survivors(self, sums, exact):
        if exact:
            final = set(sorted(sums, key=lambda j: -abs(sums[j]))[: self.k])
            self.world = float(min(abs(sums[j]) for j in final))
            return final
        final = {j for j in sums if abs(sums[j]) > np.float32(self.world)}
        if len(final) < 2 * self.k / 3:
            self.world /= 1.008
        elif len(final) > 4 * self.k / 3:
            self.world *= 1.008
        return final


def gradients(draws, workers, d, size=1.0):
    """Heavy-tailed, in part common to all workers."""
    return np.float32(size * (draws.standard_normal((workers, d)) + 0.5 * draws.standard_normal(d)) ** 3)


@pytest.mark.parametrize("workers", [2, 4])
def test_replay_is_the_published_loop(workers):
    d, k, draws = 150, 15, np.random.default_rng(workers)
    member = OkTopK(density=k / d, interval=8, repartition=16)
    reference = Reference(workers, d, k, (8, 16))
    values = [gradients(draws, workers, d, 1 + math.sin(t)) for t in range(40)]
    for t, (state, _, _, choice) in enumerate(run(member, values)):
        own, final = reference.step(t, values[t])
        for i in range(workers):
            assert np.flatnonzero(choice.chosen[i]).tolist() == own[i]
        assert set(np.flatnonzero(choice.aggregated)) == final
        np.testing.assert_allclose(state["residual"], reference.residual, atol=1e-6)
        np.testing.assert_allclose(state["local"], reference.local, rtol=1e-6)
        assert state["global"] == pytest.approx(reference.world, rel=1e-6)
        assert [0, *state["boundaries"], d] == reference.starts
        held = [sum(begin <= j < end for j in final) for begin, end in pairwise(reference.starts)]
        assert choice.detail["region_imbalance"] == pytest.approx(max(held) * workers / len(final) if final else 1)


def test_the_exact_iteration_selects_all_above_the_kth_magnitude():
    item = block(np.random.default_rng(0).standard_normal((3, 1000)))
    member = OkTopK(density=0.05)
    _, selection, _, _ = select(member, member.start(item), item)
    assert (selection.selected.tolist(), selection.aggregated) == ([49, 49, 49], 50)


@pytest.mark.parametrize("workers", [4, 8])
def test_bytes_of_128_iterations_are_those_of_the_released_rule(workers):
    """The whole union in every 32nd iteration, in between what is above the global threshold."""
    d, k, draws, bucket = 400, 16, np.random.default_rng(workers), Bucket(0, (400,), 0)
    member, reference, gathered = OkTopK(density=k / d), Reference(workers, d, k, (32, 64)), []
    values = [gradients(draws, workers, d) for _ in range(128)]
    for t, (_, selection, _, choice) in enumerate(run(member, values)):
        reference.step(t, values[t])
        sent = sent_per_worker(member.exchange(selection, bucket, workers, "collective"), workers)
        assert sent.sum() == pytest.approx(reference.nbytes, rel=1e-12), f"iteration {t}"
        gathered.append(choice.detail["gathered"])
    assert min(gathered[::32]) > 1.5 * k


@pytest.mark.long
@pytest.mark.parametrize("workers", [4, 8])
def test_counts_settle_near_k_and_volume_within_the_bound(workers):
    """At most 6k(n-1)/n elements a worker once residuals have settled; before, sums outgrow the first thresholds.

    The iterations that gather the whole union are not among them.
    """
    d, k, draws, bucket = 20_000, 200, np.random.default_rng(1), Bucket(0, (20_000,), 0)
    member, aggregated, volume = OkTopK(density=0.01), [], []
    for _, selection, _, choice in run(member, [gradients(draws, workers, d) for _ in range(128)]):
        assert not (choice.aggregated & ~choice.chosen.any(axis=0)).any()
        aggregated.append(selection.aggregated / k)
        sent = sent_per_worker(member.exchange(selection, bucket, workers, "collective"), workers)
        volume.append(sent.max() / 4 / (k * (workers - 1) / workers))
    assert 1.0 < np.mean(aggregated[64:]) < 1.3
    assert 0.9 < min(aggregated[64:]) < max(aggregated[64:]) < 1.6
    assert np.mean(aggregated[1:32]) > 1.5
    between = [item for t, item in enumerate(volume) if t > 64 and t % 32]
    assert 4 < np.mean(between) < max(between) <= 6


@given(workers=st.integers(2, 256), d=st.integers(10**4, 10**8), density=st.floats(1e-3, 0.1))
def test_closed_form_volume_is_four_k_and_a_share_of_the_union(workers, d, density):
    member, bucket = OkTopK(density=density), Bucket(0, (d,), 0)
    selection = member.expect(bucket, workers, 10.0)
    k, share = selection.largest, (workers - 1) / workers
    sent = sent_per_worker(member.exchange(selection, bucket, workers, "collective"), workers) / 4
    union = d * union_density(k / d, workers, 10.0)
    gathered = (31 * k + union) / 32  # in one of 32 iterations the whole union
    np.testing.assert_allclose(sent, 2 * (k + gathered) * share + 2 * (workers - 1))  # and the sizes of both phases


def test_regions_are_balanced_where_even_parts_would_not_be():
    d, draws, member = 16_000, np.random.default_rng(2), OkTopK(density=0.02)
    scale = np.where(np.arange(d) < d / 8, 20.0, 1.0)
    *_, (*_, choice) = run(member, [gradients(draws, 8, d) * scale for _ in range(10)])
    final = np.flatnonzero(choice.aggregated)
    assert (final < d / 8).mean() > 0.9  # even parts: one owner would hold nearly all
    assert choice.detail["region_imbalance"] < 1.6


def test_scans_are_counted_and_the_exact_top_k_is_spread_over_its_interval():
    member, bucket = OkTopK(density=0.01), Bucket(0, (64_000,), 0)
    selection = member.expect(bucket, 4, 1.0)
    kernels = {item.kernel: item.elements for item in member.compute(selection, bucket, 4)}
    assert kernels == {"residual_add": (64_000.0,), "topk": (2000.0,), "threshold_scan": (16_000.0,) * 4}
    check, regions = (item for item in member.compute(selection, bucket, 4) if item.kernel == "threshold_scan")
    assert (check.elements, check.reads, regions.reads) == ((64_000.0,), 1, 4)
    values = np.random.default_rng(0).standard_normal((3, 2, 1000)) * np.reshape([1.0, 1.0, 10.0], (3, 1, 1))
    passes = [selection.passes for _, selection, _, _ in run(member, values)]
    assert passes[0] == 1  # the top-k gives the threshold, one scan selects
    assert passes[2] == 6  # all five raises, and the selection


@given(seed=st.integers(0, 10**6), workers=st.integers(2, 6), density=st.floats(0.01, 0.9), zeros=st.floats(0, 1))
def test_nothing_is_lost_and_nothing_invented(seed, workers, density, zeros):
    draws, member = np.random.default_rng(seed), OkTopK(density=density, interval=3, repartition=2)
    shape = (7, workers, 40)
    values = draws.standard_normal(shape) * (draws.random(shape) >= zeros)
    for t, (state, selection, u, choice) in enumerate(run(member, values)):
        np.testing.assert_array_equal(state["residual"] + choice.sent, u)
        assert not (choice.aggregated & ~choice.chosen.any(axis=0)).any()
        assert (np.diff(state["boundaries"]) >= 0).all()
        assert selection.aggregated <= selection.selected.sum()
        if t % 3 == 0:
            assert selection.aggregated <= max(1, round(density * 40))


def test_of_equal_sums_the_first_survive():
    """198 sums of 2, 3 or 4, half of them selected by either worker, for k = 100; the rest is 1, the k-th magnitude."""
    sums, values = np.random.default_rng(0).integers(2, 5, 198), np.ones((2, 400))
    values[0, 0:198:2], values[1, 1:198:2] = sums[::2], sums[1::2]
    member, item = OkTopK(density=0.25), block(values)
    _, selection, _, choice = select(member, member.start(item), item)
    assert choice.chosen.sum(axis=1).tolist() == [99, 99]
    assert selection.aggregated == 100
    assert choice.aggregated is not None
    first = sorted(range(198), key=lambda j: (-sums[j], j))[:100]
    assert np.flatnonzero(choice.aggregated).tolist() == sorted(first)


def test_regions_without_survivors_count_as_empty():
    """Two workers select below 198 and two above 200, so that regions begin at about 150, 200 and 250; the 100 largest
    sums all stand below 101, in the first of the four."""
    values = np.ones((4, 400))
    values[0, 0:198:2], values[1, 1:199:2] = 2.0, 2.0
    values[2, 200:398:2], values[3, 201:399:2] = 2.0, 2.0
    values[:2][values[:2] > 1] += 1
    values[:2, 101:][values[:2, 101:] > 1] = 2.0
    member, item = OkTopK(density=0.25), block(values)
    choice = select(member, member.start(item), item)[3]
    assert choice.chosen.sum(axis=1).tolist() == [99] * 4
    assert choice.aggregated is not None
    assert np.flatnonzero(choice.aggregated).max() == 99
    assert choice.detail["region_imbalance"] == 4
