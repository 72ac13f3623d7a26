"""Curves, kernels, the overlap law and PyTorch's bucket rule."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from scipy.special import betaln
from scipy.stats import binom

from simulator.engine.plan.work.kernels import KernelPrices
from simulator.hardware.gpu import Gpu
from simulator.hardware.kernels import HOST_KERNELS, KERNEL_TRAFFIC, KERNELS
from simulator.hardware.runtime import Runtime
from simulator.models.curves import Affine, Curve, NLogN, Piecewise
from simulator.models.exchange import Bucket, Compute, Rows
from simulator.models.fusing import fuse
from simulator.models.gradients import ALL, Block, Choice, count_selected, largest
from simulator.models.layers import Layer, Workload
from simulator.models.overlap import INDEPENDENT, ScaleMixture, union_density
from simulator.models.precision import FP32_BYTES
from simulator.models.small_cache import cache_small_results
from simulator.models.timeline import Span, covered_time
from simulator.prediction.run import run
from simulator.scenario.reading import load
from simulator.schedulers.bucketed import Bucketed

POINTS = ((1e3, 1e-5), (1e5, 2e-5), (1e7, 1e-3))
increasing = st.lists(st.tuples(st.floats(2, 100), st.floats(1, 4)), min_size=1, max_size=6)


def test_affine_and_n_log_n_curves():
    sizes = np.array([[0.0, 1.0], [8.0, 1e6]])
    np.testing.assert_allclose(Affine(intercept=2e-6, slope=3e-9).time(sizes), 2e-6 + 3e-9 * sizes)
    expected = [[2e-6, 2e-6], [2e-6 + 24e-9, 2e-6 + 1e-9 * 1e6 * math.log2(1e6)]]
    np.testing.assert_allclose(NLogN(intercept=2e-6, coefficient=1e-9).time(sizes), expected)


def test_a_piecewise_curve_meets_its_points_and_continues_their_slopes():
    curve = Piecewise(points=POINTS)
    np.testing.assert_allclose(curve.time([size for size, _ in POINTS]), [time for _, time in POINTS])
    first, last = math.log(2, 100), math.log(50, 100)
    assert (curve.time(1e4), curve.time(1.0)) == pytest.approx((1e-5 * 10**first, 1e-5 * 1e-3**first))
    assert curve.time(1e9) == pytest.approx(1e-3 * 100**last)
    assert curve.time(0) == 0
    assert [curve.covers(size) for size in (999, 1e3, 1e7, 1.1e7)] == [False, True, True, False]


@given(steps=increasing, sizes=st.lists(st.floats(1e-3, 1e12), min_size=2, max_size=20))
def test_a_piecewise_curve_through_increasing_points_never_falls(steps, sizes):
    x, y = np.cumprod([(1.0, 1e-6), *steps], axis=0).T
    times = Piecewise(points=tuple(zip(x.tolist(), y.tolist(), strict=True))).time(np.sort(sizes))
    assert (np.diff(times) >= -1e-9 * times[1:]).all()


WRONG = [((1, 1), (3, 1), (2, 1)), ((1, 1), (1, 2), (3, 3)), ((1, 1), (2, 0), (3, 3)), ((1, 1), (2, 2), (3, 0))]


@pytest.mark.parametrize("points", [*WRONG, ((2, 1), (1, 2)), ((1, 0), (2, 1)), ((0, 1), (2, 1)), ((1, 1),)])
def test_points_that_make_no_curve_are_refused(points):
    """A pair of sizes that do not rise, a time or a size of nothing, or a single point."""
    with pytest.raises(ValidationError):
        Piecewise(points=points)


def test_the_range_is_checked_on_every_size():
    curve = Affine(range=(10, 100))
    assert curve.in_range([10, 50, 100])
    assert curve.in_range([])
    assert not curve.in_range([50, 101])
    assert Affine().in_range([1e30])


def test_a_curve_says_its_kind():
    assert isinstance(TypeAdapter(Curve).validate_python({"curve": "n_log_n", "coefficient": 1e-9}), NLogN)
    with pytest.raises(ValidationError, match="did you mean 'piecewise'"):
        TypeAdapter(Curve).validate_python({"curve": "piecewize", "points": POINTS})


def test_kernels_without_a_curve_cost_their_bytes():
    """From the measured elementwise kernel, else the data sheet, else nothing; a measured curve goes first.

    Streaming kernels reach what elementwise does; nothing is faster than the data sheet's share of its bandwidth.
    """
    measured = Gpu(name="m", kernels={"elementwise": Affine(intercept=1e-5, slope=2e-11), "topk": Affine(slope=1e-9)})
    sheet, bare = Gpu(name="s", memory_bandwidth=5e11), Gpu(name="b")
    ideal = Gpu(name="i", ideal=True, kernels=measured.kernels)
    sizes = np.array([0.0, 1e6])
    assert measured.kernel_time("topk", sizes)[1] == 1e-3
    for kernel in ("unscale", "dequantise", "cast", "matmul"):
        by_elementwise = 1e-5 + 2e-11 * KERNEL_TRAFFIC[kernel] / KERNEL_TRAFFIC["elementwise"] * 1e6
        np.testing.assert_allclose(measured.kernel_time(kernel, sizes), [0, by_elementwise])
    for kernel in set(KERNEL_TRAFFIC) - set(HOST_KERNELS):
        few, many = sheet.kernel_time(kernel, [1.0, 1e6])
        assert 1e-6 < few < many
        assert sheet.kernel_time(kernel, 0.0) == 0
        assert KERNELS[kernel].kind == "host" or not bare.kernel_time(kernel, sizes).any()
        assert not ideal.kernel_time(kernel, sizes).any()
    assert ideal.curve("topk") is None


def test_the_spread_belongs_to_the_measured_curve():
    gpu = Gpu(name="a", kernels={"topk": Affine(slope=1e-9, spread=0.06)})
    assert (gpu.spread("topk"), gpu.spread("gather")) == (0.06, 0)


densities, worker_counts = st.floats(1e-6, 0.999), st.integers(1, 1024)


@given(density=densities, workers=worker_counts)
def test_the_overlap_law_at_its_limits(density, workers):
    independent = 1 - (1 - density) ** workers
    assert union_density(density, workers) == pytest.approx(independent, rel=1e-6)
    assert union_density(density, workers, 0) == density
    assert union_density(density, workers, 1e-9) == pytest.approx(density, rel=1e-4)
    assert union_density(density, 1, 30) == pytest.approx(density)
    assert (union_density(0, workers), union_density(1, workers)) == (0, 1)


@pytest.mark.parametrize("concentration", [1e6, 1e9, 1e12, 1e15, 1e300, 1e308])
def test_the_overlap_law_tends_to_independence(concentration):
    for density in (1e-4, 0.01, 0.5):
        independent = union_density(density, 32, INDEPENDENT)
        assert union_density(density, 32, concentration) == pytest.approx(independent, rel=1e-4), density


@pytest.mark.parametrize("concentration", [1e-6, 1e-300, 5e-324])
def test_the_overlap_law_tends_to_identical_choices(concentration):
    assert union_density(0.01, 32, concentration) == pytest.approx(0.01, rel=1e-3)


@given(density=densities, workers=st.integers(2, 64), concentration=st.floats(1e-2, 1e4))
def test_the_overlap_law_is_a_product_of_misses(density, workers, concentration):
    """K(n)/d = 1 - prod over i < n of (b + i)/(c + i), which is B(a, b + n)/B(a, b) written out."""
    i = np.arange(workers)
    missed = np.prod(((1 - density) * concentration + i) / (concentration + i))
    union = union_density(density, workers, concentration)
    assert union == pytest.approx(1 - missed, rel=1e-6, abs=1e-9)
    assert density * (1 - 1e-9) <= union <= min(1, workers * density) * (1 + 1e-9)


def test_ddp_buckets_of_resnet50():
    """The buckets that PyTorch's DistributedDataParallel makes: 1 MiB first, then 25 MiB."""
    workload = load("quickstart").workload
    assert (len(workload.layers), workload.numel) == (161, 25_557_032)
    buckets = Bucketed().plan(workload.layers)
    assert [bucket.numel for bucket in buckets] == [2_049_000, 7_875_584, 6_563_840, 6_637_568, 2_431_040]
    for bucket, limit in zip(buckets[:-1], (2**20, *[25 * 2**20] * 3), strict=True):
        assert FP32_BYTES * (bucket.numel - bucket.pieces[-1]) < limit <= FP32_BYTES * bucket.numel


@pytest.mark.parametrize(
    ("numels", "value_bytes", "filled"),
    [
        ([1000, 2_048_000, 4_000_000, 3_000_000, 5], 4, [2_049_000, 7_000_000, 5]),
        ([262_143, 1, 6_553_600], 4, [262_144, 6_553_600]),
        ([2**18, 2**18], 4, [2**18, 2**18]),
        ([2**18, 2**18], 2, [2**19]),
        ([], 4, []),
    ],
)
def test_buckets_close_with_the_tensor_that_fills_them(numels, value_bytes, filled):
    layers = [Layer(name="", numel=numel) for numel in reversed(numels)]
    groups = fuse(layers, (2**20, 25 * 2**20), value_bytes)
    assert [sum(layers[place].numel for place in group) for group in groups] == filled


def test_a_workload_is_stretched_to_its_measured_step():
    layers = (Layer(name="a", numel=10, forward=1, backward=2), Layer(name="b", numel=5, forward=3, backward=4))
    workload = Workload(batch_size=8, compute_time=6, layers=layers)
    stretched = workload.stretched(1)
    assert stretched.forward_time + stretched.backward_time == pytest.approx(5)
    assert stretched.layers[1].backward == pytest.approx(4 * 5 / 10)
    assert workload.rescaled(4).backward_time == pytest.approx(3)
    assert (workload.numel, workload.numels.tolist()) == (15, [10, 5])


def test_rows_of_an_embedding_follow_the_batch_and_divide_it():
    layers = ({"name": "words", "numel": 60, "backward": 1, "rows": {"count": 8, "width": 20}},)
    workload = Workload.model_validate({"batch_size": 2, "layers": layers, "compute_time": 5})
    assert workload.rescaled(5).layers[0].rows == Rows(count=20, width=20)
    assert workload.stretched(1).layers[0].rows == Rows(count=8, width=20)
    with pytest.raises(ValueError, match="expected a width that divides 60, got 25"):
        Workload.model_validate({"batch_size": 2, "layers": [layers[0] | {"rows": {"count": 8, "width": 25}}]})


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=8), st.integers(0, 15), st.integers(15, 30))
def test_covered_counts_overlaps_once(intervals, start, end):
    ticks = {t for left, right in intervals for t in range(left, right) if start <= t < end}
    assert covered_time(intervals, start, end) == len(ticks)


@pytest.mark.parametrize(
    ("rho", "workers", "spread", "core"), [(0.01, 16, 1.0, 0.2), (0.1, 4, 0.5, 0.6), (1e-3, 64, 2.0, 0)]
)
def test_a_scale_mixture_is_its_integral(rho, workers, spread, core):
    """By the trapezoidal rule over the scales, with the threshold found by bisection."""
    z = np.linspace(-10, 10, 4_001)
    weight = np.exp(-z * z / 2) / np.exp(-z * z / 2).sum()
    rest, low, high = (rho - core * rho) / (1 - core * rho), 1e-12, 1e6
    for _ in range(80):
        middle = math.sqrt(low * high)
        q = np.exp(-middle * np.exp(-spread * z))
        low, high = (middle, high) if float(weight @ q) > rest else (low, middle)
    expected = core * rho + (1 - core * rho) * (1 - float(weight @ (1 - q) ** workers))
    assert union_density(rho, workers, ScaleMixture(spread, core)) == pytest.approx(expected, rel=1e-3)
    assert union_density(rho, 1, ScaleMixture(spread, core)) == pytest.approx(rho, rel=1e-9)


def test_variances_of_kernels_add():
    gpu = Gpu(name="card", kernels={"topk": Affine(intercept=1e-6, slope=1e-9, spread=0.1)})
    item = Compute("topk", (3000.0, 4000.0), 2, "selection", times=9)
    spread = KernelPrices(gpu, Runtime()).spread(item)
    assert spread == pytest.approx(0.1 * math.sqrt(9 * (4e-6**2 + 5e-6**2)), rel=1e-12)


@pytest.mark.parametrize("concentration", [1e-3, 0.3, 1.0])
def test_a_concentration_up_to_1_is_not_yet_identical_choices(concentration):
    """1 - B(a, b + n)/B(a, b) by scipy's beta functions, well above the one density of identical choices."""
    a, b, union = 0.1 * concentration, 0.9 * concentration, union_density(0.1, 16, concentration)
    assert union == pytest.approx(-math.expm1(betaln(a, b + 16) - betaln(a, b)), rel=1e-9)
    assert union > 0.1


def test_a_step_shorter_than_its_update_is_an_error():
    layer = Layer(name="a", numel=1, forward=1.0, backward=1.0)
    said = "expected a compute_time above the update's 0.1 s, got 0.1 s: compute_time is the whole iteration of"
    with pytest.raises(ValueError, match=re.escape(said)):
        Workload(batch_size=1, compute_time=0.1, layers=(layer,)).stretched(0.1)


def test_layers_without_times_share_the_step_by_their_elements():
    layers = (Layer(name="a", numel=10), Layer(name="b", numel=30))
    made = Workload(batch_size=1, compute_time=0.5, layers=layers).stretched(0.1)
    assert [layer.forward + layer.backward for layer in made.layers] == pytest.approx([0.1, 0.3])
    assert made.backward_time == pytest.approx(2 * made.forward_time)


def test_spans_that_were_let_go_say_so():
    iteration = run(load("quickstart")).iteration
    assert iteration.spans()
    iteration.forget()
    for ask in (iteration.spans, iteration.computed, lambda: iteration.spans_of(0)):
        with pytest.raises(RuntimeError, match="the spans of this iteration were not kept: run with keep_iterations"):
            ask()


def test_a_kernel_of_no_elements_takes_no_time():
    kernels = KernelPrices(Gpu(name="a", kernels={"topk": Affine(intercept=1e-3, slope=1e-9)}), Runtime())
    assert (kernels.cost(Compute("topk", (), 3, "selection")), kernels.used_in(1)) == (0, {})
    assert kernels.cost(Compute("topk", (1.0,), 3, "selection")) >= 1e-3


def test_the_latest_64_results_are_remembered():
    """Of 65 the first is made anew; one that was asked for again counts as late."""
    made = []
    numbers = cache_small_results(lambda n: made.append(n) or [n])
    for n in (*range(64), 0, 64):
        assert numbers(n) == [n]
    assert made == list(range(65))
    assert [numbers(n) for n in (0, 64, 63, 2)] == [[0], [64], [63], [2]]
    assert made == list(range(65))
    numbers(1)
    assert made == [*range(65), 1]


def test_a_sampled_count_has_the_standard_error_of_its_draws():
    """Of 1,200 coordinates that were selected, each held with chance 1/w: a binomial count, times w."""
    for w in (1, 4, 30):
        held = 1200 // w
        values, piece = np.ones((2, held), dtype=np.float32), np.zeros(held, dtype=np.int64)
        block = Block(values, piece, np.arange(held) * w, np.full(held, float(w)), (1200,))
        found = count_selected(Choice([ALL, ALL]), block, 1200.0)
        assert (found.aggregated, found.largest) == (1200, 1200)
        assert found.aggregated_error == pytest.approx(w * binom(1200, 1 / w).std(), rel=1e-12)


def test_the_largest_are_found_where_the_sample_is_not_like_the_rest():
    """Every fourth is above 10 and all of the sample, so that its bound is passed by fewer than are wanted."""
    row = np.random.default_rng(0).random(40_000)
    row[::4] += 10
    for k in (15_000, 9_000, 100):
        assert largest(row, k).tolist() == sorted(np.argsort(row)[-k:].tolist())


def test_a_span_belongs_to_no_bucket_and_no_layer_unless_it_is_said():
    span = Span("compute", "input", 1.0, 3.0)
    assert (span.bucket, span.layer, span.duration) == (-1, -1, 2.0)


@pytest.mark.parametrize("length", [40, 30_000])  # the longer row is narrowed down by a sample first
@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
def test_of_equal_magnitudes_the_first_are_taken(length, share):
    row = np.random.default_rng(0).integers(0, 5, length).astype(np.float32)
    k = max(1, int(share * length))
    first = np.argsort(-row, kind="stable")[:k]
    for values in (row, row * np.random.default_rng(1).choice([-1, 1], length).astype(np.float32)):
        np.testing.assert_array_equal(largest(values, k), np.sort(first[row[first] > 0]))


def test_a_bucket_lies_in_one_piece_if_it_is_one_tensor_or_was_filled():
    assert Bucket(0, (3,), 0).in_one_piece
    assert not Bucket(0, (3, 4), 0).in_one_piece
    assert Bucket(0, (3, 4), 0, filled=True).in_one_piece
