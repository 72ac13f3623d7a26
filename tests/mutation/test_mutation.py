"""The mutation runner itself: what it changes, what it leaves alone, and what it makes of the outcomes."""

import ast
import doctest

import covering
import pytest
import yaml
from operators import mutants
from table import REASONS, interval, written

SOURCE = b'''"""A number, 1."""
from typing import Annotated
LIMIT: Annotated[int, Field(ge=3)] = 5
@frozen(order=True)
def f(a, b: "1 + 2" = 0):
    """Adds 1."""
    if not a:
        raise ValueError(f"{a + 1}", 2 < 3)
    total = max(a, b)
    total += g(a, key=b)
    self.kept = a <= b
    return total - 1e-13 if a and b else 2.0
'''


def changes(source=SOURCE):
    return {(item.line, item.before, item.after) for item in mutants("a.py", source)}


def test_each_operator_makes_its_change():
    assert changes() == {
        (3, "3", "(4)"),
        (3, "Field(ge=3)", "(Field())"),
        (3, "5", "(6)"),
        (5, "0", "(1)"),
        (7, "not a", "(a)"),
        (8, 'raise ValueError(f"{a + 1}", 2 < 3)', "pass"),
        (9, "max(a, b)", "(min(a, b))"),
        (10, "total += g(a, key=b)", "pass"),
        (10, "total += g(a, key=b)", "total -= g(a, key=b)"),
        (10, "g(a, key=b)", "(g(a))"),
        (11, "self.kept = a <= b", "pass"),
        (11, "a <= b", "(a < b)"),
        (11, "a <= b", "(a > b)"),
        (12, "total - 1e-13", "(total + 1e-13)"),
        (12, "1e-13", "(1.0000000000001)"),
        (12, "a and b", "(a or b)"),
        (12, "a and b", "(not (a and b))"),
        (12, "2.0", "(3.0)"),
    }


def test_every_mutant_is_a_programme_that_differs():
    for item in mutants("a.py", SOURCE):
        assert ast.dump(ast.parse(item.applied(SOURCE))) != ast.dump(ast.parse(SOURCE)), item


def test_places_are_counted_in_bytes():
    source = 'a = "größer", 1\n'.encode()
    (item,) = mutants("a.py", source)
    assert item.applied(source).decode() == 'a = "größer", (2)\n'


def test_only_what_runs_later_is_looked_for_by_line():
    lines = {item.line: item.lines for item in mutants("a.py", SOURCE)}
    assert lines[3] == lines[5] == ()
    assert lines[9] == (9,)


def test_equal_arguments_are_not_swapped():
    assert changes(b"x = f(a, a)") == set()
    assert changes(b"x = f(a, b)") == {(1, "f(a, b)", "(f(b, a))")}


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (10, 10), (255, 300)])
def test_the_interval_holds_the_share(hits, trials):
    low, high = interval(hits, trials)
    assert low <= hits / trials + 1e-12
    assert hits / trials <= high + 1e-12
    assert low > -1e-12
    assert high < 1 + 1e-12


def test_the_page_counts_survivors_with_and_without_a_reason():
    found = mutants("simulator/models/a.py", SOURCE)
    outcomes = [("killed", "tests/models/test_a.py::test")] * 6 + [("timed out", "")]
    outcomes += [("killed", "tests/engine/test_b.py::test"), ("survived", ""), ("survived", "")]
    rows = [m.row() | {"outcome": end, "by": by} for m, (end, by) in zip(found[:10], outcomes, strict=True)]
    text = written(rows, found, 7)
    assert "7 of 10 = 70.0% (95 % interval 39.7% to 89.2%) noticed by the tests of their own room" in text
    assert "8 of 10 = 80.0% (95 % interval 49.0% to 94.3%) by any" in text
    assert f"| models | {len(found)} | 10 | 7 | 8 | 2 |" in text
    assert f"Of {len(found)} possible mutants 10 were tried, in random order (seed 7)" in text


@pytest.mark.long
def test_every_reason_still_belongs_to_a_mutant():
    for item in yaml.safe_load(REASONS.read_text()):
        found = {mutant.key for mutant in mutants(item["file"], (REASONS.parents[2] / item["file"]).read_bytes())}
        assert item["reason"]
        assert item["key"] in found, item


def test_the_interval_of_ninety_in_a_hundred_is_wilson_s():
    assert [round(end, 3) for end in interval(90, 100)] == [0.826, 0.945]


def test_examples_in_docstrings_are_of_the_room_of_their_module():
    """The file itself, which none of pytest's collects, has examples that hold."""
    assert doctest.testmod(covering).failed == 0 < doctest.testmod(covering).attempted
