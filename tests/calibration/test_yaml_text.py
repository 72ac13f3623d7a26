"""Quantities and tables as a person writes them."""

import math

import pytest

from simulator.calibration.yaml_text import block_text, percent_text, quantity_text, table_text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.0, "s", "1 s"), (0.00111734, "s", "1.1173 ms"), (1e-3 * (1 - 1e-13), "s", "1 ms"), (5e-13, "s", "0.5 ps"),
        (1e9, "B/s", "1 GB/s"), (123456.7, "B/s", "123.46 kB/s"), (0.0, "s", "0 s"), (math.inf, "B/s", "inf GB/s"),
        (2**30, "B", "1 GiB"), (3 * 2**20, "B", "3 MiB"), (5 * 2**10, "B", "5 KiB"), (1000.4, "B", "1000 B"),
        (0, "B", "0 B"), (999.0, "B/s", "999 B/s"),
    ],
)  # fmt: skip
def test_quantities_have_five_digits_and_the_largest_unit_that_fits(value, unit, text):
    assert quantity_text(value, unit) == text


def test_shares_have_two_digits_below_a_tenth_and_three_above():
    assert [percent_text(share) for share in (0.01234, 0.0999, 0.1, 0.12345, 7.0)] == [
        "1.2 %", "10 %", "10 %", "12.3 %", "100 %",
    ]  # fmt: skip


def test_entries_stand_on_a_line_each_without_what_is_not_stated():
    table = {"share": 0.123456, "name": 'a "b"', "sort": {"count": 2, "x": None, "y": 0.0}, "all": {"a": {"b": 1}}}
    assert table_text(table).splitlines() == [
        "share: 0.1235", "name: \"a 'b'\"", "sort: {count: 2}", "all:", '  "a": {b: 1}',
    ]  # fmt: skip


def test_blocks_have_short_lists_on_a_line_and_long_texts_folded():
    value = {"range": [1.0, 2**53 + 0.0], "slope": ["1.14e-08 s"], "at": [[1.0, 2], [3]], "source": "w " * 99 + "w"}
    lines = block_text(value).splitlines()
    assert lines[:3] == ["range: [1, 9007199254740992.0]", "slope: [11.4 ns]", "at:"]
    assert lines[3:6] == ["- [1, 2]", "- [3]", "source: >-"]
    assert 110 < max(map(len, lines)) < 125
