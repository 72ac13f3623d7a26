"""DGC against the released compressor and memory in plain Python."""

import math

import numpy as np
import pytest
from common import block, once, run
from hypothesis import given
from hypothesis import strategies as st
from replayed import select

from simulator.models.exchange import Bucket, Selection
from simulator.models.overlap import INDEPENDENT
from simulator.sparsifiers.dgc import Dgc


def reference(velocity, density, rng):
    """Indices, in the order they are sent, passes and way of ending, of one unit."""
    n, importance = len(velocity), [abs(value) for value in velocity]
    k, wanted = round(n * density), max(math.ceil(n * 0.01), math.ceil(2 / density))
    stride, samples = 1, n
    if n > math.ceil(2 / density):
        stride = math.ceil(n / wanted / 32) * 32 + 1
        samples = n // stride
        while samples < wanted:
            stride -= 8
            samples = n // stride
    threshold = sorted(importance[int(rng.integers(stride)) :: stride], reverse=True)[math.ceil(samples * k / n) - 1]
    indices, passes, way = [j for j in range(n) if importance[j] >= threshold], 1, "exact"
    if n > samples:
        way = "exhausted"
        for _ in range(10):
            if len(indices) > k * 1.3:
                indices, way = sorted(indices, key=lambda j: -importance[j])[:k], "hierarchical"
                break
            if len(indices) >= 0.8 * k:
                way = "inside"
                break
            threshold = np.float32(threshold * 0.8)
            indices, passes = [j for j in range(n) if importance[j] >= threshold], passes + 1
    return indices[:k], passes, way


@pytest.mark.parametrize("masking", [True, False])
def test_replay_is_the_released_loop(masking):
    numels, density, workers, ways = (4000, 900, 60), 0.02, 2, set()
    member, draws = Dgc(density=density, masking=masking, seed=3), np.random.default_rng(1)
    values = np.float32(draws.standard_normal((12, workers, d := sum(numels))) ** 3)
    momentum, velocity = np.zeros((2, workers, d), np.float32)
    for iteration, (state, selection, u, choice) in enumerate(run(member, values, numels)):
        momentum = np.float32(0.9) * momentum + values[iteration]
        velocity += momentum
        np.testing.assert_array_equal(u, velocity)
        looked = np.zeros(workers)
        for worker in range(workers):
            start = 0
            for unit, n in enumerate(numels):
                rng = np.random.default_rng([3, iteration, worker, unit])
                indices, passes, way = reference(velocity[worker, start : start + n].tolist(), density, rng)
                assert np.flatnonzero(choice.chosen[worker, start : start + n]).tolist() == sorted(indices)
                velocity[worker, [start + j for j in indices]] = 0
                if masking:
                    momentum[worker, [start + j for j in indices]] = 0
                looked[worker] += passes * n
                start += n
                ways.add(way)
        np.testing.assert_array_equal(state["residual"], velocity)
        np.testing.assert_array_equal(state["momentum"], momentum)
        assert selection.passes == pytest.approx(looked.max() / d)
    assert ways == {"exact", "inside", "hierarchical"}


@given(
    seed=st.integers(0, 2**32),
    density=st.floats(0.005, 0.2),
    power=st.sampled_from([1, 3, 5]),
    n=st.integers(50, 6000),
    momentum=st.floats(0, 0.99),
)
def test_counts_stay_within_the_bounds_and_nothing_is_lost(seed, density, power, n, momentum):
    draws, member = np.random.default_rng(seed), Dgc(density=density, momentum=momentum, seed=seed)
    state, k = member.start(block(np.zeros((2, n)), (n,))), max(1, round(density * n))
    for iteration in range(3):
        item = block(draws.standard_normal((2, n)) ** power, (n,), iteration)
        before, velocity = state["residual"].copy(), np.float32(momentum) * state["momentum"] + item.values
        state, selection, _, choice = select(member, state, item)
        np.testing.assert_array_equal(state["residual"] + choice.sent, before + velocity)
        assert not state["momentum"][choice.chosen].any()
        assert selection.largest <= k
        if selection.passes <= member.retries:
            assert selection.selected.min() >= 0.8 * k


def test_without_masking_all_that_is_sent_is_all_momentum():
    """Sum of the sent and what is left behind = sum over time of m, so no gradient gets lost or counted twice."""
    member, draws, n = Dgc(density=0.05, masking=False, momentum=0.5), np.random.default_rng(4), 800
    values, momentum, total = draws.standard_normal((20, 2, n)), *np.zeros((2, 2, n))
    for item in values:
        momentum = 0.5 * momentum + item
        total += momentum
    steps = list(run(member, values))
    sent = sum(choice.sent.astype(float) for *_, choice in steps)
    np.testing.assert_allclose(sent + steps[-1][0]["residual"], total, atol=1e-4)


def test_sample_sizes_are_the_released_ones():
    member = Dgc(density=0.001)
    for n in (100, 2000, 2001, 5000, 123_456, 1_000_003, 11_173_962):
        wanted = member.sampled(n)
        stride = member.stride(n, wanted)
        assert wanted == (n if n <= 2000 else max(2000, math.ceil(n / 100)))
        assert n // stride >= wanted
        assert stride == 1 or stride % 8 == 1
        assert n <= 2000 or stride == 1 or n // (stride + 32) < wanted


@pytest.mark.long
def test_the_closed_form_is_near_the_replay_and_pays_for_its_sample():
    d, density = 200_000, 0.001
    member, bucket = Dgc(density=density), Bucket(0, (d,), 0)
    closed = member.expect(bucket, 4, INDEPENDENT)
    assert closed.largest == 200
    draws = np.random.default_rng(6)
    replayed = [once(member, draws.laplace(size=(1, d)), t)[1] for t in range(60)]
    assert np.mean([item.selected for item in replayed]) == pytest.approx(200, rel=0.1)
    assert np.mean([item.passes for item in replayed]) == pytest.approx(closed.passes, rel=0.15)
    kernels = member.compute(Selection(closed.selected, 1.0, 200.0, 200.0, float(d), 3.0), bucket, 4)
    sizes = [(item.kernel, sum(item.elements)) for item in kernels]
    assert ("topk", 2000.0) in sizes
    assert ("topk", 200.0) in sizes
    assert ("threshold_scan", 3.0 * d) in sizes
