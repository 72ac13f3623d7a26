"""Synthetic gradients: moments, tails, correlation, hot coordinates, drift, and that they repeat."""

import hashlib
import math

import numpy as np
import pytest
from drawn import or_none
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from replayed import select

from simulator.models.overlap import union_density
from simulator.sparsifiers.topk import TopK
from simulator.traces.synthetic import Synthetic, SyntheticLayer, blocks


def one(**changes):
    """The first iteration of a trace with one layer of 200,000 elements on two workers, unless told otherwise."""
    layer = {"numel": 200_000, "scale": 1.0} | {k: v for k, v in changes.items() if k in SyntheticLayer.model_fields}
    rest = {k: v for k, v in changes.items() if k in Synthetic.model_fields}
    return next(blocks(Synthetic(**({"layers": [layer], "workers": 2, "iterations": 1} | rest)))).values.astype(float)


@pytest.mark.parametrize(
    ("tail", "freedom", "kurtosis", "slack"),
    [
        ("gaussian", 3.0, 3.0, 0.05), ("laplace", 3.0, 6.0, 0.2), ("student_t", 10.0, 4.0, 0.15),
        ("student_t", 20.0, 3.375, 0.1),
    ],
)  # fmt: skip
def test_moments_are_the_tails_own(tail, freedom, kurtosis, slack):
    for row in one(tail=tail, degrees_of_freedom=freedom, scale=0.25) / 0.25:
        assert row.mean() == pytest.approx(0, abs=0.01) and row.var() == pytest.approx(1, rel=0.02)
        assert (row**3).mean() == pytest.approx(0, abs=0.15)
        assert (row**4).mean() / row.var() ** 2 == pytest.approx(kurtosis, abs=slack)


def test_quantiles_are_the_tails_own():
    """P(|g| > 3): 0.0027 for a Gaussian, exp(-3 sqrt 2) for Laplace; t with 3 degrees has the form below."""
    x = 3 * math.sqrt(3)
    heavy = 1 - 2 / math.pi * (math.atan(x / math.sqrt(3)) + math.sqrt(3) * x / (3 + x**2))
    for tail, share in (
        ("gaussian", math.erfc(3 / math.sqrt(2))),
        ("laplace", math.exp(-3 * math.sqrt(2))),
        ("student_t", heavy),
    ):
        assert (np.abs(one(tail=tail)) > 3).mean() == pytest.approx(share, rel=0.06)


@pytest.mark.parametrize("tail", ["gaussian", "laplace", "student_t"])
@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.9, 1.0])
def test_workers_are_correlated_as_told(tail, correlation):
    values = one(tail=tail, degrees_of_freedom=6, correlation=correlation, workers=3)
    np.testing.assert_allclose(np.corrcoef(values), correlation + (1 - correlation) * np.eye(3), atol=0.015)
    assert values.var() == pytest.approx(1, rel=0.02) and (values[0] == values[1]).all() == (correlation == 1.0)


def test_between_the_extremes_excess_kurtosis_is_that_of_a_sum_of_two():
    (first, _) = one(tail="laplace", correlation=0.3)
    assert (first**4).mean() / first.var() ** 2 - 3 == pytest.approx(3 * (0.3**2 + 0.7**2), abs=0.15)


@pytest.mark.parametrize("correlation", [0.0, 0.5, 1.0])
def test_build_up_reaches_both_extremes(correlation):
    """Top-k of independent workers gives 1 - (1 - rho)^n, of identical ones rho; correlation lies between."""
    values = one(workers=8, correlation=correlation, numel=100_000)
    k = 1000
    union = len(set(np.argpartition(np.abs(values), -k, axis=1)[:, -k:].ravel().tolist())) / values.shape[1]
    independent, identical = union_density(0.01, 8), 0.01
    if correlation == 0.5:
        assert identical * 1.5 < union < independent * 0.98
    else:
        assert union == pytest.approx(identical if correlation else independent, rel=0.01)
    if correlation == 1.0:
        (block,) = blocks(Synthetic(layers=[SyntheticLayer(numel=1000)], workers=4, iterations=1, correlation=1.0))
        _, selection, _, _ = select(TopK(density=0.1), TopK(density=0.1).start(block), block)
        assert selection.aggregated == selection.largest == 100


def test_hot_coordinates_stay_and_are_the_same_for_all_workers():
    hot = SyntheticLayer(numel=1000, scale=1e-3, hot_share=0.05, hot_strength=50)
    layers = (hot, SyntheticLayer(numel=500, scale=1.0))
    trace = np.array([block.values for block in blocks(Synthetic(layers=layers, workers=3, iterations=60, seed=4))])
    size = np.sqrt(np.square(trace, dtype=float).mean(axis=0))
    hot = size[0, :1000] > 10e-3
    assert hot.sum() == 50
    for row in size:
        np.testing.assert_array_equal(row[:1000] > 10e-3, hot)
    assert size[:, :1000][:, hot].mean() == pytest.approx(50e-3, rel=0.05)
    assert size[:, :1000][:, ~hot].mean() == pytest.approx(1e-3, rel=0.02)
    assert size[:, 1000:].mean() == pytest.approx(1, rel=0.02)
    assert abs(np.flatnonzero(hot).mean() - 500) < 150


def test_the_scale_drifts_by_its_factor_per_thousand_iterations():
    spec = Synthetic(layers=[SyntheticLayer(numel=500)], workers=2, iterations=1001, drift=0.25)
    sizes = [float(block.values.std()) for block in blocks(spec)]
    assert np.mean(sizes[950:]) / np.mean(sizes[:51]) == pytest.approx(0.25**0.95, rel=0.02)
    assert np.polyfit(np.arange(1001), np.log(sizes), 1)[0] == pytest.approx(math.log(0.25) / 1000, rel=0.02)


def test_iterations_and_workers_draw_anew():
    spec = Synthetic(layers=[SyntheticLayer(numel=50_000)], workers=2, iterations=3)
    rows = np.concatenate([block.values for block in blocks(spec)])
    np.testing.assert_allclose(np.corrcoef(rows), np.eye(6), atol=0.025)


def test_blocks_say_where_their_coordinates_are():
    spec = Synthetic(layers=[SyntheticLayer(numel=3), SyntheticLayer(numel=2)], workers=4, iterations=2)
    for t, block in enumerate(blocks(spec)):
        assert block.iteration == t and block.values.shape == (4, 5) and block.values.dtype == np.float32
        assert block.piece.tolist() == [0, 0, 0, 1, 1] and block.coordinate.tolist() == [0, 1, 2, 3, 4]
        assert (block.numels, block.sampled) == ((3, 2), False)


def digest(spec):
    """SHA-256 over all values."""
    return hashlib.sha256(b"".join(block.values.tobytes() for block in blocks(spec))).hexdigest()


@given(
    tails=st.lists(st.sampled_from(["gaussian", "laplace", "student_t"]), min_size=1, max_size=3),
    workers=st.integers(1, 4),
    correlation=st.sampled_from([0.0, 0.5, 1.0]),
    hot=or_none("fraction", 1),
    seed=st.integers(0, 2**40),
)
def test_equal_specs_give_equal_gradients_and_another_seed_others(tails, workers, correlation, hot, seed):
    layers = [SyntheticLayer(numel=30, tail=tail, hot_share=hot) for tail in tails]
    spec = Synthetic(layers=layers, workers=workers, iterations=3, correlation=correlation, seed=seed)
    assert digest(spec) == digest(Synthetic(**spec.model_dump()))
    assert digest(spec) != digest(spec.model_copy(update={"seed": seed + 1}))
    for block, same in zip(blocks(spec), blocks(spec.model_copy(update={"iterations": 4})), strict=False):
        np.testing.assert_array_equal(block.values, same.values)
        assert np.isfinite(block.values).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"correlation": 1.5},
        {"drift": 0},
        {"workers": 0},
        {"layers": []},
        {"layers": [{"numel": 5, "degrees_of_freedom": 2}]},
    ],
)
def test_what_cannot_be_generated_is_refused(wrong):
    with pytest.raises(ValidationError):
        Synthetic(**({"layers": [{"numel": 5}], "workers": 2, "iterations": 1} | wrong))


def test_memory_is_one_iteration_at_a_time():
    """Blocks are made when asked for: a trace of 100,000 iterations starts at once."""
    endless = blocks(Synthetic(layers=[SyntheticLayer(numel=10)], workers=2, iterations=100_000))
    first, second = next(endless), next(endless)
    assert first.values.base is None and (first.values != second.values).any() and first.piece is second.piece
