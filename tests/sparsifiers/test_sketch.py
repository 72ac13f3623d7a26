"""The quantile sketch against quantiles of a sorted list; what its bins keep."""

import math
from bisect import bisect_right

import numpy as np
import pytest
from common import block

from simulator.sparsifiers.sketch import Sketch


def reference(tensor, bins):
    """Borders by linear interpolation between sorted values, then the mean of each bin."""
    ordered, borders = sorted(tensor), []
    for j in range(1, bins):
        place = (len(ordered) - 1) * j / bins
        low, high = ordered[math.floor(place)], ordered[min(math.ceil(place), len(ordered) - 1)]
        borders.append(low + (high - low) * (place - math.floor(place)))
    codes = [bisect_right(borders, x) for x in tensor]
    held = {code: [x for x, own in zip(tensor, codes, strict=True) if own == code] for code in codes}
    return [math.fsum(held[code]) / len(held[code]) for code in codes]


@pytest.mark.parametrize("bins", [2, 5, 64])
def test_it_codes_as_a_sorted_list_does(bins):
    numels, draws = (301, 1, 40), np.random.default_rng(6)
    values = draws.standard_normal((2, 342)).astype(np.float32)
    sent = Sketch(bins=bins).quantised(values, block(values, numels))
    for row, out in zip(values.astype(float), sent, strict=True):
        tensors = np.split(row, np.cumsum(numels)[:-1])
        expected = np.concatenate([reference(tensor.tolist(), bins) for tensor in tensors])
        np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-7)


def test_bins_are_equally_full_and_keep_the_sum():
    values = np.random.default_rng(7).standard_normal((1, 6400)).astype(np.float32)
    sent = Sketch(bins=64).quantised(values, block(values, (6400,)))[0]
    means, counts = np.unique(sent, return_counts=True)
    assert len(means) == 64
    assert set(counts.tolist()) == {100}
    assert sent.sum(dtype=float) == pytest.approx(values.sum(dtype=float), rel=1e-4)


def test_more_bins_lose_less():
    values = np.random.default_rng(8).standard_normal((2, 4096)).astype(np.float32)
    item = block(values, (4096,))
    lost = [float(np.square(Sketch(bins=bins).quantised(values, item) - values).sum()) for bins in (2, 8, 64, 1024)]
    assert lost == sorted(lost, reverse=True)
    assert lost[-1] < lost[0] / 1000
