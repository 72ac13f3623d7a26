"""Break-even points, against closed forms."""

import math
import re
from itertools import pairwise
from types import SimpleNamespace

import pytest
from in_json import in_json
from small_advice import DENSE, IDEAL, LAYERS, SMALL, scenario

from simulator.models.curves import Affine
from simulator.prediction.doubts.doubt import Doubt
from simulator.prediction.doubts.spread import Response, Spread
from simulator.prediction.run import run
from simulator.records import replace
from simulator.scenario.changes import with_value
from simulator.studies.advice.advice import advise
from simulator.studies.advice.candidates import Candidate, Grid
from simulator.studies.advice.crossings import (
    NOT_TRIED,
    Duel,
    Win,
    Wins,
    _bandwidths,
    _workers,
    bandwidth_axis,
    crossings,
    nodes_axis,
)
from simulator.studies.advice.search import search
from simulator.studies.variants.crossing import Along, evaluate, find_change, search_together

advise = in_json(advise)


def wins(axis, dense, method, simulated=True):
    """Where a method is faster than dense along an axis."""
    duel = Duel(Along(axis, method), Along(axis, dense), "full" if simulated else "first_order")
    (found,) = search_together([duel.search()])
    return found


def lone(numel=10_000_000, cost=0.0, **cluster):
    """One tensor on an ideal ring, Top-k 1 %; `cost` seconds of selection."""
    gpu = {"name": "g", "kernels": {"topk": {"curve": "affine", "intercept": cost}}} if cost else IDEAL
    return scenario(latency=0.0, gpu=gpu, layers=[{"name": "only", "numel": numel, "backward": 0.01}], cluster=cluster)


def test_workers_at_which_gathering_loses_are_those_whose_bytes_are_equal():
    """(p - 1) 8 k < 2 (p - 1) / p 4 d, so that p < d / k = 100."""
    spec = lone()
    (win,) = wins(nodes_axis(spec), Candidate({"kind": "dense"}).of(spec), spec).wins
    assert win.start is None and win.stop == 99
    assert win.stop_interval == (99, 99)  # an ideal GPU on a network that is stated: nothing is uncertain


def test_bandwidth_at_which_selection_eats_what_it_saves():
    """cost + (p - 1) 8 k / B = 2 (p - 1) / p 4 d / B."""
    numel, cost, p = 10_000_000, 0.02, 4
    spec = lone(numel, cost)
    (win,) = wins(bandwidth_axis(spec), Candidate({"kind": "dense"}).of(spec), spec).wins
    saved = 2 * (p - 1) / p * 4 * numel - (p - 1) * 8 * 0.01 * numel
    assert win.start is None and win.stop == pytest.approx(saved / cost, rel=1e-3)


def with_spreads(monkeypatch, halves):
    """Predictions whose times respond to one input by the halves (of logarithms) that are given by sparsifier."""

    def spread(scenario):
        item = Doubt("link law", "rate", "assumed", 2.0)
        half = halves[scenario.sparsifier.kind]
        return Spread(run(scenario).spread.time, (Response(item.key, (item,), -half, half),))

    def answered(scenarios, intervals):
        return [replace(made, spread=spread(made.scenario)) for made in evaluate(scenarios, intervals)]

    monkeypatch.setattr("simulator.studies.variants.crossing.evaluate", answered)


def test_errors_that_both_share_in_proportion_leave_a_point(monkeypatch):
    with_spreads(monkeypatch, {"topk": 0.5, "dense": 0.5})
    spec = lone(cost=0.02)
    (win,) = wins(bandwidth_axis(spec), Candidate({"kind": "dense"}).of(spec), spec).wins
    assert win.stop_interval == (win.stop, win.stop)


@pytest.mark.parametrize("own", [0.3, 0.1])
def test_the_ends_of_an_interval_are_where_the_predicted_ratio_is_what_the_spread_allows(monkeypatch, own):
    """0.2 of the logarithm is shared, so that 0.1 is left, of either sign."""
    with_spreads(monkeypatch, {"topk": own, "dense": 0.2})
    spec = lone(cost=0.02)
    axis, dense = bandwidth_axis(spec), Candidate({"kind": "dense"}).of(spec)
    (win,) = wins(axis, dense, spec).wins
    low, high = win.stop_interval
    assert low < win.stop < high
    for end, ratio in ((low, 0.1), (high, -0.1)):
        first, second = (run(axis.at(item, end)).document["iteration_time_s"] for item in (spec, dense))
        assert math.log(second / first) == pytest.approx(ratio, abs=0.01)


def test_of_workers_the_ends_are_whole_numbers_around_the_border(monkeypatch):
    with_spreads(monkeypatch, {"topk": 0.1, "dense": 0.0})
    spec = lone()
    (win,) = wins(nodes_axis(spec), Candidate({"kind": "dense"}).of(spec), spec).wins
    low, high = win.stop_interval
    assert low == round(low) < win.stop == 99 < high == round(high)


@pytest.mark.parametrize(
    ("gap", "change"),
    [
        (lambda x: x - 3, 3),
        (lambda x: 3 - x, 3),
        (lambda x: -1.0 if x < 7 else 1e-9, 7),  # a jump
        (lambda x: min(0.0, x - 5), 5),  # equal from 5 on
        (lambda x: x**9 - 2**9, 2),
        (lambda x: None if x > 4 else -1.0, 4),  # cannot be run above 4
    ],
)
def test_changes_of_sign_are_found_with_few_evaluations(gap, change):
    asked = []

    def counted(value):
        asked.append(value)
        yield ()
        return gap(value)

    ends = (1, 10) if gap(1) < 0 else (10, 1)
    ((below, other),) = search_together([find_change(counted, *ends, 1e-3)])
    assert gap(below) < 0 and below == pytest.approx(change, rel=1e-3) and other == pytest.approx(change, rel=1e-3)
    assert len(asked) < 50 and abs(math.log(other / below)) <= math.log1p(1e-3)
    ((below, other),) = search_together([find_change(counted, *ends, 0.0, whole=True)])
    assert gap(below) < 0 <= (gap(other) or 0.0) and abs(below - other) == 1


def test_two_bandwidths_in_each_decade_and_doublings_of_up_to_256_workers_are_tried():
    axis = bandwidth_axis(lone())
    assert axis.tried == pytest.approx([10 ** (7 + half / 2) for half in range(9)])
    for nodes, gpus, key, ends in (
        (4, 1, "nodes", (2, 256)),
        (2, 4, "nodes", (1, 64)),
        (1, 8, "gpus_per_node", (2, 256)),
    ):
        axis = nodes_axis(lone(nodes=nodes, gpus_per_node=gpus))
        assert (axis.key, axis.tried[0], axis.tried[-1]) == (f"cluster.{key}", *ends)
        assert all(after == 2 * before for before, after in pairwise(axis.tried))


def test_winning_everywhere_or_nowhere_has_no_border():
    spec = lone()
    everywhere = wins(bandwidth_axis(spec), Candidate({"kind": "dense"}).of(spec), spec).wins
    assert everywhere == (Win(None, None, None, None),)
    slow = lone(cost=100.0)
    assert wins(bandwidth_axis(slow), Candidate({"kind": "dense"}).of(slow), slow).wins == ()
    rows = advise(slow, grid=replace(SMALL, methods=SMALL.methods[:2], topologies=(None,)))["break_even"]
    topk = next(row for row in rows if row["method"] == "topk 0.01")
    assert topk["bandwidth_below_which_it_wins"] is None and topk["bandwidth_words"].startswith("never faster")


def test_nodes_that_must_be_there_leave_no_other_worker_count_to_try(monkeypatch):
    monkeypatch.setattr("simulator.studies.advice.crossings.MOST_WORKERS", 8)
    spec = scenario(cluster={"nodes": 9, "links": [{"link": "node 8 NIC", "factor": 0.5}]})
    (row,) = advise(spec, grid=Grid((Candidate(), DENSE), (None,), (None,)))["break_even"]
    assert row["workers_words"] == "could not be run at another number of workers"
    assert row["workers_above_which_it_wins"] is row["workers_up_to_which_it_wins"] is None


@pytest.mark.long
def test_methods_whose_messages_meet_are_compared_over_bandwidths_alone():
    layers = [{"name": "a", "numel": 3000, "backward": 1e-3}]
    methods = tuple(Candidate({"kind": kind, "density": 0.01}) for kind in ("topk", "oktopk"))
    spec = scenario(layers=layers, topology="tree", cluster={"nodes": 8}, fidelity="flows", sparsifier="dense")
    rows = advise(spec, grid=Grid((DENSE, *methods), (None,), (None,)))["break_even"]
    assert {row["method"] for row in rows} == {"topk 0.01", "oktopk 0.01"}
    assert {row["workers_words"] for row in rows} == {"not computed: takes long to simulate"}
    assert {row["schedule"] for row in rows} == {"bucketed 25 MiB"}


def test_a_method_that_refuses_the_scenario_s_schedule_is_compared_on_its_own():
    model = Candidate({"kind": "topk", "density": 0.01, "granularity": "model"}, {"kind": "sequential"})
    spec = scenario(bandwidth=1e7, sparsifier="dense", layers=[*LAYERS, {"name": "large", "numel": 10_000_000}])
    grid = Grid((replace(model, scheduler=None),), (None, model.scheduler), (None,))
    staged, whole = (search(spec, grid, exhaustive) for exhaustive in (0, 300))
    assert [item.candidate for item in staged.outcomes] == [item.candidate for item in whole.outcomes] == [model]
    assert staged.refused == whole.refused and staged.refused.total() == 1
    (row,) = crossings(spec, whole.outcomes)
    assert row.schedule == "sequential" and row.bandwidth_words.startswith("faster below")


def test_where_exchanges_share_links_few_methods_are_compared_and_the_scenario_s_own_first(monkeypatch):
    """Three at the most then; else all, four together, but for those that round more than the scenario."""
    asked = []
    keep = lambda _, parts, *__, **___: asked.append(parts) or {}  # noqa: E731
    monkeypatch.setattr("simulator.studies.advice.crossings.map_watched", keep)
    rounded = [SimpleNamespace(candidate=Candidate({"kind": "qsgd"}), rounded=True, live=False)]
    for live, groups in ((False, [[6, 0, 1, 2], [3, 4, 5]]), (True, [[6, 0, 1]])):
        others = [SimpleNamespace(candidate=Candidate({"kind": str(n)}), rounded=False, live=live) for n in range(6)]
        others += [SimpleNamespace(candidate=Candidate(), rounded=True, live=False)]
        assert crossings(lone(), [*rounded, *others]) == []
        assert [[others.index(item) for _, item in group] for group in asked.pop()] == groups


UP_TO, FROM = Win(None, 3.0, None, (2.0, 5.0)), Win(7.0, None, (None, 9.0), None)
BETWEEN = Win(3.0, 5.0, None, None)
TRIED = (2.0, 9.0)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (NOT_TRIED, "not computed: takes long to simulate"),
        (Wins((), TRIED), "never faster (tried: 8 to 36 workers)"),
        (Wins((Win(None, None, None, None),), TRIED), "always faster (tried: 8 to 36 workers)"),
        (Wins((UP_TO,), TRIED), "faster up to 12 workers (8 to 20)"),
        (Wins((replace(UP_TO, stop_interval=(2.0, None)),), TRIED), "faster up to 12 workers (at least 8)"),
        (Wins((FROM,), TRIED), "faster from 28 workers (at most 36)"),
        (
            Wins((Win(3.0, 5.0, None, None), FROM), TRIED),
            "faster from 12 to 20 workers and from 28 workers (at most 36)",
        ),
    ],
)
def test_borders_are_told_in_words_and_of_nodes_by_their_gpus(found, words):
    """Of the same numbers as bytes per second there are eight bits in each, and the last border counts."""
    spec = lone(gpus_per_node=4)
    made = _workers(found, nodes_axis(spec), spec)
    first, last = (found.wins[0], found.wins[-1]) if found.wins else (None, None)
    assert made[4] == words and made[0] == (first and first.start and 4 * first.start)
    assert made[2] == (last and last.stop and 4 * last.stop)
    assert made[3] == (last and last.stop_interval and tuple(end and 4 * end for end in last.stop_interval))
    highest, interval, told = _bandwidths(found)
    bits = re.sub(r"(\d+)", lambda number: f"{2 * int(number[1])} bit/s", words.replace(" workers", ""))
    assert told == bits.replace("up to", "below").replace("from", "above")
    assert (highest, interval) == (last and last.stop, last and last.stop_interval)


def test_a_wider_interval_of_the_prediction_widens_the_break_even():
    spec = lone(cost=0.02)
    unsure = with_value(spec, "cluster.gpu.kernels", {"topk": Affine(intercept=0.02, held_out_mape=0.1)})
    (win,) = wins(bandwidth_axis(unsure), Candidate({"kind": "dense"}).of(spec), unsure).wins
    low, high = win.stop_interval
    assert low < win.stop * 0.9 and high > win.stop * 1.1


def test_intervals_to_first_order_hold_the_border_too():
    spec = scenario()
    dense = Candidate({"kind": "dense"}).of(spec)
    for simulated in (True, False):
        (win,) = wins(bandwidth_axis(spec), dense, spec, simulated).wins
        low, high = win.stop_interval
        assert low < win.stop
        assert high is None or high > win.stop


def test_duels_together_find_what_each_finds_by_itself():
    """Two methods and two axes, along each of which dense is shared."""
    spec = scenario()
    other = Candidate({"kind": "randomk", "density": 0.01}).of(spec)
    dense = Candidate({"kind": "dense"}).of(spec)
    axes = bandwidth_axis(spec), nodes_axis(spec)
    alone = [wins(axis, dense, method) for axis in axes for method in (spec, other)]
    rivals = [Along(axis, dense) for axis in axes]
    duels = [Duel(Along(item.axis, method), item) for item in rivals for method in (spec, other)]
    assert search_together([duel.search() for duel in duels]) == alone
