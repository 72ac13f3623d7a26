"""Verdicts in words: what is said in each case, and that the numbers are those of the ratio."""

import math
import re

import pytest

from simulator.prediction.doubts.doubt import Doubt, Measurement
from simulator.prediction.doubts.spread import Ratio, Response
from simulator.prediction.doubts.verdict import value_of_information
from simulator.prediction.result_parts import Worth
from simulator.studies.compare.verdict_words import (
    TWO_RUNS,
    describe_cost,
    describe_measurement,
    describe_speed_up,
    describe_verdict,
)


def verdict(speed_up, below=0.0, above=0.0, measurement=None):
    """A speed-up that one input may change by two factors, down and up."""
    item = Doubt("kernel", "topk", "assumed", 2.0, more=1.0, measurement=measurement)
    ends = [Response(item.key, (item,), -math.log(1 + below), math.log(1 + above))] if below or above else []
    return Ratio(math.log(speed_up), tuple(ends))


TOPK = Measurement("topk", "sparsim record kernels --kernels", 1.0, "topk")


def test_yes_and_no_say_how_many_times_with_interval_and_probability():
    assert describe_verdict(verdict(1.31, 0.1, 0.15)) == (
        "Yes: 1.31 times faster (90 % interval 1.19 to 1.51); it pays with probability over 0.99."
    )
    slower = describe_verdict(verdict(1 / 1.17, 0.1, 0.12))
    assert slower == "No: 1.17 times slower (90 % interval 1.04 to 1.29); it pays with probability 0.01."


def test_not_decided_names_the_measurement_and_the_probability_that_it_decides():
    open_ = verdict(1.05, 0.5, 0.4, TOPK)
    (row,) = value_of_information(open_)
    text = describe_verdict(open_)
    assert text.startswith("Not decided: 0.70 to 1.47 times as fast (90 % interval); it pays with probability 0.")
    assert f"Measure topk on your machines (`{row.command}`, about 1 minute), and it is decided with" in text
    assert f"{row.decided:.2f}" in text


@pytest.mark.parametrize(
    ("speed_up", "text"),
    [(2.0, "Yes: 2.00 times faster."), (0.5, "No: 2.00 times slower."), (1.0, "It makes no difference.")],
)
def test_without_any_error_there_is_no_interval_and_no_probability(speed_up, text):
    assert describe_verdict(verdict(speed_up)) == text


def test_no_difference_has_its_interval_and_what_no_command_settles_is_said():
    alike = "It makes no difference (0.99 to 1.01 times as fast (90 % interval))."
    assert describe_verdict(verdict(1.001, 0.01, 0.01)) == alike
    nothing = "No measurement that sparsim has a command for would decide it."
    assert describe_verdict(verdict(1.05, 0.5, 0.4)).endswith(nothing)


def test_a_measurement_that_hardly_decides_is_not_called_one_that_does():
    row = Worth("topk", ["topk"], "assumed", 2.0, 0.5, 0.19, (0.9, 1.1), "sparsim x", 2.0)
    assert describe_measurement([row]) == "No single measurement is likely to decide it; try it."
    assert describe_measurement([row], 3) == "No single measurement is likely to decide it; try it: 3 lines to set."


def test_two_runs_are_named():
    assert describe_verdict(verdict(1.31, 0.1, 0.15), TWO_RUNS).startswith("B is faster than A: 1.31 times faster (")
    assert "; B is faster with probability 0." in describe_verdict(verdict(1.02, 0.2, 0.2), TWO_RUNS)


@pytest.mark.parametrize(
    ("speed_up", "below", "above", "text"),
    [
        (1 / 1.19, 0.04, 0.05, "It costs 19 % (90 % interval 13 % to 24 %)."),
        (1.25, 0.05, 0.04, "It saves 20 % (90 % interval 16 % to 23 %)."),
        (1 / 2.3, 0.1, 0.1, "It takes 2.30 times as long (90 % interval 2.09 to 2.53)."),
        (0.8, 0.0, 0.0, "It costs 25 %."),
        (0.5, 0.0, 0.0, "It takes 2.00 times as long."),
    ],
)
def test_a_cost_is_a_share_of_the_iteration(speed_up, below, above, text):
    assert describe_cost(verdict(speed_up, below, above)) == text


def test_an_open_cost_says_between_what_it_lies():
    text = describe_cost(verdict(1 / 1.02, 0.05, 0.1, TOPK))
    assert text.startswith("Not decided whether it costs time: an iteration takes 0.93 to 1.07 times as long")
    assert "it takes longer with probability 0." in text and "Measure topk on your machines" in text


@pytest.mark.parametrize("speed_up", [0.01, 0.5, 0.99, 1.0, 1.01, 3.0, 250.0])
@pytest.mark.parametrize("width", [0.0, 0.01, 0.3])
def test_the_numbers_of_a_speed_up_are_in_order(speed_up, width):
    text = describe_speed_up(verdict(speed_up, width, width))
    numbers = [float(item.replace(",", "")) for item in re.findall(r"[\d.,]+(?= times| to|\))", text)]
    assert numbers[0] >= 1 and len(numbers) == (3 if width else 1)
    if width:
        value, low, high = numbers
        assert low <= value <= high
