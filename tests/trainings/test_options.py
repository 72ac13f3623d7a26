"""What a person asks for, and what is wrong with it."""

import pytest

from simulator.errors import InputError
from simulator.trainings.options import read_options
from simulator.trainings.runs import Recipe, describe_method


def test_a_method_in_one_line_is_that_of_a_scenario():
    options = read_options({"task": "mlp-digits", "method": "topk 0.01 granularity=model"}, ["method.density=5 %"])
    assert options.method == {"kind": "topk", "density": "5 %", "granularity": "model"}
    assert options.sparsifier.density == pytest.approx(0.05)
    assert describe_method(options.method | {"density": 0.05}) == "topk 0.05 granularity=model"


def test_a_recipe_says_what_is_not_usual():
    assert Recipe("mlp", 10, "topk", "{}", True, 1, "fp32").name == "topk"
    unusual = Recipe("mlp", 10, "topk", '{"granularity": "model"}', False, 4, "bf16")
    assert unusual.name == "topk granularity=model without error feedback with 4 local steps in bf16"


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
        ({"momentum": 1}, [], "momentum: expected below 1.0, got 1"),
    ],
)
def test_mistakes_are_named(data, overrides, message):
    with pytest.raises(InputError) as error:
        read_options({"task": "mlp-digits", **data}, overrides)
    assert message in str(error.value)
