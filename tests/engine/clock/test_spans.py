"""Spans of single workers: gap-free on the compute stream, and on average what the breakdown says."""

import math
from collections import defaultdict
from itertools import pairwise

import pytest

from simulator.engine.clock.draws import ALIKE
from simulator.engine.clock.run_points import run_in_a_row
from simulator.models.terms import BREAKDOWN
from simulator.prediction.run import plans_of, run
from simulator.scenario.reading import load

CHANGES = ("cluster.nodes=2", "cluster.stragglers.jitter=0.2", "workload.input_time=5 ms", "iterations=1", "warmup=0")
CHANGES += ("sparsifier={kind: topk, density: 0.01}", "cluster.network.bandwidth=2 Gbit/s")
STREAMS = {"compute", "communication", "exchange kernel"}


@pytest.mark.parametrize("slowdown", [pytest.param(0.0, marks=pytest.mark.long), 0.5])
@pytest.mark.parametrize("kind", ["wfbp", "priority", "tictac", "decoupled"])
def test_spans_of_every_worker(kind, slowdown):
    changes = (*CHANGES, f"scheduler={{kind: {kind}}}", f"cluster.runtime.compute_slowdown={slowdown}")
    prediction = run(load("quickstart", changes))
    iteration, workers = prediction.iteration, prediction.document["workers"]
    terms = defaultdict(float)
    for worker in range(workers):
        spans = iteration.spans_of(worker)
        assert {span.stream for span in spans} <= STREAMS
        own = sorted((span for span in spans if span.stream == "compute"), key=lambda span: (span.start, span.end))
        assert own[0].start == pytest.approx(0.0, abs=1e-12)
        assert own[-1].end == pytest.approx(iteration.time, rel=1e-9)
        for before, after in pairwise(own):
            assert after.start == pytest.approx(before.end, rel=1e-9, abs=1e-12)
        assert {span.term for span in own} <= set(BREAKDOWN)
        for span in own:
            terms[span.term] += (span.duration - span.slowed) / workers
            terms["slowdown"] += span.slowed / workers
    assert math.fsum(terms.values()) == pytest.approx(iteration.time, rel=1e-9)
    for term, seconds in iteration.breakdown.items():
        assert terms[term] == pytest.approx(seconds, rel=1e-6, abs=1e-9 * iteration.time), term


@pytest.mark.parametrize("followed", [False, True], ids=["evaluated", "on the clock"])
def test_spans_last_until_the_next_iteration_unless_they_are_kept(followed):
    plan, _ = plans_of(load("quickstart", CHANGES), followed=followed)
    first, last = run_in_a_row(plan, [ALIKE, ALIKE])
    with pytest.raises(RuntimeError, match="the spans of this iteration were not kept: run with keep_iterations"):
        first.spans()
    assert last.spans()
    first, last = run_in_a_row(plan, [ALIKE, ALIKE], keep=True)
    assert first.spans() == last.spans()
