"""The first screens of `run` and `explain`, for every shipped scenario: few lines, none too long, the answer first."""

from functools import cache

import pytest
from places import ROOT
from printed import lines_of
from small_inputs import NOTHING

from simulator.prediction.result_parts import WarningSize
from simulator.records import replace
from simulator.reporting.wording.explanation import SECTIONS, explanation_blocks
from simulator.reporting.wording.runs import full_run_blocks, run_blocks
from simulator.scenario.reading import load
from simulator.studies.compare.opponent import run_with_comparison
from simulator.studies.explain.explanation import explain

SCENARIOS = sorted(path.stem for path in (ROOT / "scenarios").glob("*.yaml"))
SLOW = {"failover", "megatron_llama3_70b", "priority_p3", "ps_colocated", "ps_incast", "replay_topk", "two_jobs"}
"""Scenarios whose messages are followed one by one, or whose gradients are replayed: `explain` takes up to a minute."""
AT_ONCE = {"quickstart", "hsdp_llama3", "ring_check", "starved"}
WIDTHS = (40, 60, 80, 100, 200)
RUN_LINES, EXPLAIN_LINES = 14, 45


def long_unless(names):
    return [pytest.param(name, marks=[] if name in names else pytest.mark.long) for name in SCENARIOS]


@cache
def result(name):
    return run_with_comparison(name).result


def check_widths(make, most):
    for width in WIDTHS:
        shown = lines_of(make(), width)
        too_long = [line for line in shown if len(line) > width and not line.startswith("  sparsim ")]
        assert not too_long, (width, too_long)
        if width in (80, 100):
            assert len(shown) <= most, shown


@pytest.mark.parametrize("name", long_unless(set(SCENARIOS) - SLOW))
def test_a_run_answers_on_one_screen(name):
    made = result(name)
    check_widths(lambda: run_blocks(made), RUN_LINES)
    check_widths(lambda: full_run_blocks(made), 80)
    text = " ".join(lines_of(run_blocks(made), 200))
    if made.comparison is None:
        assert text.startswith(f"{made.name} ")
    else:
        assert text.startswith(f"{made.question} {made.comparison.short}")
        assert made.comparison.text.startswith(made.comparison.short)


def test_a_short_answer_ends_where_a_sentence_does():
    made = result("quickstart").comparison
    text = f"Not decided: measure the part called An iteration takes one. {made.text}"
    assert replace(made, text=text).short == text.partition(" An iteration takes 5")[0]


@pytest.mark.parametrize("name", long_unless(AT_ONCE))
def test_an_explanation_fits_on_a_screen_and_names_its_parts(name):
    made = explain(load(name))
    check_widths(lambda: explanation_blocks(made), EXPLAIN_LINES)
    check_widths(lambda: explanation_blocks(made, list(SECTIONS)), 300)
    *_, last = lines_of(explanation_blocks(made), 200)
    for section, blocks in SECTIONS.items():
        assert (f"--{section} " in last) == any(map(bool, blocks(made)))


def test_every_part_can_be_asked_for_alone_and_all_together():
    made = explain(load("hsdp_llama3"))
    whole = lines_of(explanation_blocks(made, list(SECTIONS)), 100)
    for name in SECTIONS:
        head, *part = lines_of(explanation_blocks(made, [name]), 100)[1:]
        assert head.startswith("iteration time")
        assert part and " ".join(part) in " ".join(whole)


def test_an_iteration_of_no_time_has_no_answer_and_no_terms(tmp_path):
    made = run_with_comparison(NOTHING | {"versus": {"cluster.nodes": 2}}).result
    question, time, opponent, last = lines_of(run_blocks(made), 200)
    assert question.endswith("take with nodes 1, compared with nodes 2?")
    assert time == "iteration time  0 s   (no 90 % interval: no errors are known)"
    assert opponent.startswith("opponent") and opponent.endswith(": the same with nodes 2")
    assert last == "all figures: `sparsim run --full`"
    assert "share" not in " ".join(lines_of(explanation_blocks(explain(load(NOTHING))), 200))


def test_a_training_that_never_ends_is_the_answer():
    assert lines_of(run_blocks(result("starved")), 200)[1].startswith("The training never ends: control traffic")


def test_warnings_that_can_turn_the_answer_are_told_and_the_others_are_counted():
    """Quickstart loses 280 ms against dense: only a warning that lets it be that much shorter can turn the answer."""
    sizes = [
        WarningSize(text=text, seconds=None, less=less, more=more, direction=None)
        for text, less, more in (("far", 0.1, 5.0), ("near", 0.29, 0.0), ("open", None, 0.1), ("third", 0.3, 0.0))
    ]
    shown = lines_of(run_blocks(replace(result("quickstart"), warning_sizes=sizes)), 100)
    told = ["warning -290 ms: near", "warning +100 ms, of unknown size: open"]
    assert [line for line in shown if line.startswith("warning")] == told
    assert shown[-1] == "2 more warnings: `sparsim explain`; all figures: `sparsim run --full`"


def test_a_warning_is_cut_between_words_to_one_line():
    size = WarningSize(text="word " * 100, seconds=None, less=1.0, more=1.0, direction=None)
    for width in WIDTHS:
        shown = lines_of(run_blocks(replace(result("quickstart"), warning_sizes=[size])), width)
        (told,) = [line for line in shown if line.startswith("warning")]
        assert told.endswith("word ...")
