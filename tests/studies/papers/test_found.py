"""Figures beside what a paper states: computed from rows, with the conditions that sweeps use."""

import pandas as pd
import pytest

from simulator.errors import InputError
from simulator.studies.papers.claims import has_settled, value_of
from simulator.studies.papers.document import ComputedFigure

ROWS = pd.DataFrame(
    {
        "sparsifier": ["dense", '{"kind": "topk", "density": "1 %"}', "dense", '{"kind": "topk", "density": "1 %"}'],
        "scheduler.partition_bytes": [1e6, 1e6, 4e6, 4e6],
        "workers": [2, 2, 8, 8],
        "time_s": [4.0, 1.0, 6.0, 3.0],
        "bytes": [8.0, 2.0, 18.0, 12.0],
        "empty": [float("nan")] * 4,
    }
)
REDUCED = {"first": 4.0, "last": 3.0, "mean": 3.5, "median": 3.5, "min": 1.0, "max": 6.0}


def value(**keys):
    return value_of(ComputedFigure(what="it", **keys), ROWS, "paper.yaml:1:1")


@pytest.mark.parametrize(
    ("column", "more", "expected"),
    [
        *(("time_s", {"take": take}, figure) for take, figure in REDUCED.items()),
        ("time_s", {"take": "median", "where": {"workers": {"at_most": 8}, "time_s": {"not": 6.0}}}, 3.0),
        ("time_s", {"where": {"sparsifier": "topk", "workers": 2}}, 1.0),
        ("time_s", {"where": {"sparsifier.density": "1 %"}, "take": "max"}, 3.0),
        ("time_s", {"where": {"scheduler.partition": "4 MB"}, "take": "max"}, 6.0),
        ("time_s", {"where": {"sparsifier.density": None, "workers": {"above": 2}}}, 6.0),
        ("time_s", {"where": {"sparsifier": "dense", "workers": 8}, "over": {"sparsifier": "topk"}}, 2.0),
        ("bytes", {"per": "time_s", "take": "max"}, 4.0),
        ("bytes", {"lowest": "time_s"}, 2.0),
        ("sparsifier", {"show": "text", "where": {"workers": 2, "sparsifier": "dense"}}, "dense"),
    ],
)
def test_rows_are_chosen_by_kind_key_and_quantity_reduced_and_divided(column, more, expected):
    assert value(column=column, **more) == expected


def test_a_figure_has_settled_where_all_replays_that_it_is_taken_from_have():
    found = ComputedFigure(what="it", column="time_s", where={"workers": 2}, over={"workers": 8})
    told = {reasons: ROWS.assign(unsettled=list(reasons)) for reasons in (("", "", "", ""), ("", "", "a", ""))}
    assert [has_settled(found, rows, "") for rows in (ROWS, *told.values())] == [True, True, False]
    assert has_settled(found.model_copy(update={"over": None}), told["", "", "a", ""], "")


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"column": "tme_s"}, "expected a column of the rows, got 'tme_s': did you mean 'time_s'?"),
        ({"column": "time_s", "where": {"workers": 3}}, "expected rows that meet the conditions"),
        ({"column": "empty"}, "expected numbers in the column empty"),
        ({"column": "sparsifier", "where": {"sparsifier": "dense"}}, "expected numbers in the column sparsifier"),
        ({"column": "time_s", "lowest": "empty"}, "expected numbers in the column empty, got none"),
        ({"column": "time_s", "over": {"workers": 3}}, "expected rows that meet the conditions"),
    ],
)
def test_what_is_not_there_is_one_line_with_its_place(keys, words):
    with pytest.raises(InputError) as caught:
        value(**keys)
    assert words in str(caught.value) and str(caught.value).startswith("paper.yaml:1:1: ")


@pytest.mark.parametrize(("own", "other"), [(1.0, 0.0), (1e300, 1e-300)])
def test_nothing_is_divided_by_zero_or_so_little_that_it_is_infinite(own, other):
    rows = pd.DataFrame({"method": ["a", "b"], "x": [own, other]})
    found = ComputedFigure(what="it", column="x", where={"method": "a"}, over={"method": "b"})
    with pytest.raises(InputError, match=f"a number above 0 to divide by, got {other:g}"):
        value_of(found, rows, "here")
