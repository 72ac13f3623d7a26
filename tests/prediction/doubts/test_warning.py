"""The words of a warning's size, its direction, and when it is a note."""

import pytest

from simulator.prediction.doubts.sentences import SizedWarning

UNKNOWN = "how wrong this may be is not known"


@pytest.mark.parametrize(
    ("sizes", "words", "direction", "note"),
    [
        ((0.38, 0.12, 0.26), "38 % of this iteration; it may be 120 ms shorter or 260 ms longer", "either way", False),
        ((0.38, 0.0, 0.261), "38 % of this iteration; it may be 260 ms longer", "too fast", False),
        ((0.004, 0.002, 0.0), "0.4 % of this iteration; it may be 2 ms shorter", "too slow", False),
        ((0.1, None, 0.0), "10 % of this iteration; it may be shorter, by how much is not known", "too slow", False),
        ((None, 0.0, None), "this iteration may be longer, by how much is not known", "too fast", False),
        ((0.5, None, None), f"50 % of this iteration; {UNKNOWN}", "either way", False),
        ((None, None, None), UNKNOWN, "either way", False),
        ((0.5, 2e-4, 4e-4), "50 % of this iteration; it changes by less than 0.1 %", None, True),
        ((5e-4, None, None), f"less than 0.1 % of this iteration; {UNKNOWN}", "either way", True),
        ((5e-4, 1e-4, 1e-2), "less than 0.1 % of this iteration; it may be 10 ms longer", "too fast", False),
    ],
)
def test_a_size_is_said_in_seconds_and_has_a_direction(sizes, words, direction, note):
    made = SizedWarning("a part was not measured", 1.0, *sizes)
    assert made.sized == f"a part was not measured: {words}" and made.direction == direction
    assert made.is_note == note


def test_an_iteration_without_time_has_no_size():
    made = SizedWarning("a part was not measured", 0.0, 0.0, 0.0, 0.0)
    assert made.sized == "a part was not measured" and made.is_note
    assert not SizedWarning("nothing is known", 0.0, None, 0.0, None).is_note


def test_what_is_known_least_comes_last_and_what_may_be_anything_first():
    unknown, unbounded = SizedWarning("u", 1.0), SizedWarning("o", 1.0, None, 0.0, None, unbounded=True)
    known, touched = SizedWarning("k", 1.0, 0.9, 0.1, 0.2), SizedWarning("t", 1.0, 0.3)
    order = sorted((unknown, unbounded, known, touched), key=lambda item: item.size, reverse=True)
    assert [item.text for item in order] == ["o", "k", "t", "u"]


def test_what_differs_by_rounding_only_is_of_the_same_size():
    one, other = (SizedWarning("w", 1.0, share, 0.0, change) for share, change in ((0.3, 0.1 + 0.2), (0.1 + 0.2, 0.3)))
    assert one.size == other.size and one.size < SizedWarning("w", 1.0, 0.3, 0.0, 0.3 * (1 + 1e-7)).size
