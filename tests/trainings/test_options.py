"""What a person asks for, and what is wrong with it."""

import pytest

from simulator.errors import InputError
from simulator.trainings.options import read_options
from simulator.trainings.runs import describe_method


def test_a_method_in_one_line_is_that_of_a_scenario():
    options = read_options({"task": "mlp-digits", "method": "topk 0.01 granularity=model"}, ["method.density=5 %"])
    assert options.method == {"kind": "topk", "density": "5 %", "granularity": "model"}
    assert options.sparsifier.density == pytest.approx(0.05)
    assert describe_method(options.method | {"density": 0.05}) == "topk 0.05 granularity=model"


@pytest.mark.parametrize(
    ("data", "overrides", "message"),
    [
        ({}, ["workers"], "--set workers: expected key=value"),
        ({}, ["wrokers=3"], "wrokers: expected a known key, got 'wrokers': did you mean 'workers'?"),
        ({"method": "topkk"}, [], "method: expected a kind of sparsifier, got topkk: did you mean 'topk'?"),
        ({"method": ""}, [], "method: expected a kind of sparsifier"),
        ({"method": "topk 0.01 0.02 granularity=modle"}, [], "method.granularity: expected one of"),
        ({"method": "topk 2"}, [], "method.density"),
        ({"workers": 0, "precision": "fp8"}, [], "workers: expected at least 1, got 0"),
        ({"workers": 0, "precision": "fp8"}, [], "precision: expected one of"),
        ({"momentum": 1}, [], "momentum: expected below 1.0, got 1"),
    ],
)
def test_mistakes_are_named(data, overrides, message):
    with pytest.raises(InputError) as error:
        read_options({"task": "mlp-digits", **data}, overrides)
    assert message in str(error.value)


def test_a_training_is_dense_sgd_with_momentum_of_four_workers_unless_told_otherwise():
    made = read_options({"task": "mlp-digits"})
    assert (made.method, made.workers, made.iterations, made.momentum) == ({"kind": "dense"}, 4, 400, 0.9)
    assert (made.local_steps, made.outer_learning_rate, made.outer_momentum) == (1, 1.0, 0.0)
    assert (made.batch_size, made.learning_rate, made.parameters) == (None, None, {})
    assert (made.error_feedback, made.precision, made.evaluate_every, made.seed) == (True, "fp32", 20, 0)


@pytest.mark.parametrize(
    ("key", "least", "most", "beyond"),
    [
        ("workers", 1, 4096, 4097),
        ("batch_size", 1, 10**9, 10**9 + 1),
        *((key, 1, 10**7, 10**7 + 1) for key in ("iterations", "local_steps", "evaluate_every")),
        *((key, 0.0, 0.999, 1.0) for key in ("momentum", "outer_momentum")),
    ],
)
def test_numbers_are_taken_between_their_bounds(key, least, most, beyond):
    for value in (least, most):
        assert getattr(read_options({"task": "mlp-digits", key: value}), key) == value
    for value in (least - 1, beyond):
        with pytest.raises(InputError, match=f"{key}: expected"):
            read_options({"task": "mlp-digits", key: value})
