"""RedSync against the released bisection in plain Python."""

import numpy as np
import pytest
from common import follow, once
from hypothesis import given
from hypothesis import strategies as st

from simulator.models.exchange import Bucket
from simulator.models.overlap import INDEPENDENT
from simulator.sparsifiers.redsync import RedSync


def reference(u, density, tolerance):
    """Indices, passes and whether the count ended between k and 2k, of one unit."""
    k = max(1, round(density * len(u)))
    magnitudes = [abs(value) for value in u]
    mean, most = sum(magnitudes) / len(u), max(magnitudes)
    left, right, passes, indices = 0.0, 1.0, 0, []
    while right - left > tolerance:
        ratio = left + (right - left) / 2
        indices = [j for j, value in enumerate(magnitudes) if value > mean + ratio * (most - mean)]
        passes += 1
        if k < len(indices) < 2 * k:
            return indices, passes, True
        if len(indices) < k / 2:
            right = ratio
        else:
            left = ratio
    return indices, passes, False


@pytest.mark.parametrize(("tolerance", "power"), [(0.2, 1), (0.2, 3), (0.01, 1), (0.01, 3), (0.5, 1)])
def test_replay_is_the_released_loop(tolerance, power):
    member = RedSync(density=0.05, tolerance=tolerance)
    gradients = np.random.default_rng(power).standard_normal((8, 3, 501)) ** power
    for choice in follow(member, gradients, (300, 200, 1), lambda u: reference(u, 0.05, tolerance)):
        assert not choice.chosen[:, 500].any(), "one element never exceeds its own mean"


@given(
    seed=st.integers(0, 2**32),
    scale=st.floats(1e-6, 1e6),
    density=st.floats(0.002, 0.1),
    tolerance=st.floats(1e-3, 0.5),
)
def test_counts_lie_between_k_and_2k_exactly_where_the_search_converged(seed, scale, density, tolerance):
    values = scale * np.random.default_rng(seed).laplace(size=(1, 3000))
    member = RedSync(density=density, tolerance=tolerance)
    _, selection, _, choice = once(member, values)
    k = round(3000 * density)
    assert (choice.detail["converged"] == 1.0) == (k < selection.largest < 2 * k)
    assert selection.passes <= member.passes()
    if not choice.detail["converged"]:
        assert selection.passes == member.passes()


@pytest.mark.long
def test_about_half_of_the_searches_end_outside_however_fine():
    """Of 40 normal workers at 0.1 % of 100,000: 45 % end inside after three passes, 58 % after ten.

    A count from k/2 to k sends the released search upwards, to even fewer, whatever the tolerance.
    """
    values = np.random.default_rng(3).standard_normal((40, 100_000))
    ended = {t: once(RedSync(density=0.001, tolerance=t), values) for t in (0.2, 0.001)}
    assert [RedSync(density=0.001, tolerance=t).passes() for t in ended] == [3, 10]
    assert [ended[t][3].detail["converged"] for t in ended] == pytest.approx([0.45, 0.575], abs=0.1)
    assert ended[0.2][1].selected.min() < 20
    assert ended[0.2][1].selected.max() > 200
    assert ended[0.001][1].selected.min() >= 45
    assert ended[0.001][1].selected.max() < 200


def test_the_closed_form_lies_where_a_converged_search_ends():
    member, bucket = RedSync(density=0.01), Bucket(0, (5000, 3000), 0)
    closed = member.expect(bucket, 4, INDEPENDENT)
    assert closed.target == 80
    assert 80 < closed.largest < 160
    assert closed.passes == 3
    whole = RedSync(density=1.0).expect(bucket, 4, INDEPENDENT)
    assert whole.largest == whole.aggregated == 8000
    scan = next(item for item in member.compute(closed, bucket, 4) if item.kernel == "threshold_scan")
    assert (sum(scan.elements), scan.calls) == (3 * 8000, 3 * 3 * 2)
