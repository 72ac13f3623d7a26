"""Conditions on values: quantities by what they are, words as they are, and which of them can be compared."""

import pytest

from simulator.scenario.conditions import matches, number_of

TOPK = {"kind": "topk", "density": 0.1}


@pytest.mark.parametrize(
    ("value", "condition", "met"),
    [
        ("10 Gbit/s", "1.25 GB/s", True), ("10 Gbit/s", "10 GB/s", False), (0.5, "50 %", True), (3, 3.0000000001, True),
        (3, 3.00000001, False), (3, 4, False), ("ring", "ring", True), ("ring", "tree", False), (True, 1, True),
        (True, True, True), (TOPK, "topk", True), (TOPK, "dense", False), (TOPK, dict(TOPK), True), (None, None, True),
        (3, "3 s", False), (0, "0 s", True), ("0 B", "0 s", True), ("ring", ["tree", "ring"], True), (3, [], False),
        (3, {"above": 2}, True), (3, {"above": 3}, False), (3, {"at_least": 3}, True), (3, {"at_least": 4}, False),
        (3, {"below": 3}, False), (3, {"below": 4}, True), (3, {"at_most": 3}, True), (3, {"at_most": 2}, False),
        (3, {"above": 2, "below": 3}, False), (3, {"above": 2, "below": 4}, True), (3, {"not": 3}, False),
        (3, {"not": [1, 2]}, True), (3, {"not": {"above": 2}}, False), ("ring", {"above": 2}, False),
        (3, {"above": "two"}, False), ("1 MB", {"above": "1 s"}, False), ("1 MB", {"above": 0}, True),
        (1e301, {"above": 2}, False), (float("nan"), {"above": 2}, False), (1e300, {"above": 2}, True),
        (True, {"above": 0}, False), ({"above": 2}, {"kind": "topk"}, False),
    ],
)  # fmt: skip
def test_a_condition_is_met_by_what_it_says(value, condition, met):
    assert matches(value, condition) is met


def test_a_kind_is_found_on_objects_too():
    class Method:
        kind = "topk"

    assert matches(Method(), "topk") and not matches(Method(), "dense") and not matches(3, "topk")
    assert number_of("2 h") == (7200.0, "time")
