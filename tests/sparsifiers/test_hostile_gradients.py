"""Gradients that no one expects: zeros, denormals, equal or huge values, one element, one worker; on every method."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from replayed import replay

from examples import example
from simulator.component import discover
from simulator.engine.replay import add_steps, mean_selection
from simulator.engine.settling import settle
from simulator.errors import InputError
from simulator.models.exchange import Bucket
from simulator.models.gradients import Block
from simulator.models.overlap import INDEPENDENT
from simulator.records import replace
from simulator.sparsifiers.base import Sparsifier

SPARSIFIERS = list(discover(Sparsifier))
SIZES = (0.0, 1e-45, 1e-38, 1e-20, 1e-3, 1.0, 1e12, 9e17)
DENSITIES = (1e-9, 1e-3, 0.1, 1.0)


@st.composite
def gradients(draw):
    """Iterations of (n, m): every value is one of few sizes, with either sign; often all are the same."""
    numels = tuple(draw(st.lists(st.integers(1, 40), min_size=1, max_size=3)))
    shape = draw(st.integers(1, 4)), draw(st.sampled_from((1, 2, 4))), sum(numels)
    sizes = np.array(draw(st.lists(st.sampled_from(SIZES), min_size=1, max_size=3)), dtype=np.float32)
    random = np.random.default_rng(draw(st.integers(0, 99)))
    return numels, sizes[random.integers(len(sizes), size=shape)] * random.choice([-1, 1], size=shape).astype(
        np.float32
    )


def blocks(numels, values, weight):
    """The iterations; with a weight, the coordinates are a sample."""
    m, d, piece = values.shape[2], sum(numels), np.repeat(np.arange(len(numels)), numels)
    whole = Block(values[0], piece, np.arange(m) * weight, np.full(m, float(weight)), tuple(n * weight for n in numels))
    assert whole.numel == d * weight
    return [replace(whole, values=each, iteration=i) for i, each in enumerate(values)]


def build_example(kind, density):
    changes = {"density": density} if "density" in discover(Sparsifier)[kind].model_fields else {}
    return example(Sparsifier, kind, **changes)


def assert_finite(values, where):
    for name, value in values.items():
        assert math.isfinite(value), (where, name, value)


@pytest.mark.parametrize("kind", SPARSIFIERS)
@given(made=gradients(), density=st.sampled_from(DENSITIES), weight=st.sampled_from((1, 1, 3)))
def test_a_replay_of_any_gradients_is_finite_and_says_nothing(kind, made, density, weight):
    member, (numels, values) = build_example(kind, density), made
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            steps = list(replay(member, blocks(numels, values, weight)))
        except InputError as refused:
            reason = str(refused)
            assert "larger ones" in reason or (weight > 1 and member.whole_only in reason)
            return
        settled = settle([add_steps([step]) for step in steps])
        mean = mean_selection([step.selection for step in steps])
    assert math.isfinite(settled.width)
    for step in steps:
        assert_finite(step.row(), kind)
        assert_finite(step.selection.detail, kind)
        chosen, d = step.selection, sum(numels) * weight * (1 + 1e-9)
        assert 0 <= chosen.selected.min() <= chosen.selected.max() <= max(d, density * d + 1)
        assert 0 <= chosen.aggregated <= chosen.selected.sum() + d
        assert min(step.energy, step.lost, step.residual) >= 0
        assert 0 <= step.never_sent <= d
    assert np.isfinite([*mean.selected, mean.aggregated, mean.largest, mean.scanned, mean.passes]).all()


@pytest.mark.parametrize("kind", SPARSIFIERS)
@given(
    pieces=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    workers=st.sampled_from((1, 2, 8, 4096)),
    density=st.sampled_from(DENSITIES),
    overlap=st.sampled_from((0.0, 1e-9, 1.0, 1e9, INDEPENDENT)),
)
def test_a_closed_form_of_any_sizes_is_finite_and_says_nothing(kind, pieces, workers, density, overlap):
    member, bucket = build_example(kind, density), Bucket(0, tuple(pieces), 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chosen = member.expect(bucket, workers, overlap)
        kernels = member.compute(chosen, bucket, workers)
    assert np.isfinite([*chosen.selected, chosen.aggregated, chosen.largest, chosen.scanned, chosen.passes]).all()
    assert_finite(chosen.detail, kind)
    slack = 1e-9 * bucket.numel
    assert 0 <= chosen.selected.max() <= chosen.largest + slack <= bucket.numel + 2 * slack
    assert 0 <= chosen.aggregated <= bucket.numel + slack
    assert all(math.isfinite(n) and n >= 0 for item in kernels for n in item.elements)
