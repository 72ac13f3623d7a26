"""SparseLoCo against plain loops and against the published sizes."""

import math
import statistics

import numpy as np
import pytest
from common import block, sent_per_worker

from simulator.component import build
from simulator.models.exchange import AllGather, Bucket
from simulator.models.overlap import INDEPENDENT
from simulator.sparsifiers.base import Sparsifier
from simulator.sparsifiers.sparseloco import SparseLoCo


def gathered(method, pieces, workers=8):
    bucket = Bucket(0, pieces, 0)
    steps = method.exchange(method.expect(bucket, workers, INDEPENDENT), bucket, workers, "collective")
    return next(step for step in steps if isinstance(step, AllGather)), steps


def test_an_entry_is_14_bits_and_a_payload_146_times_smaller():
    """4096 x 32 bits against 64 x 14, and 20 bytes per tensor with which values are decoded."""
    numel = 4096 * 1000
    gather, steps = gathered(SparseLoCo(), (numel, numel))
    assert gather.nbytes == 2 * (1000 * 64 * 14 / 8 + 20)
    assert 4 * numel / (gather.nbytes / 2 - 20) == pytest.approx(146.3, abs=0.05)
    assert sent_per_worker(steps, 8).tolist() == [7 * gather.nbytes] * 8
    released, _ = gathered(SparseLoCo(bits=8), (numel,))
    assert 4 * numel / (released.nbytes - 20) == pytest.approx(102.4)


def test_the_kernels_are_those_of_the_released_code():
    """Calls of one tensor in one-covenant/templar, and reads of the host."""
    method, bucket = SparseLoCo(), Bucket(0, (4096 * 10,), 0)
    calls, reads = {}, {}
    for item in method.compute(method.expect(bucket, 8, INDEPENDENT), bucket, 8):
        calls[item.kernel] = calls.get(item.kernel, 0) + item.calls
        reads[item.kernel] = reads.get(item.kernel, 0) + item.reads
    before = {"elementwise": 1, "residual_add": 2, "copy": 1 + 2, "chunk_topk": 2, "gather": 1, "pack_indices": 18}
    coded = {"statistics": 6, "quantise": 7, "scatter_add": 2 + 3 + 1, "dequantise": 3, "unpack_indices": 13}
    assert calls == before | coded
    assert {kernel: count for kernel, count in reads.items() if count} == {"pack_indices": 1, "statistics": 4}


def test_covenant_sends_1_988_gigabytes():
    """72.7e9 parameters (2603.08163), here as 80 layers of eight tensors."""
    gather, _ = gathered(SparseLoCo(), (72_700_000_000 // 640,) * 640)
    assert gather.nbytes / 1e9 == pytest.approx(1.988, abs=0.0005)


def decoded_by_lists(values, bins):
    """Shift by the mean, steps of 6 deviations / bins around code bins / 2, the mean of each step."""
    mean, step = statistics.fmean(values), 6 * statistics.stdev(values) / bins
    codes = [min(max(round((x - mean) / step + bins // 2), 0), bins - 1) for x in values]
    table = {c: statistics.fmean(x for x, own in zip(values, codes, strict=True) if own == c) for c in set(codes)}
    return [table[code] for code in codes]


@pytest.mark.parametrize("bins", [2, 3, 4])
def test_every_iteration_is_the_published_one(bins):
    """e = 0.95 e + difference; of each chunk (8 x 8 elements of a tensor) the 5 largest; e less what is decoded."""
    numels, draws, method = (200, 64), np.random.default_rng(1), SparseLoCo(chunk=8, k=5, bins=bins)
    error, state = np.zeros((2, 264)), None
    for iteration in range(4):
        values = draws.standard_normal((2, 264)).astype(np.float32)
        item = block(values, numels, iteration)
        state = method.start(item) if state is None else state
        done, error = method.select(state, item), 0.95 * error + values
        for worker, row in enumerate(error):
            sent = np.zeros(264)
            for low, high in ((0, 200), (200, 264)):
                chosen = []
                for start in range(low, high, 64):
                    inside = range(start, min(start + 64, high))
                    chosen += sorted(sorted(inside, key=lambda i, row=row: -abs(row[i]))[:5])
                sent[chosen] = decoded_by_lists(row[chosen].tolist(), bins)
            np.testing.assert_allclose(done.sent[worker], sent, rtol=1e-4, atol=1e-6)
            error[worker] -= sent
        np.testing.assert_allclose(state["residual"], error, rtol=1e-4, atol=1e-5)
        assert done.selection.selected.tolist() == [5 * 5] * 2
        np.testing.assert_allclose(method.combine(done, item), np.mean(done.sent, axis=0), rtol=1e-6)


def test_a_constant_tensor_is_sent_exactly():
    """Without a deviation all values share a step, whose mean they are."""
    item = block(np.full((1, 100), 3.0, dtype=np.float32), (99, 1))
    done = SparseLoCo().select(SparseLoCo().start(item), item)
    assert (set(done.sent[0][done.choice.chosen[0]].tolist()), len(done.choice.chosen[0])) == ({3.0}, 65)


def test_more_bins_lose_less():
    item = block(np.random.default_rng(2).standard_normal((2, 4096)), (4096,))
    lost = []
    for bins, bits in ((2, 2), (4, 2), (16, 4), (256, 8)):
        method = SparseLoCo(bins=bins, bits=bits)
        lost.append(method.select(method.start(item), item).losses.sum())
    exact = math.fsum(float(np.sort(np.square(row))[: 4096 - 64].sum()) for row in item.values)
    assert lost == sorted(lost, reverse=True)
    assert lost[-1] == pytest.approx(exact, rel=1e-3)


def test_bins_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="at most 4 bins for values of 2 bits"):
        build(Sparsifier, {"kind": "sparseloco", "bins": 8})
