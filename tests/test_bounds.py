"""Bounds: every number that a user may write has them, and both ends are tested."""

import math
from typing import Annotated

import pytest
from number_fields import all_specs, numbers, unbounded
from pydantic import TypeAdapter, ValidationError, create_model

from simulator.bounds import BOUNDS, OrZero, within
from simulator.component import Spec

FREE = {"simulator.trainings.options.TrainingOptions.parameters", "simulator.trainings.runs.TrainingSpec.parameters"}
"""Arguments of a task's own functions."""
CHECKED = {("TraceSpec", "gradient_scale"), ("TraceSpec", "residual_scale")}
"""Numbers whose smallest value has a message of its own."""
FOUND = [(spec, name, number) for spec in all_specs() for name, number, _ in numbers(spec)]


def test_every_number_of_every_spec_has_a_smallest_and_a_largest_value():
    assert len(FOUND) > 500
    assert unbounded(all_specs()) == FREE


def test_no_number_may_be_as_small_or_as_large_as_a_float_can_be():
    for spec, name, number in FOUND:
        if number.smallest is None or number.largest is None or (spec.__name__, name) in CHECKED:
            continue
        where = f"{spec.__qualname__}.{name}"
        assert -(2**127) < number.smallest <= number.largest < 2**127, where
        if not number.whole:
            assert number.smallest >= 1e-40 or number.smallest < 0 or number.zero, where
            assert math.isfinite(number.largest), where


@pytest.mark.parametrize("kind", BOUNDS)
def test_both_ends_of_a_kind_are_allowed_and_beyond_them_the_bound_is_named(kind):
    bounds = BOUNDS[kind]
    number = int if isinstance(bounds.smallest, int) else float
    plain = create_model("Plain", __base__=Spec, value=(number, within(kind)))
    for value in (bounds.smallest, bounds.largest):
        assert plain(value=value).value == value
        assert not bounds.problem(value, zero=False)
    step = 1 if number is int else bounds.largest
    for value, bound in ((bounds.smallest - 1, bounds.smallest), (bounds.largest + step, bounds.largest)):
        with pytest.raises(ValidationError):
            plain(value=value)
        assert f"{bound:.12g}" in bounds.problem(value, zero=False)
    assert bounds.reason


@pytest.mark.parametrize("kind", ["concentration", "share of a link"])
def test_a_number_that_may_be_0_is_0_or_within_its_bounds(kind):
    bounds, adapter = BOUNDS[kind], TypeAdapter(Annotated[float, OrZero(kind)])
    for value in (0, 0.0, -0.0, bounds.smallest, bounds.largest):
        assert adapter.validate_python(value) == value
    for value in (5e-324, bounds.smallest / 2, -1.0, bounds.largest * 2, math.inf, math.nan):
        with pytest.raises(ValidationError):
            adapter.validate_python(value)
