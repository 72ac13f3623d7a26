"""Tables in the width of a console: whole words, the fewest lines, and blocks where nothing else fits."""

from collections import Counter
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT
from printed import lines_of
from rich.cells import cell_len

from simulator.reporting.terminal.printing import fit_columns
from simulator.reporting.wording.blocks import Column, Table, Text, columns
from simulator.reporting.wording.traces import trace_blocks
from simulator.studies.traces.trace_study import info

WORDS = st.lists(st.text("abcdefgh_.0123456789", min_size=1, max_size=14), min_size=0, max_size=8).map(" ".join)


def printed(block, width=100):
    return lines_of([block], width)


@given(rows=st.lists(st.tuples(WORDS, WORDS, WORDS, WORDS, WORDS), min_size=1, max_size=6), width=st.integers(40, 120))
def test_no_word_is_broken_and_no_line_too_long(rows, width):
    heads = (*columns("words", "one heading", "two", "three"), *columns("figure", "of numbers", "last"))
    lines = printed(Table("", heads, rows), width)
    assert max(map(len, lines)) <= width
    words = {word for row in rows for cell in row for word in cell.split()}
    assert {word for line in lines for word in line.split()} >= words


def test_the_column_is_narrowed_that_adds_the_fewest_lines():
    rows = [("a short name", "many words of a text that is as long as this one", "451.3 ms")]
    table = Table("", (*columns("words", "name", "text"), *columns("figure", "time")), rows)
    assert fit_columns(table, 60) == [12, 36, 8] and fit_columns(table, 100) == [12, 48, 8]


def test_what_does_not_fit_side_by_side_becomes_blocks():
    table = Table("", columns("words", "name", "first", "second"), [("x" * 20, "y" * 20, "z" * 20)])
    assert fit_columns(table, 40) is None
    assert printed(table, 40) == ["name", "x" * 20, f"  first   {'y' * 20}", f"  second  {'z' * 20}"]


def test_a_listing_stays_a_table_and_long_words_are_broken():
    table = Table("", columns("words", "name", "first"), [("x" * 20, "y" * 6)], listing=True)
    assert printed(table, 20) == ["name          first", f"{'x' * 12}  {'y' * 6}", "x" * 8]


def test_a_word_that_is_longer_than_a_line_is_broken():
    assert printed(Table.facts([("name", "x" * 30)]), 20) == ["name", f"  {'x' * 18}", f"  {'x' * 12}"]


def test_a_name_cannot_move_the_cursor():
    assert printed(Table("", columns("words", "name of a layer"), [("one\rtwo\x08",)])) == ["name of a layer", "onetwo"]


def test_indented_names_stay_whole():
    rows = [(f"  {name}", "words " * 30) for name in ("skip_reduce", "a")]
    lines = printed(Table("", columns("words", "kind", "what it is"), rows), 60)
    assert [line for line in lines if line.startswith("  skip_reduce  words")]


@pytest.mark.parametrize("width", [40, 100])
def test_a_command_is_never_wrapped(width):
    line = "sparsim run quickstart" + " --set cluster.nodes=16" * 8
    assert printed(Text(line, "command"), width) == [f"  {line}"]


def test_names_of_facts_stay_in_one_line():
    (first, *_) = printed(Table.facts([("what would change it", "word " * 40)]), 60)
    assert first.startswith("what would change it  word")


ODD = ("", " ", "\t", "x" * 300, f"a {'x' * 300} b", "東" * 150, "e\u0301" * 100, "one\ntwo", "[bold]x", "1.2 ms")
CELLS = st.one_of(st.sampled_from(ODD), WORDS)
KINDS = st.sampled_from(["words", "text", "unbroken", "figure", "time"])


@given(data=st.data(), width=st.sampled_from([40, 60, 80, 100, 200]), listing=st.booleans())
def test_any_table_fits_and_loses_no_letter(data, width, listing):
    """Words of 300 letters, letters of two columns, headings of several lines, more columns than there is room for."""
    count = data.draw(st.integers(1, 8) | st.just(30))
    heads = data.draw(st.lists(CELLS, min_size=count, max_size=count))
    rows = data.draw(st.lists(st.lists(CELLS, min_size=count, max_size=count), max_size=3))
    table = Table("", [Column(f"{n}", head, data.draw(KINDS)) for n, head in enumerate(heads)], rows, listing=listing)
    for block in (table, Table.facts([row[:2] for row in rows if count > 1])):
        assert max(map(cell_len, printed(block, width)), default=0) <= width
    shown = Counter("".join(line.strip() for line in printed(table, width)))
    for row in rows:
        kept = Counter("".join("".join(row).split()))
        assert not {letter for letter in kept if kept[letter] > shown[letter]}


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
@pytest.mark.parametrize("style", ["", "title", "dim", "item", "warning", "first line", "note"])
def test_any_text_fits(style, width):
    for text in ("x" * 300, "word " * 100, "東" * 150, ""):
        lines = printed(Text(text, style), width)
        assert max(map(cell_len, lines), default=0) <= width
        assert style != "first line" or len(lines) == 1


@pytest.mark.long
@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "configs" / "traces").iterdir()))
def test_a_shipped_trace_fits(name, width):
    check_trace(trace_of(name), width)


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
@pytest.mark.parametrize("letters", [1, 30, 300])
def test_a_trace_fits_with_names_of_any_length(letters, width):
    row = {"numel": 10**9, "iteration": 12, "std": 0.1, "excess_kurtosis": -1.5, "gaussian_distance": 0.01}
    layer = {**row, "layer": "x" * letters, "histogram": [0.1, 0.3] * 16}
    facts = dict.fromkeys(("model", "framework", "device", "sampling", "source"), "x" * letters)
    facts |= {"workers": 16, "batch_size": 8, "held": 10**6, "elements": 10**9, "layers": [layer, layer]}
    check_trace(facts, width)


@cache
def trace_of(name):
    return info(ROOT / "configs" / "traces" / name)


def check_trace(document, width):
    lines = lines_of(trace_blocks(document), width)
    assert max(map(len, lines)) <= width
    letters = "".join("".join(lines).split())
    for layer in document["layers"]:
        assert len(layer["layer"]) > width or layer["layer"] in letters
