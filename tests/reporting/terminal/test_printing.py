"""Tables in the width of a console: whole words, the fewest lines, and blocks where nothing else fits."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from simulator.reporting.terminal.printing import fit_columns, print_blocks
from simulator.reporting.wording.blocks import Facts, Text
from simulator.reporting.wording.tables import Table, columns

WORDS = st.lists(st.text("abcdefgh_.0123456789", min_size=1, max_size=14), min_size=0, max_size=8).map(" ".join)


def printed(block, width=100):
    out = io.StringIO()
    print_blocks([block], Console(file=out, width=width))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def fitted(table, width):
    heads, kinds = [column.label for column in table.columns], [column.kind for column in table.columns]
    return fit_columns(heads, kinds, table.rows, width)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(WORDS, WORDS, WORDS, WORDS, WORDS), min_size=1, max_size=6), width=st.integers(40, 120))
def test_no_word_is_broken_and_no_line_too_long(rows, width):
    heads = (*columns("words", "one heading", "two", "three"), *columns("figure", "of numbers", "last"))
    table = Table("", heads, rows)
    lines = printed(table, width)
    assert max(map(len, lines)) <= width
    words = {word for row in rows for cell in row for word in cell.split()}
    assert {word for line in lines for word in line.split()} >= words


def test_the_column_is_narrowed_that_adds_the_fewest_lines():
    rows = [("a short name", "many words of a text that is as long as this one", "451.3 ms")]
    table = Table("", (*columns("words", "name", "text"), *columns("figure", "time")), rows)
    assert fitted(table, 60) == [12, 36, 8]
    assert fitted(table, 100) == [12, 48, 8]


def test_what_does_not_fit_side_by_side_becomes_blocks():
    table = Table("", columns("words", "name", "first", "second"), [("x" * 20, "y" * 20, "z" * 20)])
    assert fitted(table, 40) is None
    assert printed(table, 40) == ["name", "x" * 20, f"  first   {'y' * 20}", f"  second  {'z' * 20}"]


def test_a_listing_stays_a_table_and_long_words_are_broken():
    table = Table("", columns("words", "name", "first"), [("x" * 20, "y" * 6)], listing=True)
    assert printed(table, 20) == ["name          first", f"{'x' * 12}  {'y' * 6}", "x" * 8]


def test_a_word_that_is_longer_than_a_line_is_broken():
    assert printed(Facts([("name", "x" * 30)]), 20) == ["name", f"  {'x' * 18}", f"  {'x' * 12}"]


def test_a_name_cannot_move_the_cursor():
    table = Table("", columns("words", "name of a layer"), [("one\rtwo\x08",)])
    assert printed(table) == ["name of a layer", "onetwo"]


def test_indented_names_stay_whole():
    rows = [(f"  {name}", "words " * 30) for name in ("skip_reduce", "a")]
    lines = printed(Table("", columns("words", "kind", "what it is"), rows), 60)
    assert [line for line in lines if line.startswith("  skip_reduce  words")]


@pytest.mark.parametrize("width", [40, 100])
def test_a_command_is_never_wrapped(width):
    out = io.StringIO()
    line = "sparsim run quickstart " + "--set cluster.nodes=16 " * 8
    print_blocks([Text(line, "command")], Console(file=out, width=width))
    assert out.getvalue() == f"  {line}\n"


def test_names_of_facts_stay_in_one_line():
    lines = printed(Facts([("what would change it", "word " * 40)]), 60)
    assert lines[0].startswith("what would change it  word")
