"""How sure an explanation says that it is: the parts make up the interval of the prediction."""

import math

import pytest
from command_line import printed
from in_json import in_json

from simulator.prediction.run import run, with_responses
from simulator.scenario.reading import load
from simulator.studies.explain.explanation import explain, uncertainty


@pytest.fixture(scope="module")
def made():
    prediction = with_responses(run(load("quickstart")))
    return prediction, in_json(uncertainty)(prediction)


def test_the_effects_add_in_squares_to_the_interval(made):
    prediction, found = made
    time = prediction.spread.time
    stretch = prediction.spread.tails.stretch[90]  # of errors; how much single iterations differ is known
    inputs = [(row["low_s"], row["high_s"], stretch) for row in found["groups"]]
    ends = [*inputs, (*found["single_iterations_s"], 1.0)]
    logs = [[factor * math.log1p(seconds / time) for seconds in pair] for *pair, factor in ends]
    low = time * math.exp(-math.hypot(*(max(0.0, -min(pair)) for pair in logs)))
    high = time * math.exp(math.hypot(*(max(0.0, *pair) for pair in logs)))
    assert found["interval_s"] == pytest.approx([low, high])
    assert found["interval_s"] == prediction.document["iteration_time_interval_s"]
    squares = [(max(*pair, 0.0) - min(*pair, 0.0)) ** 2 / stretch**2 for pair in logs]
    shares = [square / math.fsum(squares) for square in squares[:-1]]
    assert [row["share"] for row in found["groups"]] == pytest.approx(shares)


def test_every_uncertain_input_is_there_once_the_largest_effect_first(made):
    prediction, found = made
    effects = [max(abs(row["low_s"]), abs(row["high_s"])) for row in found["groups"]]
    assert effects == sorted(effects, reverse=True)
    for row in found["groups"]:  # and of one effect the input with the largest doubt
        more = [item["more_s"] for item in row["inputs"]]
        assert more == sorted(more, reverse=True)
    named = [(item["what"], item["id"]) for row in found["groups"] for item in row["inputs"]]
    assert len(named) == len(set(named))
    with_effect = {item.key for response in prediction.spread.responses if response.high for item in response.doubts}
    assert with_effect <= set(named)
    assert all(item["source"] for row in found["groups"] for item in row["inputs"])
    assert sum(row["share"] for row in found["groups"]) <= 1 + 1e-9


def test_a_group_has_the_command_that_settles_it(made):
    groups = made[1]["groups"]
    kernels = next(row for row in groups if any(item["id"].endswith("/topk") for item in row["inputs"]))
    assert kernels["command"].startswith("sparsim record kernels --kernels topk") and kernels["minutes"] > 0
    assert next(row for row in groups if row["inputs"][0]["what"] == "model")["command"] is None


def test_where_nothing_is_uncertain_that_is_said():
    assert explain(load("ring_check")).uncertainty.groups == []
    assert "Nothing that the prediction rests on is uncertain." in printed("explain", "ring_check", "--inputs")


def test_the_terminal_shows_widths_effects_and_commands():
    output = printed("explain", "quickstart", "--inputs", env={"COLUMNS": "140"})
    part = output[output.index("How sure is this") :]
    assert "kernel topk" in part and "the widths come from" in part
    assert "sparsim record kernels --kernels topk" in part
