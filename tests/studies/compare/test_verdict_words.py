"""Verdicts in words: what is said in each case, and that the numbers are those of the ratio."""

import math
import re
from types import SimpleNamespace

import pytest

from simulator.models.timeline import BREAKDOWN
from simulator.prediction.doubts.doubt import Doubt, Measurement
from simulator.prediction.doubts.spread import Ratio, Response
from simulator.prediction.doubts.verdict import value_of_information
from simulator.prediction.result_parts import Worth
from simulator.studies.compare.verdict_words import (
    TWO_RUNS,
    describe_change,
    describe_cost,
    describe_measurement,
    describe_sides,
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


def of(value, versus=None):
    """A scenario that has only one key in which it differs from its baseline, and one in which it does not."""
    keys = {"cluster": {"links": value, "extra_time": value, "part": 1}}
    return SimpleNamespace(versus=versus, resolved=lambda: keys)


@pytest.mark.parametrize(
    ("one", "other", "here", "there"),
    [
        (2.0, 0.5, "extra time 2", "extra time 0.5"),
        (True, False, "extra time yes", "extra time no"),
        ("1000000000.0 B/s", "4 ms", "extra time 8 Gbit/s", "extra time 4 ms"),
        (2.0, None, "extra time 2", "no extra time"),
        ([1], [], "extra time", "no extra time"),
        ({"a": 1}, {}, "extra time", "no extra time"),
        ([1], [2], "this extra time", "other extra time"),
        ({"a": 1}, 3, "this extra time", "other extra time"),
        (3, {"a": 1}, "this extra time", "other extra time"),
        ({"name": "x", "a": 1}, {"name": "y", "a": 2}, "extra time x", "extra time y"),
        ({"kind": "k", "a": 1, "b": 2, "c": 3}, {"a": 1, "b": 4, "c": 5}, "k with kind k, b 2, c 3", "k with"),
        ({"a": 1, "b": 2}, {"a": 1, "b": 4}, "extra time with b 2", "extra time with b 4"),
        ({"a": [1], "b": 2}, {"a": [2], "b": 2}, "this extra time", "other extra time"),
    ],
)
def test_two_values_of_a_key_are_told_apart_in_words(one, other, here, there):
    versus = {"cluster.part": 1, "cluster.extra_time": other}
    sides = describe_sides(of(one, versus), of(other))
    assert sides[0] == here and sides[1].startswith(there)


def test_of_several_keys_all_that_differ_are_named_and_of_none_that_they_are_the_same():
    both = {"cluster.links": [], "cluster.extra_time": []}
    named = "links that change and extra time", "no links that change and no extra time"
    assert describe_sides(of([1], both), of([])) == named
    assert describe_sides(of([1], both), of([1])) == ("this set-up", "the same")


def test_a_change_names_the_terms_that_are_more_than_a_hundredth_of_the_time():
    """Exposed communication comes first, wherever it stands in a breakdown; 0.1 s of 10 s is no more than 1 %."""
    terms = dict.fromkeys(BREAKDOWN, 0.1) | {"forward": -2.0, "communication_exposed": -1.0, "update": 4.0}
    terms["idle"] = -0.1
    assert describe_change("B", "A", 10.0, 9.0, terms) == (
        "An iteration takes 10 s with B, instead of 9 s with A. "
        "It removes 1 s of exposed communication and 2 s of forward pass but adds 4 s of update."
    )
    alike = describe_change("B", "A", 10.0, 9.9, dict.fromkeys(BREAKDOWN, 0.0))
    assert alike == "An iteration takes 10 s with B and 9.9 s with A."
