"""The table of measurements: what decides an open question first, what holds the doubt of a sure answer first."""

from simulator.prediction.result_parts import Worth
from simulator.records import replace
from simulator.reporting.wording.runs import value_table

ROWS = [
    Worth(name, [name], "assumed", 2.0, share, decided, (0.9, 1.1), f"sparsim {name}", 1.0)
    for name, share, decided in (("topk", 0.2, 0.9), ("network", 0.7, 0.4), ("layers", 0.1, 0.1))
]


def inputs(table):
    place = [column.key for column in table.columns].index("input")
    return [row[place] for row in table.rows]


def test_an_open_question_lists_what_is_likeliest_to_decide_it():
    table = value_table("undecided", ROWS, 2)
    assert (table.title, inputs(table)) == ("What decides it", ["topk", "network"])
    assert "decided" in [column.key for column in table.columns]


def test_a_sure_answer_lists_what_holds_most_of_the_doubt():
    table = value_table("no", ROWS, 2)
    assert inputs(table) == ["network", "topk"] and "decided" not in [column.key for column in table.columns]


def test_two_inputs_of_one_measurement_are_told_apart():
    rows = [replace(ROWS[1], id=[f"1 GbE/{part} between nodes"]) for part in ("rate", "start-up")]
    table = value_table("undecided", [ROWS[0], *rows])
    assert inputs(table) == ["topk", "rate between nodes", "start-up between nodes"]


def test_where_nothing_can_be_measured_there_is_no_table():
    assert value_table("undecided", []) is None and value_table(None, None) is None
