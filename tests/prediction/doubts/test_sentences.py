"""Sizes of warnings agree with the interval that they stand beside."""

import math

import pytest

from simulator.prediction.doubts.doubt import Doubt, Said, Sentence
from simulator.prediction.doubts.sentences import Reader
from simulator.prediction.doubts.spread import Response, Spread, respond_linearly
from simulator.prediction.run import run, with_responses
from simulator.records import replace
from simulator.scenario.reading import load


def made_doubt(name, width=2.0, seconds=0.1, **changes):
    first_order = {"less": seconds * (1 - 1 / width), "more": seconds * (width - 1)}
    return Doubt("kernel", name, "assumed", width, **{**first_order, **changes})


def reader_of(*inputs, responses=None):
    return Reader(None, Spread(1.0, tuple(respond_linearly(inputs, 1.0) if responses is None else responses)))


def warn(reader, text, *about, **part):
    """The warning of a sentence about some doubts, or about a part of what each of them does."""
    sentence = Sentence(text)
    return reader.warning(sentence, [(item, Said(sentence, **part)) for item in about])


def test_the_size_of_one_input_is_what_it_does_to_the_interval():
    item = made_doubt("a")
    reader = reader_of(item)
    warning = warn(reader, "a is assumed", item)
    low, high = reader.spread.interval()
    assert (1 - warning.less, 1 + warning.more) == pytest.approx((low, high))
    assert (warning.less, warning.more) == pytest.approx((0.05, 0.1), rel=1e-3)
    assert warning.seconds == pytest.approx(0.1)


def test_independent_inputs_add_in_squares_and_others_do_not_count():
    items = [made_doubt(name) for name in "abc"]
    both = warn(reader_of(*items), "two are assumed", *items[:2])
    assert math.log(1 + both.more) == pytest.approx(math.sqrt(2) * math.log(1.1), rel=1e-3)
    assert both.seconds == pytest.approx(0.2)


def test_inputs_that_are_wrong_the_same_way_share_their_effect_by_their_seconds():
    items = [made_doubt("a", shared="gpu"), made_doubt("b", seconds=0.3, shared="gpu")]
    (group,) = respond_linearly(items, 1.0)
    reader = reader_of(responses=[group])
    first, second, both = (warn(reader, "assumed", *part) for part in (items[:1], items[1:], items))
    assert math.log(1 + first.more) == pytest.approx(group.high / 4, rel=1e-3)
    assert math.log(1 + first.more) + math.log(1 + second.more) == pytest.approx(math.log(1 + both.more))
    half = warn(reader, "half of it", *items, share=0.5)
    assert math.log(1 + half.more) == pytest.approx(math.log(1 + both.more) / 2)


def test_what_was_not_simulated_and_has_no_first_order_is_not_known():
    item = made_doubt("launch", seconds=0.0, change=lambda scenario, end: scenario)
    unknown = warn(reader_of(item), "launch is assumed", item)
    assert (unknown.seconds, unknown.less, unknown.more) == (None, None, None)
    exact = Response(item.key, (item,), math.log(0.95), math.log(1.1), exact=True)
    known = warn(reader_of(responses=[exact]), "launch is assumed", item)
    assert known.seconds == pytest.approx(0.15 / 1.5)  # of ends that are twice and half of it
    assert (known.less, known.more) == pytest.approx((0.05, 0.1), rel=1e-3)


def test_what_states_no_error_is_not_exact():
    item = made_doubt("a", width=1.0)
    warning = warn(reader_of(item), "extrapolated", item, seconds=0.25)
    assert (warning.seconds, warning.less, warning.more) == (0.25, None, None)


def test_inputs_that_do_not_matter_are_left_out_of_lists():
    items = [made_doubt("small", seconds=1e-6), made_doubt("large"), made_doubt("middle", seconds=0.01)]
    sentence, reader = Sentence(before="assumed: "), reader_of(*items)
    members = [(item, Said(sentence, item.id)) for item in items]
    assert reader.warning(sentence, members).text == "assumed: large, middle"
    assert reader.warning(sentence, members[:1]).text == "assumed: small"


def test_sizes_follow_the_responses_that_were_simulated():
    linear = run(load("replay_topk"))
    exact = with_responses(linear)
    before, after = ({row["text"]: row for row in made.document["warning_sizes"]} for made in (linear, exact))
    (text,) = (text for text in after if text.startswith("not timed on"))
    index = {item.key: response for response in exact.spread.responses for item in response.doubts}
    about = [item for item in exact.inputs if item.what.startswith("kernel ") and item.level != "measured"]
    (response,) = {id(index[item.key]): index[item.key] for item in about}.values()
    low, high = replace(exact.spread, responses=(response,), iterations=(0.0, 0.0)).interval()
    assert exact.spread.time - after[text]["less_s"] == pytest.approx(low)
    assert exact.spread.time + after[text]["more_s"] == pytest.approx(high)
    assert before[text]["more_s"] != after[text]["more_s"]


def test_doubts_with_one_sentence_are_one_warning_and_a_remark_joins_them():
    sentence = Sentence("slow", "not measured: ", " (a guess)", groups=(("", ", timed elsewhere"), ("", ", assumed")))
    items = [
        made_doubt("a", said=(Said(sentence, "a", 1),)),
        made_doubt("b", said=(Said(sentence, "b"),)),
        made_doubt("c", seconds=0.2, said=(Said(sentence, "c", 1), Said(Sentence("c is old", place=-1)))),
    ]
    made = list(reader_of(*items).warnings([sentence, Sentence("nothing is known", terms=None, less=0.0)]))
    assert [item.text for item in made] == [
        "c is old",
        "slow; not measured: b, timed elsewhere; c, a, assumed (a guess)",
        "nothing is known",
    ]
    assert made[1].seconds == pytest.approx(0.4) and made[0].seconds == pytest.approx(0.2)
    assert (made[2].seconds, made[2].less, made[2].more) == (None, 0.0, None)


def test_a_doubt_is_in_range_as_its_level_says_unless_it_states_otherwise():
    assert [Doubt("kernel", "a", level, 2.0).in_range for level in ("measured", "assumed")] == [True, False]
    assert [Doubt("kernel", "a", "measured", 2.0, inside=each).in_range for each in (True, False)] == [True, False]
