"""Answers: JSON in the order of the fields, keys with units from the type, and reading with places."""

from typing import Annotated

import numpy as np
import pytest

from simulator.answers import Answer, AnswerKey, in_json, keys_of, plain, read_answer, says, schema_of
from simulator.errors import InputError


class Part(Answer, rename=in_json(time=("time",))):
    time: Annotated[float, says("what it takes", "s")]


class Whole(Answer, kw_only=True, rename={"name": "scenario"}):
    name: Annotated[str, says("a name")]
    parts: list[Part]
    one: Part | None = None
    share: Annotated[float | None, says("a share; null where it is not known", "1")]
    terms: Annotated[dict[str, float], says("terms", "s", {"a": "the first", "b": "the second"})]
    notes: Annotated[list[str] | None, says("notes")] = None


WHOLE = Whole(name="x", parts=[Part(1.5)], share=None, terms={"a": 1.0})


def test_json_has_the_order_of_the_fields_and_leaves_out_what_is_absent():
    document = WHOLE.to_dict()
    assert list(document) == ["scenario", "parts", "share", "terms"]
    assert document == {"scenario": "x", "parts": [{"time_s": 1.5}], "share": None, "terms": {"a": 1.0}}


def test_numbers_of_numpy_are_numbers_of_python():
    made = plain({"a": Part(np.float64(2.0)), "b": np.int64(3)})
    assert made == {"a": {"time_s": 2.0}, "b": 3}
    assert [type(value) for value in (made["a"]["time_s"], made["b"])] == [float, int]


def test_keys_have_the_units_and_meanings_of_the_type():
    assert keys_of(Whole) == {
        "scenario": AnswerKey("", "a name", "name"),
        "parts[].time_s": AnswerKey("s", "what it takes", "parts[].time"),
        "one.time_s": AnswerKey("s", "what it takes", "one.time"),
        "share": AnswerKey("1", "a share; null where it is not known", "share"),
        "terms.a": AnswerKey("s", "the first", "terms[a]"),
        "terms.b": AnswerKey("s", "the second", "terms[b]"),
        "notes": AnswerKey("", "notes", "notes"),
    }
    assert schema_of(Whole)["$defs"]["Part"]["properties"]["time_s"]["unit"] == "s"


def test_answers_are_read_as_they_were_written():
    assert read_answer(WHOLE.to_dict() | {"of a later version": 1}, Whole, "here") == WHOLE


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"parts": [{}]}, "here: parts[0]: expected a key `time_s`, got none"),
        ({"terms": 1}, "here: terms: expected a mapping, got"),
        ({"share": "x"}, "here: share: expected a number or null, got"),
    ],
)
def test_what_is_of_another_type_is_refused_with_its_place(change, said):
    with pytest.raises(InputError) as refused:
        read_answer(WHOLE.to_dict() | change, Whole, "here")
    assert said in str(refused.value)
