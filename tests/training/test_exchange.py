"""What workers send in a training is what they send in a replay of the same gradients."""

import numpy as np
import pytest
from replayed import replay

from simulator.component import build
from simulator.models.gradients import Block
from simulator.sparsifiers.base import Sparsifier
from simulator.training.exchange import GradientExchange
from simulator.trainings.options import parse_method

SHAPES, WORKERS = ((8, 5), (8,), (16, 8), (16,)), 4
NUMELS = tuple(int(np.prod(shape)) for shape in SHAPES)
D = sum(NUMELS)


def gradients(iterations=6):
    random = np.random.default_rng(3)
    return [random.standard_normal((WORKERS, D), dtype=np.float32) for _ in range(iterations)]


def blocks(values):
    keys = {"piece": np.repeat(np.arange(len(NUMELS)), NUMELS), "coordinate": np.arange(D), "weight": np.ones(D)}
    return [Block(each, **keys, numels=NUMELS, iteration=i, shapes=SHAPES) for i, each in enumerate(values)]


@pytest.mark.parametrize("error_feedback", [True, False])
@pytest.mark.parametrize(
    "method",
    [
        *("topk 0.05", "dgc 0.05", "exdyna 0.05", "topk 0.05 granularity=model", "powersgd rank=2", "signsgd"),
        *("sparseloco chunk=8 k=4", "demo chunk=8 k=4", "quantised_all_reduce format=e3m0"),
    ],
)
def test_figures_are_those_of_a_replay(method, error_feedback):
    sparsifier = build(Sparsifier, parse_method(method))
    exchange = GradientExchange(sparsifier, SHAPES, WORKERS, error_feedback)
    steps = replay(sparsifier, blocks(gradients()), error_feedback)
    for iteration, (values, step) in enumerate(zip(gradients(), steps, strict=True)):
        _, figures = exchange.run(values, iteration)
        assert figures == pytest.approx({name: step.row()[name] for name in figures}, rel=1e-5)


def test_with_error_feedback_all_that_was_not_sent_is_sent_later():
    exchange = GradientExchange(build(Sparsifier, parse_method("topk 0.1")), SHAPES, WORKERS)
    sent = sum(exchange.run(values, iteration)[0] for iteration, values in enumerate(gradients()))
    np.testing.assert_allclose(sent + exchange.state["residual"].mean(axis=0), sum(gradients()).mean(axis=0), atol=1e-5)


def test_dense_sends_the_mean():
    exchange = GradientExchange(build(Sparsifier, "dense"), SHAPES, WORKERS)
    (values,) = gradients(1)
    sent, figures = exchange.run(values, 0)
    np.testing.assert_array_equal(sent, values.mean(axis=0))
    assert figures == {"selected": 1.0, "aggregated": 1.0, "energy_kept": 1.0, "residual_norm": 0.0}


def test_a_method_may_apply_more_than_the_mean():
    """DeMo's step is a sign; that of the others is the sum over the number of workers."""
    (values,) = gradients(1)
    sent, _ = GradientExchange(build(Sparsifier, "demo"), SHAPES, WORKERS).run(values, 0)
    assert set(np.abs(sent).tolist()) == {1.0}
    rounded, _ = GradientExchange(build(Sparsifier, "quantised_all_reduce"), SHAPES, WORKERS).run(values, 0)
    np.testing.assert_allclose(rounded, values.mean(axis=0), atol=0.02)


def test_skip_reduce_divides_shorter_sums_by_all_workers():
    exchange = GradientExchange(build(Sparsifier, parse_method("skip_reduce steps=1 smallest=0")), SHAPES, WORKERS)
    sent, figures = exchange.run(np.ones((WORKERS, D), dtype=np.float32), 0)
    np.testing.assert_allclose(sent, (WORKERS - 1) / WORKERS)
    assert figures["aggregated"] == 1.0
