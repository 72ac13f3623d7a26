"""Values at the exact limits of a rule, and results that must not depend on the scale of the gradients."""

import math
from statistics import NormalDist

import numpy as np
import pytest
from common import block
from replayed import select

from simulator.models.exchange import Bucket
from simulator.models.overlap import INDEPENDENT
from simulator.sparsifiers.dgc import Dgc, _graph_rounds
from simulator.sparsifiers.natural import Natural
from simulator.sparsifiers.oktopk import OkTopK, kth_magnitude
from simulator.sparsifiers.powersgd import PowerSGD
from simulator.sparsifiers.qsgd import QSGD
from simulator.sparsifiers.quantised_all_reduce import FORMATS
from simulator.sparsifiers.sage import Sage
from simulator.sparsifiers.sketch import Sketch
from simulator.sparsifiers.threshold import Threshold


def coded_by_means(values):
    """Uniform codes of a byte, one by one: the deviation has n - 1, steps are 6 deviations / 256, codes 0 to 255."""
    step = 6 * math.sqrt(sum(x * x for x in values) / max(1, len(values) - 1)) / 256
    codes = [min(max(round(x / step) + 128, 0), 255) for x in values]
    cells = {code: [x for x, own in zip(values, codes, strict=True) if own == code] for code in set(codes)}
    return [sum(cells[code]) / len(cells[code]) for code in codes]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_uniform_codes_of_the_shortest_rows(n):
    """Of two nearly equal values the step decides whether they share a code."""
    draws, shared = np.random.default_rng(n), set()
    for _ in range(300):
        values = (1 + draws.uniform(0, 0.03, n)).tolist()
        decoded = FORMATS["uint8"].rounded(np.array(values), n).tolist()
        assert decoded == pytest.approx(coded_by_means(values), rel=1e-12)
        shared.add(len(set(decoded)))
    assert shared == set(range(1, min(n, 2) + 1))


def test_uniform_codes_end_at_0_and_at_255():
    """The deviation is 1.006, so that 2.97 is 126 steps, the last code but one, and 3, 3.1 and 3.3 share the last."""
    largest = [2.97, 3.0, 3.1, 3.3]
    values = [*[1.0, -1.0] * 2000, *largest, *(-x for x in largest)]
    decoded = FORMATS["uint8"].rounded(np.array(values), len(values)).tolist()
    assert decoded == pytest.approx(coded_by_means(values), rel=1e-12)
    assert decoded[4000:4004] == pytest.approx([2.97, *[(3.0 + 3.1 + 3.3) / 3] * 3])
    drawn = np.random.default_rng(7).standard_normal(1000).tolist()
    assert FORMATS["uint8"].rounded(np.array(drawn), 1000).tolist() == pytest.approx(coded_by_means(drawn), rel=1e-12)
    assert decoded[4004:] == pytest.approx([-2.97, -3.0, -3.2, -3.2])  # one code more: 128 steps down, 127 up


@pytest.mark.parametrize("name", FORMATS)
def test_a_scale_by_a_power_of_two_changes_no_code(name):
    values = np.random.default_rng(4).standard_normal(64)
    whole = FORMATS[name].rounded(values, 16)
    for exponent in (-40, -3, 9):
        assert (FORMATS[name].rounded(values * 2.0**exponent, 16) == whole * 2.0**exponent).all()


def test_nine_bits_of_natural_compression_end_where_normal_numbers_do():
    """Exponents of fp32 are -126 to 127; what is below is denormal and becomes 0."""
    values = np.array([[2.0**-126, 2.0**-127, -(2.0**-149), 2.0**127]], dtype=np.float32)
    assert Natural(bits=9).quantised(values, block(values, (4,))).tolist() == [[2.0**-126, 0.0, 0.0, 2.0**127]]


@pytest.mark.parametrize(("bins", "width"), [(2, 1), (255, 1), (256, 2), (65536, 2)])
def test_bins_take_a_second_byte_from_256_on(bins, width):
    """GRACE casts to uint8 below 256 quantiles, otherwise to uint16."""
    assert Sketch(bins=bins).payload((10, 3)) == (13 * width, 2 * 4 * bins)


@pytest.mark.parametrize(("levels", "width"), [(127, 1), (128, 1), (128, 2), (32767, 2), (32768, 2)])
def test_levels_fit_into_signed_numbers_of_their_bytes(levels, width):
    """The largest int8 is 127, the largest int16 is 32767."""
    if levels > (most := 2 ** (8 * width - 1) - 1):
        with pytest.raises(ValueError, match=f"less than or equal to {most}"):
            QSGD(levels=levels, level_bytes=width)
    else:
        assert QSGD(levels=levels, level_bytes=width).payload((128,)) == (128 * width, 4)


def test_a_vector_is_no_matrix_of_rank_1():
    """1 x n needs n + 1 numbers, more than the vector itself; 2 x n/2 would need fewer."""
    assert PowerSGD(rank=1)._shapes((600,), ((600,),)) == [None]
    assert PowerSGD(rank=1)._shapes((600,), ((2, 300),)) == [(2, 300)]


def test_factors_as_large_as_the_matrix_are_not_sent():
    """3 x 6 at rank 2 has 18 elements, and so have its factors; 3 x 7 has 21, and they have 20."""
    assert PowerSGD(rank=2)._shapes((18, 21), ((3, 6), (3, 7))) == [None, (3, 7)]


def test_dgc_expects_a_second_pass_where_the_sample_gives_less_than_0_8_k():
    """Of 200,000 elements and k = 200, 2,000 are drawn with 2 above: P(z < -0.2 sqrt(2)). 1,000 are read as a whole."""
    again, member = NormalDist().cdf(-0.2 * math.sqrt(2)), Dgc(density=0.001)
    for pieces, passes in (((200_000,), 1 + again), ((1000,), 1.0), ((200_000, 1000), 1 + again * 200 / 201)):
        assert member.expect(Bucket(0, pieces, 0), 4, INDEPENDENT).passes == pytest.approx(passes, rel=1e-12)


def test_strides_of_samples_are_the_largest_of_their_grid():
    """Odd numbers 8 i + 1, which the released code walks down in eights; also of a sample of a thousandth."""
    for n in (33_000, 65_000, 297_000, 297_999, 999_999):
        assert Dgc(density=0.01, sample_ratio=0.001).stride(n, 1000) == max(s for s in range(1, n, 8) if n // s >= 1000)


def test_the_law_of_rounds_in_grace_by_its_error_function():
    """Of 40,000 elements at 1/4 the sample holds 100 above: the window is 2 deviations down and 2.5 up."""
    for numel, density, above in ((40_000, 0.25, 10.0), (100, 0.1, 1.0), (800, 0.5, 2.0)):
        inside = (math.erf(0.25 * above / math.sqrt(2)) + math.erf(0.2 * above / math.sqrt(2))) / 2
        assert _graph_rounds(Dgc(density=density), numel) == pytest.approx(20 * (1 - inside), rel=1e-9)


def test_without_survivors_the_next_iteration_of_oktopk_takes_every_sum():
    """Of zeros nothing is selected: both thresholds are 0, and regions are as balanced as none can be."""
    member, zeros = OkTopK(density=0.5), block(np.zeros((2, 8)), (8,))
    state, selection, _, choice = select(member, member.start(zeros), zeros)
    assert (selection.aggregated, choice.detail["region_imbalance"], state["global"]) == (0, 1.0, 0.0)
    values = np.zeros((2, 8))
    values[0, 1], values[1, 6] = 0.25, -0.5
    _, selection, _, _ = select(member, state, block(values, (8,), 1))
    assert (selection.selected.tolist(), selection.aggregated) == ([1, 1], 2)


def test_of_a_sample_that_is_wanted_as_a_whole_no_magnitude_is_left():
    """Two coordinates that stand for three elements each, and six elements wanted."""
    half = np.array([0.5, 0.25], dtype=np.float32)
    assert kth_magnitude(half, np.array([3.0, 3.0]), 6, lambda rows, places: np.full(places.shape, 0.5)) == 0.0


def test_the_mean_of_a_sample_is_taken_in_fp64():
    """Sums of numbers of 24 bits need more than fp32 has, and are exact in fp64."""
    values = np.full(4000, 2.0**-13, dtype=np.float32)
    values[::2] = 1 + 2.0**-12 + 2.0**-23
    item, member = block(values[None], (4000,)), Sage(density=0.01, seed=3)
    drawn = np.random.default_rng([3, 0, 0]).integers(4000, size=int(4000 / (1 + 4000 * 0.0025)))
    exact = math.fsum(float(values[j]) for j in drawn) / len(drawn)
    assert member._sampled_mean(values, item, 0) == pytest.approx(exact, rel=1e-14)
    assert float(values[drawn].mean()) != pytest.approx(exact, rel=1e-14)


@pytest.mark.parametrize("kind", [Threshold, Sage])
@pytest.mark.parametrize(("numel", "threshold"), [(2500, 0.1), (225, 1 / 3), (100, 0.5), (50, 0.5)])
def test_the_first_threshold_is_half_of_one_over_the_root_of_k(kind, numel, threshold):
    """k = 25, 2.25, 1, and 1 where the density asks for half an element."""
    item, member = block(np.ones((1, numel)), (numel,)), kind(density=0.01)
    assert select(member, member.start(item), item)[3].detail["threshold"] == pytest.approx(threshold, rel=1e-12)


@pytest.mark.parametrize(
    ("density", "large", "gamma"),
    [(0.5, 49, 0.95), (0.5, 50, 1.0), (0.5, 300, 1.0), (0.05, 500, 1.0), (0.05, 501, 1.05)],
)
def test_gamma_of_sage_acts_below_a_tenth_of_the_density_and_above_ten_times_it(density, large, gamma):
    """`large` of 1,000 elements are far above the threshold of 1 and the others far below, twice."""
    values = np.full((1, 1000), 1e-3)
    values[0, :large] = 10.0
    member = Sage(density=density, threshold=1.0)
    first, _, _, _ = select(member, member.start(block(values, (1000,))), block(values, (1000,)))
    state, _, _, _ = select(member, first, block(values, (1000,), 1))
    alpha = float(state["sampled_means"][0] / first["sampled_means"][0])
    beta = 2 / (1 + math.exp(density - large / 1000))
    assert 0.01 < alpha < 5
    assert state["thresholds"].tolist() == pytest.approx([alpha * beta * gamma], rel=1e-12)
