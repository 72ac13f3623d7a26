"""The parts of an answer, without a server: which there are, and what their figures are."""

import math
import re
from itertools import pairwise

import pytest
from served_pages import TEXT

from simulator.models.timeline import Span
from simulator.prediction.run import run
from simulator.scenario.changes import without_randomness
from simulator.scenario.reading import load, parse_scenario
from simulator.serving import answering
from simulator.serving.answering import AnswerService, grid_around
from simulator.serving.fragments import describe_cell, draw_timeline
from simulator.units import show_time

TWO_NODES = TEXT.replace("nodes: 8", "nodes: 2")


def answer(text=TWO_NODES, until=lambda made: False, seconds=math.inf, **more):
    """The parts for a page that asks something else as soon as `until` holds of those before."""
    made = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answering, "MAP_SECONDS", seconds)
        for part in AnswerService({}).parts({"text": text, **more}, lambda _: until(made)):
            made.append(part)
    return made


def test_a_map_has_a_row_for_each_number_of_nodes_its_own_first_and_frames_the_scenario():
    made = answer(pinned=TWO_NODES.replace("0.001", "0.01"))
    assert [part["part"] for part in made] == ["scenario", "answer", "answer", "difference", "map", "map", "map"]
    assert [part.get("intervals") for part in made] == [None, "first_order", "full", None, *["first_order"] * 3]
    assert [part["final"] for part in made[1:3]] == [False, True]
    quick, full = (part["html"] for part in made[1:3])
    assert "Does Top-k 0.1 % pay for ResNet-50" in full and "first-order" not in full
    assert quick.count("first-order 90 % interval") == quick.count("90 % interval") == full.count("90 % interval") > 4
    assert all(word in made[3]["html"] for word in ("sparsifier.density", "0.001")) and "+0 %" not in made[3]["html"]
    for count, part in enumerate(made[4:]):
        assert part["html"].count('class="waits') == 14 - 7 * count and "refused" not in part["html"]
    assert "first order" in made[-1]["html"]
    heads = re.findall(r'<th scope="\w+">([^<]*)', made[-1]["html"])
    rates = ["280 Mbit/s", "940 Mbit/s", "2.8 Gbit/s", "9.394 Gbit/s", "28 Gbit/s", "94 Gbit/s", "280 Gbit/s"]
    assert heads == ["nodes", *rates, "8", "4", "2"]
    cells = re.findall(r'<td class="([^"]*)" title="([\d.]+) times (\w+)[^>]*>([^<]*)', made[-1]["html"])
    assert [place for place, cell in enumerate(cells) if cell[0].endswith(" here")] == [17]  # in the last row
    assert (cells[0][2], cells[-1][2]) == ("faster", "slower")  # slow links of many nodes; fast ones of few


@pytest.mark.long
def test_the_map_knows_what_was_measured():
    measured = TWO_NODES + "measured: {iteration_time: 500 ms, source: a timer}\n"
    time = run(without_randomness(load(parse_scenario(measured, "").data))).spread.time
    assert f"slower: {show_time(time)}, dense" in answer(measured)[-1]["html"]


def test_a_newer_question_ends_an_answer_between_its_parts_and_a_slow_map_is_left_out():
    for count in (2, 3, 5):
        assert len(answer(pinned=TWO_NODES, until=lambda made, most=count: len(made) >= most)) == count
    assert re.search("It would take about [1-9][0-9]* s here; `sparsim sweep", answer(seconds=0.0)[-1]["html"])
    for text in (TWO_NODES.replace("{kind: topk, density: 0.001}", "dense"), TEXT.replace("best_dense", "{seed: 3}")):
        assert "It compares a method with dense" in answer(text)[-1]["html"]


def test_what_cannot_be_computed_is_a_problem_of_the_scenario(monkeypatch):
    monkeypatch.setattr(answering, "run", lambda *_, **__: 10.0**400)
    (problem,) = answer()[-1]["problems"]
    said = "scenario: expected a scenario that can be computed here, got OverflowError: choose smaller values"
    assert problem == {"text": said, "key": "", "line": 0, "column": 0}


@pytest.mark.parametrize(
    ("keys", "nodes", "rates"),
    [
        (("cluster.nodes=8",), [2, 4, 8, 16, 32], [0.28, 0.94, 2.8, 9.3944, 28, 94, 280]),
        (("cluster.nodes=1024",), [256, 512, 1024], [0.28, 0.94, 2.8, 9.3944, 28, 94, 280]),  # no more than its own
        (("cluster.nodes=256",), [64, 128, 256, 512], [0.28, 0.94, 2.8, 9.3944, 28, 94, 280]),  # no more than 512
        (("cluster.nodes=3",), [2, 3, 6, 12], [0.28, 0.94, 2.8, 9.3944, 28, 94, 280]),  # 0.75 and 1.5 are 1 and 2
        (("cluster.nodes=1", "cluster.network.intra_node={bandwidth: 10 GB/s}"), [1], [2.4, 8, 24, 80, 240, 800, 2400]),
    ],
)
def test_the_map_is_of_doublings_and_of_bandwidths_in_two_digits_around_the_scenario(keys, nodes, rates):
    made, tried = grid_around(load("quickstart", keys))
    assert tried == nodes and [8 * rate / 1e9 for rate in made] == pytest.approx(rates)


@pytest.mark.parametrize(
    ("times", "verdict", "text", "title", "classes"),
    [
        ((0.5, 1.0), "undecided", "2.00", "2.00 times faster: 500 ms, d: 1 s, not decided", "faster shade-3 undecided"),
        ((1.05, 1.0), "yes", "0.95", "1.05 times slower: 1.05 s, d: 1 s", "slower shade-1"),
        ((1.0, 1.0), "alike", "1.00", "1.00 times faster: 1 s, d: 1 s, no difference", "faster shade-0 undecided"),
        ((math.inf, 1.2), "no", "–", "never ends, with this method or with dense", "refused"),
        ((0.1, 1.2), "yes", "12", "12.00 times faster: 100 ms, d: 1.2 s", "faster shade-4"),
    ],
)
def test_a_cell_says_how_many_times_faster_the_method_is(times, verdict, text, title, classes):
    assert describe_cell(*times, verdict, "d") == {"text": text, "title": title, "class": classes}


def test_a_timeline_joins_what_is_one_term_or_too_short_to_be_seen():
    ends = {"forward": (0.0, 1.0, 2.0), "backward": (2.0, 2.001), "selection": (2.001, 4.0)}
    spans = [Span("compute", "", *pair, term=term) for term, at in ends.items() for pair in pairwise(at)]
    spans += [Span(*item) for item in (("communication", "", 1.0, 2.5), ("communication", "", 2.501, 3.0))]
    other = [*spans[:1], Span("compute", "", 1.0, 3.0, term="")]
    drawn = str(draw_timeline([("one", [*spans, Span("k", "", 3.0, 3.25)]), ("two", other)]))
    assert re.findall(r'class="term-(\w+)" x="([\d.]+)%" width="([\d.]+)%" height="100%"><title>([^<]*)', drawn) == [
        ("forward", "0", "50", "forward pass: 0 s to 2 s"),
        ("selection", "50", "50", "backward pass and selection: 2 s to 4 s"),
        ("communication_exposed", "25", "50", "communication: 1 s to 3 s"),
        ("combine", "75", "6.25", "kernel: 3 s to 3.25 s"),
        ("forward", "0", "25", "forward pass: 0 s to 1 s"),
        ("idle", "25", "50", "other work: 1 s to 3 s"),
    ]
