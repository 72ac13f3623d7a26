"""Warnings and notes of whole scenarios: in order, few on the terminal, all of them where one asks why."""

import pytest
from command_line import answered, printed

from simulator.answers import read_answer
from simulator.prediction.doubts.sentences import SMALL
from simulator.prediction.result import RunResult
from simulator.prediction.run import run, with_responses
from simulator.scenario.reading import load
from simulator.studies.storage.row_table import row_of


@pytest.mark.parametrize("name", ["quickstart", "replay_topk", "straggler", "partitioned_topk"])
def test_warnings_are_sized_largest_first_and_notes_change_nothing(name):
    document = with_responses(run(load(name))).document
    time, rows = document["iteration_time_s"], document["warning_sizes"]
    assert rows and [text.startswith(row["text"]) for text, row in zip(document["warnings"], rows, strict=True)]
    changes = [max(row["less_s"], row["more_s"]) for row in rows if row["less_s"] is not None]
    assert changes == sorted(changes, reverse=True) and all(change >= SMALL * time for change in changes)
    assert all(row["seconds"] is None or 0 <= row["seconds"] <= time for row in rows)
    assert not set(document["notes"]) & set(document["warnings"])
    low, high = document["iteration_time_interval_s"]
    for row in rows:  # no part is wrong by more than the whole
        assert row["less_s"] is None or time - row["less_s"] >= low - 1e-12
        assert row["more_s"] is None or time + row["more_s"] <= high + 1e-12


@pytest.mark.long
def test_a_run_prints_the_three_largest_and_explain_prints_all():
    document = answered("run", "replay_topk")
    assert len(document["warnings"]) > 3 and document["notes"]
    commands = (("run", "--full"), ("explain", "--warnings"))
    first_screen, explained = (" ".join(printed(name, "replay_topk", option).split()) for name, option in commands)
    for place, text in enumerate(document["warnings"]):
        assert (f"warning {' '.join(text.split())}" in first_screen) == (place < 3)
        assert f"warning {' '.join(text.split())}" in explained
    assert f"{len(document['warnings']) - 3} more warning" in first_screen
    for text in document["notes"]:
        assert text not in first_screen and f"note {text}" in explained


def test_the_quickstart_prints_at_most_three():
    assert printed("run", "quickstart", "--full").count("warning ") <= 3


def test_rows_of_a_sweep_hold_warnings_without_sizes_so_that_points_can_be_counted():
    document = run(load("quickstart")).document
    entries = row_of(read_answer(document, RunResult, "here"))["warnings"].split("; ")
    assert len(entries) == len(document["warnings"]) and not any("of this iteration" in text for text in entries)


@pytest.mark.long
def test_more_workers_than_a_trace_holds_touch_what_is_selected_and_sent():
    made = run(load("replay_topk", ("cluster.nodes=64", "sparsifier.exchange_by=union_all_reduce")))
    (row,) = (row for row in made.document["warning_sizes"] if "more workers than the trace" in row["text"])
    terms = ("selection", "communication_exposed", "combine")
    assert row["seconds"] == pytest.approx(sum(made.simulated.figures.timed[term] for term in terms))
    assert row["direction"] == "either way"
