"""Zen against plain Top-k (it loses nothing), MurmurHash3's published values, and its equation 1."""

import numpy as np
import pytest
from common import block, run, sent_per_worker
from hypothesis import given
from hypothesis import strategies as st
from replayed import select

from simulator.hardware.gpu import Gpu
from simulator.models.curves import Affine
from simulator.models.exchange import Bucket, PushPull
from simulator.sparsifiers.zen import Zen, owners


def murmur3(key, seed):
    """MurmurHash3 of four bytes in plain integers."""
    mask = 2**32 - 1

    def turned(x, r):
        return ((x << r) | (x >> (32 - r))) & mask

    h = seed ^ (turned(key * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask)
    h = (turned(h, 13) * 5 + 0xE6546B64) & mask
    h ^= 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        h = (h ^ (h >> shift)) * factor & mask
    return h


@pytest.mark.parametrize(
    ("key", "seed", "value"),
    [(0, 0, 0x2362F9DE), (0x87654321, 0, 0xF55B516B), (0x87654321, 0x5082EDEE, 0x2362F9DE), (2**32 - 1, 0, 0x76293B50)],
)
def test_the_hash_is_murmurhash3(key, seed, value):
    assert murmur3(key, seed) == value
    assert owners(np.array([key]), 2**31, seed)[0] == value % 2**31


@given(
    keys=st.lists(st.integers(0, 2**32 - 1), max_size=20), seed=st.integers(0, 2**32 - 1), workers=st.integers(1, 500)
)
def test_every_worker_finds_the_same_owner(keys, seed, workers):
    expected = [murmur3(key, seed) % workers for key in keys]
    assert owners(np.array(keys, dtype=np.int64), workers, seed).tolist() == expected


def test_replay_is_top_k_without_loss():
    workers, draws, member = 4, np.random.default_rng(1), Zen(density=0.05, seed=9)
    values = np.float32(draws.standard_normal((6, workers, 200)) + draws.standard_normal((6, 1, 200)))
    residual = np.zeros((4, 200), np.float32)
    for gradients, (state, selection, _, choice) in zip(values, run(member, values), strict=True):
        union, loads = {}, np.zeros((workers, workers))
        for i in range(workers):
            u = residual[i] + gradients[i]
            top = sorted(range(200), key=lambda j, u=u: -abs(u[j]))[:10]
            assert sorted(top) == np.flatnonzero(choice.chosen[i]).tolist()
            for j in top:
                union[j] = murmur3(j, 9) % workers
                loads[i, union[j]] += 1
                u[j] = 0
            residual[i] = u
        np.testing.assert_array_equal(state["residual"], residual)
        pulls = np.bincount(list(union.values()), minlength=workers)
        assert selection.aggregated == len(union)
        assert choice.detail["gamma"] == pytest.approx(len(union) / 10)
        assert choice.detail["push_imbalance"] == pytest.approx(loads.max() / (10 / workers))
        assert choice.detail["pull_imbalance"] == pytest.approx(pulls.max() / pulls.mean())


@pytest.mark.parametrize("workers", [2, 8, 128])
def test_volume_is_equation_1_and_the_bitmap_replaces_indices(workers):
    d, bucket = 1_000_000, Bucket(0, (1_000_000,), 0)
    for pull in ("coo", "hash_bitmap"):
        member = Zen(density=0.0106, pull=pull)
        selection = member.expect(bucket, workers, 28.9)
        gamma, dense, density = selection.aggregated / selection.largest, 4 * d, selection.largest / d
        steps = member.exchange(selection, bucket, workers, "collective")
        share, k = (workers - 1) / workers, selection.largest
        volume = share * (gamma + 1) * 2 * dense * density
        if pull == "hash_bitmap":
            volume = share * (8 * k + 4 * selection.aggregated + d / 8)
        np.testing.assert_allclose(sent_per_worker(steps, workers), volume)
        (servers,) = [s for s in member.exchange(selection, bucket, workers, "push_pull") if isinstance(s, PushPull)]
        assert share * (servers.push_nbytes + servers.pull_nbytes) == pytest.approx(volume)


def test_densification_of_bert_gradients():
    """1.06 % becomes 40.8 % over 128 workers, gamma = 38.5; the bitmap then saves indices, at 0.1 % it would not."""
    bucket = Bucket(0, (10_000_000,), 0)
    selection = Zen(density=0.0106).expect(bucket, 128, 28.9)
    assert selection.aggregated / selection.largest == pytest.approx(38.5, abs=0.1)

    def pulled(density, workers, pull):
        member = Zen(density=density, pull=pull)
        steps = member.exchange(member.expect(bucket, workers, 28.9), bucket, workers, "push_pull")
        return next(step.pull_nbytes for step in steps if isinstance(step, PushPull))

    assert pulled(0.0106, 128, "hash_bitmap") < 0.6 * pulled(0.0106, 128, "coo")
    assert pulled(0.001, 4, "hash_bitmap") > pulled(0.001, 4, "coo")


def test_hashing_balances_what_even_parts_would_not():
    """All non-zeros in one eighth of the tensor: even parts would be 8 times off, Zen saw less than 1.1."""
    d, draws = 400_000, np.random.default_rng(3)
    item = block(draws.standard_normal((8, d)) * np.where(np.arange(d) < d / 8, 50, 1))
    member = Zen(density=0.05)
    _, _, _, choice = select(member, member.start(item), item)
    assert np.flatnonzero(choice.chosen).max() % d < d / 8 + 1
    assert choice.detail["push_imbalance"] < 1.1
    assert choice.detail["pull_imbalance"] < 1.1


def test_hashing_takes_the_published_time_on_a_v100():
    member, bucket = Zen(density=0.052), Bucket(0, (214_000_000,), 0)
    (item,) = [item for item in member.compute(member.expect(bucket, 16, 1.0), bucket, 16) if item.kernel == "hash"]
    v100 = Gpu(name="V100", kernels={"elementwise": Affine(intercept=9.5e-6, slope=14.43e-12)})
    assert v100.kernel_time(item.kernel, item.elements).sum() == pytest.approx(6e-3, rel=0.02)
