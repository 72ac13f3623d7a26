"""Replay on the shipped traces: what the methods' own algorithms do to recorded gradients of 16 workers."""

import json
import os
import shutil
from itertools import pairwise

import numpy as np
import pytest
from click.testing import CliRunner
from places import ROOT
from replayed import mean, replay, replay_trace, rows, select

from simulator.cli import main
from simulator.component import build
from simulator.engine import replay as replay_module
from simulator.engine.build_up import build_up
from simulator.engine.replay import ReplayedStep, mean_selection
from simulator.errors import InputError
from simulator.models.exchange import Bucket, Selection
from simulator.models.gradients import Block
from simulator.models.layers import Layer
from simulator.models.overlap import union_density
from simulator.prediction import recorded_inputs
from simulator.prediction.run import run
from simulator.progress import Watch
from simulator.records import replace
from simulator.reporting.wording.traces import build_up_blocks
from simulator.scenario.reading import load
from simulator.sparsifiers.base import Sparsifier
from simulator.traces.format.trace import Trace, TraceSpec
from simulator.traces.format.writer import TraceWriter

SHIPPED = ROOT / "configs" / "traces"


LONG = [pytest.param(name, marks=pytest.mark.long) for name in ("resnet-digits", "transformer-generated")]


@pytest.fixture(scope="module", params=["short", *LONG])
def trace(request, short_trace):
    return short_trace if request.param == "short" else Trace.open(SHIPPED / request.param)


@pytest.mark.parametrize("feedback", [True, pytest.param(False, marks=pytest.mark.long)])
@pytest.mark.parametrize("granularity", ["layer", pytest.param("model", marks=pytest.mark.long)])
def test_top_k_builds_up_less_than_independent_choices(trace, granularity, feedback):
    method = {"kind": "topk", "density": 0.01, "granularity": granularity}
    unions = []
    for workers in (1, 2, 4, 8, 16):
        found = rows(trace, method, workers, feedback)
        selected, union = mean(found, "selected"), mean(found, "aggregated")
        assert selected * (1 - 1e-9) <= union <= 1.02 * union_density(selected, workers)
        unions.append(union)
    assert unions == sorted(unions)
    assert unions[-1] > 2 * unions[0]


@pytest.mark.long
@pytest.mark.parametrize(("name", "tolerance"), [("resnet-digits", 0.05), ("transformer-generated", 0.10)])
def test_a_sampled_replay_agrees_with_the_union_measured_on_all_coordinates(name, tolerance):
    sampled = Trace.open(SHIPPED / name)
    measured = sampled.union_points("layer", True, 0.01)
    found = {row["iteration"]: row for row in rows(sampled, {"kind": "topk", "density": 0.01}, 16)}
    ratios = [found[iteration]["aggregated"] / points[16].union_density for iteration, points in measured.items()]
    assert len(ratios) >= 7
    assert abs(np.mean(ratios) - 1) <= tolerance


def test_deft_is_flat_at_the_target(trace):
    # At lower densities the sample holds less than one coordinate of a piece's share: see test_deft on whole vectors.
    unions = [mean(rows(trace, {"kind": "deft", "density": 0.1}, workers), "aggregated") for workers in (1, 4, 16)]
    assert unions == pytest.approx([0.1] * 3, rel=0.12)


def test_a_hard_threshold_drifts_and_pads(trace):
    first = next(iter(trace.blocks()))
    threshold = float(np.quantile(np.abs(first.values), 0.99))
    found = rows(trace, {"kind": "threshold", "density": 0.01, "threshold": threshold}, 16)
    densities = [row["selected"] for row in found]
    assert max(densities) > 2 * min(densities)
    assert max(row["padding"] for row in found) > 1.05


def test_the_energy_of_a_step_is_its_squares():
    """Top 1 of (3, -4, 0) and of (12, 0, 5): 16 and 144 of 25 and 169 are sent, over one worker and over two."""
    values = np.float32([[3, -4, 0], [12, 0, 5]])
    method = build(Sparsifier, {"kind": "topk", "density": 0.34})
    for workers, energy, lost in ((1, 25, 9), (2, 194, 34)):
        block = Block(values[:workers], np.zeros(3, int), np.arange(3), np.ones(3), (3,))
        (step,) = replay(method, [block])
        assert (step.energy, step.lost, step.residual) == (energy, lost, lost / workers)
        assert step.energy_kept == pytest.approx(1 - lost / energy, rel=1e-12)
    (still,) = replay(method, [replace(block, values=np.zeros_like(block.values))])
    assert (still.energy, still.energy_kept) == (0, 1)
    row = still.row()
    assert (row["selected"], row["aggregated"], row["never_sent"]) == (0, 0, 1)
    assert [row[key] for key in ("build_up", "padding", "imbalance", "smallest")] == [1, 1, 1, 1]


@pytest.mark.parametrize("shared", [True, False])
def test_random_coordinates_are_drawn_once_each(shared):
    method = build(Sparsifier, {"kind": "randomk", "density": 0.5, "shared_seed": shared})
    block = Block(np.ones((3, 100), np.float32), np.zeros(100, int), np.arange(100), np.ones(100), (100,))
    _, selection, _, _ = select(method, method.start(block), block)
    assert selection.selected.tolist() == [50, 50, 50]
    assert (selection.aggregated == 50) == shared


def test_energy_kept_by_top_k_is_above_its_lower_bound_and_random_k_is_at_its_own(trace):
    top = rows(trace, {"kind": "topk", "density": 0.05}, 4)
    random = rows(trace, {"kind": "randomk", "density": 0.05}, 4)
    assert all(row["energy_kept"] > row["top_k_bound"] > row["random_k_bound"] for row in top)
    assert mean(random, "energy_kept") == pytest.approx(mean(random, "random_k_bound"), rel=0.35)
    never = [row["never_sent"] for row in top[:16]]
    assert never == sorted(never, reverse=True)


def test_density_warms_up_as_scheduled(trace):
    """By the numbers of the recorded iterations, which begin with 5."""
    method = {"kind": "topk", "density": 0.02, "warmup": [0.9, 0.5, 0.1], "warmup_length": 3}
    selected = {row["iteration"]: row["selected"] for row in rows(trace, method, 2)}
    assert [selected[5], selected[6], selected[8], selected[9], selected[12]] == pytest.approx(
        [0.5, 0.1, 0.1, 0.02, 0.02], rel=0.1
    )


def written(folder, blocks, residuals=(), **fields):
    """A trace of these blocks, as they are numbered."""
    spec = TraceSpec(format=1, workers=len(blocks[0].values), iterations=(0,), **fields)
    layers = tuple(Layer(name=f"l{i}", numel=n) for i, n in enumerate(blocks[0].numels))
    with TraceWriter(folder, spec, layers, dtype="float32") as out:
        for block in blocks:
            out.append(block)
        for run, left in enumerate(residuals):
            out.residuals(run, left)
    return Trace.open(folder)


def drawn(numbers, d=400, workers=3):
    """Blocks of normal gradients; the values are those of the place in the recording, not of the number."""
    values = np.random.default_rng(5).standard_normal((len(numbers), workers, d)).astype(np.float32)
    piece = np.repeat([0, 1], [d // 4, d - d // 4])
    return [
        Block(each, piece, np.arange(d), np.ones(d), (d // 4, d - d // 4), number)
        for number, each in zip(numbers, values, strict=True)
    ]


@pytest.mark.parametrize("kind", ["topk", "micro", "exdyna", "dgc", "sage", "sidco", "oktopk"])
def test_state_lives_across_a_gap_of_the_recording_as_across_none(kind, tmp_path):
    """Thresholds, borders, momentum and residuals: a gap changes the numbers of the iterations and nothing else."""
    numbers = [3, 4, 5, 6, 40, 41, 42, 43]
    trace = written(tmp_path / "t", drawn(numbers))
    assert len(trace.spec.runs()) == 2
    method = build(Sparsifier, {"kind": kind, "density": 0.05})
    found = [step for (step,) in replay_trace(method, [Bucket(0, trace.numels, 0, (0, 1))], trace, 3)]
    assert [step.iteration for step in found] == numbers
    whole = list(replay(method, drawn(numbers)))
    assert [step.row() for step in found] == [step.row() for step in whole]
    assert found[4].residual != next(replay(method, drawn(numbers)[4:])).residual


def test_recorded_residuals_replace_the_residual_and_nothing_else(tmp_path):
    """At the start of a run; MiCRO's threshold goes on."""
    numbers, method = [0, 1, 7, 8], build(Sparsifier, {"kind": "micro", "density": 0.05})
    blocks = drawn(numbers)
    left = np.full_like(blocks[0].values, 0.5)
    trace = written(tmp_path / "t", blocks, [np.zeros_like(left), left])
    found = [step for (step,) in replay_trace(method, [Bucket(0, trace.numels, 0, (0, 1))], trace, 3)]
    thresholds = [step.selection.detail["threshold"] for step in found]
    assert all(0.99 < b / a < 1.01 and a != b for a, b in pairwise(thresholds))
    assert found[2].energy == pytest.approx(float(np.square(blocks[2].values.astype(float) + 0.5).sum()), rel=1e-6)


def test_a_layer_is_replayed_at_its_own_density(tmp_path):
    trace = written(tmp_path / "t", drawn([0, 1]))
    buckets = [Bucket(0, (100,), 0, (0,), density=0.2), Bucket(1, (300,), 0, (1,))]
    steps = next(replay_trace(build(Sparsifier, {"kind": "topk", "density": 0.01}), buckets, trace, 3))
    assert [step.selection.selected.tolist() for step in steps] == [[20] * 3, [3] * 3]


def test_run_uses_the_replay_and_reports_it_by_iteration():
    prediction = run(load("replay_topk"))
    series = prediction.document["density_over_iterations"]
    assert len(series) == 32
    replay = prediction.document["replay"]
    assert (replay["settled"], replay["from_iteration"], replay["iterations"]) == (False, 204, 16)
    expected = np.mean([row["aggregated"] for row in series[-16:]])
    assert prediction.document["density"]["aggregated"] == pytest.approx(expected, rel=1e-9)
    alone = run(load("replay_topk", ("cluster.nodes=1",)))
    assert alone.document["density_over_iterations"] == []
    assert "replay" not in alone.document


@pytest.fixture(scope="module")
def moving(tmp_path_factory):
    """Sixty iterations of a training on three workers, whose gradients do not change in size."""
    layers = [Layer(name=f"{i}.weight", numel=n, forward=1e-3, backward=1e-3) for i, n in enumerate((500, 1500))]
    folder = tmp_path_factory.mktemp("moving") / "t"
    with TraceWriter(folder, TraceSpec(format=1, workers=3, iterations=(0,), model="m", batch_size=8), layers) as out:
        for block in drawn(range(60), d=2000):
            out.append(block)
    return folder


def outcome(folder, settled, kind="exdyna"):
    changes = ("cluster.nodes=3", f"workload={{trace: {folder}, settled: {settled}}}")
    return run(load("replay_topk", (*changes, f"sparsifier={{kind: {kind}, density: 0.01}}")))


def test_the_settled_part_of_a_replay_is_priced_or_the_one_that_is_stated(moving):
    found = {settled: outcome(moving, settled).document for settled in ("auto", 0, 40)}
    for settled, document in found.items():
        replay, rows = document["replay"], document["density_over_iterations"]
        assert len(rows) == 60
        priced = [row["aggregated"] for row in rows if row["iteration"] >= replay["from_iteration"]]
        assert replay["iterations"] == len(priced)
        assert settled in ("auto", replay["from_iteration"])
        assert document["density"]["aggregated"] == pytest.approx(np.mean(priced), rel=1e-9)
    assert 5 <= found["auto"]["replay"]["from_iteration"] <= 30
    assert found[0]["density"]["aggregated"] != found["auto"]["density"]["aggregated"]
    with pytest.raises(InputError, match=r"expected `settled` of at most 59, the last recorded iteration, got 60"):
        outcome(moving, 60)


def test_a_method_that_has_not_settled_is_warned_of_with_its_size(moving):
    early = outcome(moving, 45)
    (text,) = [text for text in early.document["warnings"] if "has not settled" in text]
    assert "exdyna has not settled in the recorded iterations: 15 iterations are too few to tell" in text
    (size,) = [item for item in early.document["warning_sizes"] if "has not settled" in item["text"]]
    assert 0 < size["less_s"] < size["more_s"]
    (known,) = [item for item in early.inputs if item.what == "mean of the replay"]
    assert (known.level, known.in_range) == ("assumed", False)
    steady = outcome(moving, "auto", "topk")
    assert not any("has not settled" in text for text in steady.document["warnings"])
    (known,) = [item for item in steady.inputs if item.what == "mean of the replay"]
    assert known.level == "measured"
    assert 1 < known.width < 1.05


def test_more_workers_than_recorded_follow_the_law_fitted_to_the_trace(short_trace):
    recorded, more = (
        run(load("replay_topk", (f"cluster.nodes={nodes}", f"workload.trace={short_trace.folder}"))).document
        for nodes in (16, 64)
    )
    assert any("more workers than the trace has recorded" in text for text in (*more["warnings"], *more["notes"]))
    independent = union_density(more["density"]["selected"], 64)
    assert recorded["density"]["aggregated"] < more["density"]["aggregated"] < 0.99 * independent


def test_a_trace_is_replayed_once_for_all_networks_and_anew_when_it_was_replaced(short_trace, tmp_path, monkeypatch):
    folder, replayed, replays = tmp_path / "t", [], recorded_inputs.replay_methods
    shutil.copytree(short_trace.folder, folder)
    monkeypatch.setattr(recorded_inputs, "replay_methods", lambda *of: replayed.append(of) or replays(*of))

    def outcome(*overrides):
        document = run(load("replay_topk", ("cluster.nodes=4", f"workload.trace={folder}", *overrides))).document
        return document["density_over_iterations"], document["density"]

    first = outcome()
    first[0][0]["aggregated"] = -1.0  # what a user does to a result is not seen in the next
    again = outcome("cluster.network.bandwidth=10 Gbit/s")
    assert len(replayed) == 1
    assert again[0][0]["aggregated"] > 0
    assert (again[0][1:], again[1]) == (first[0][1:], first[1])
    assert outcome("sparsifier.density=0.02") != again
    assert len(replayed) == 2
    os.utime(folder / "gradients.parquet", ns=(1, 1))
    assert outcome() == again
    assert len(replayed) == 3


def test_a_stated_law_decides_the_union():
    laws = (), ("overlap_concentration=10",), ("overlap_mixture={spread: 1.0, core: 0.1}",)
    independent, *stated = (run(load("quickstart", law)).document["density"]["aggregated"] for law in laws)
    assert max(stated) < independent
    assert stated[0] != stated[1]


def test_replay_equals_the_closed_form_on_independent_data():
    draws, d, n = np.random.default_rng(3), 20_000, 8
    method = build(Sparsifier, {"kind": "topk", "density": 0.01})
    blocks = (
        Block(draws.standard_normal((n, d)).astype(np.float32), np.zeros(d, int), np.arange(d), np.ones(d), (d,), t)
        for t in range(20)
    )
    found = mean_selection([step.selection for step in replay(method, blocks, feedback=False)])
    closed = method.expect(Bucket(0, (d,), 0), n, float("inf"))
    assert found.selected == pytest.approx(closed.selected)
    assert found.aggregated == pytest.approx(closed.aggregated, rel=0.01)


@pytest.mark.parametrize("held", [1, 2**30])
def test_replays_together_are_those_alone_and_read_the_trace_once(small_trace, held, monkeypatch):
    """Several methods and groups of workers; where they do not fit into memory together, one after the other.

    Workers who select alone are replayed once for all groups; in those from the first worker on, with the same draws.
    """
    trace, read = Trace.open(small_trace), []
    monkeypatch.setattr(replay_module, "_HELD", held)
    blocks = Trace.blocks
    monkeypatch.setattr(Trace, "blocks", lambda self, *args, **how: read.append(args) or blocks(self, *args, **how))
    monkeypatch.setattr(replay_module, "check_resolution", lambda *_: None)
    bucket = Bucket(0, trace.numels, 0, tuple(range(len(trace.numels))))
    drawing = ("dgc", "sage", "randomk", "zen", "sidco")
    alone = ("topk", "gaussiank", "redsync", "threshold", "omnireduce")
    others = ({"kind": "topk", "exchange_by": "union_all_reduce"}, {"kind": "micro"})
    methods = [build(Sparsifier, {"density": 0.1, **of}) for of in (*({"kind": of} for of in drawing + alone), *others)]
    spans = [(0, 4), (0, 1), (2, 4)]
    asked = [(method, range(*of)) for method in methods for of in spans[: 2 if method.kind in drawing else 3]]
    watch, selected, select = Watch(), [], Sparsifier.select
    monkeypatch.setattr(Sparsifier, "select", lambda self, *args: selected.append(self.kind) or select(self, *args))
    made = list(replay_module.replay_methods(asked, [bucket], trace, watch))
    monkeypatch.setattr(Sparsifier, "select", select)
    assert [selected.count(kind) for kind in ("dgc", "topk", "micro")] == [2, 2 + 3 * 2, 3 * 2]  # two iterations
    assert len(read) == (1 if held > 1 else len(drawing) + len(alone) + len(others) * len(spans))
    assert (watch.done, watch.total) == (2 * len(read), 2 * len(read))
    for (method, workers), steps in zip(asked, made, strict=True):
        every = [replace(block, values=block.values[list(workers)]) for block in blocks(trace, 4)]
        assert [step.row() for (step,) in steps] == [step.row() for step in replay(method, every)]


@pytest.mark.parametrize("said", [True, False])
def test_build_up_says_which_methods_have_not_settled(said):
    figures = ("selected", "aggregated", "independent", "build_up", "padding", "energy_kept", "never_sent")
    row = dict.fromkeys(figures, 0.1) | {"method": "topk 0.01 layer", "workers": 8, "iteration": 3, "priced": True}
    reason = "a reason" if said else ""
    text = [part for part in build_up_blocks({"rows": [{**row, "unsettled": reason}]}) if isinstance(part, str)]
    assert text == (["topk 0.01 layer has not settled on 8 workers: a reason"] if said else [])


def test_build_up_of_a_short_trace_is_not_settled(small_trace):
    rows = build_up(small_trace, [{"kind": "topk", "density": 0.1}], [1, 2])
    assert {row["workers"] for row in rows} == {1, 2}
    assert all(row["unsettled"] for row in rows)


def test_build_up_of_more_workers_than_were_recorded_is_refused(small_trace):
    with pytest.raises(InputError, match="expected at most 4 workers, those recorded, got 8"):
        build_up(small_trace, ["dense"], [1, 8])


@pytest.mark.long
def test_build_up_prints_what_it_would_store(small_trace, tmp_path):
    command = ["trace", "build-up", str(small_trace), "--method", "{kind: topk, density: 0.1}", "--json"]
    plain = CliRunner().invoke(main, command, catch_exceptions=False)
    stored = CliRunner().invoke(main, [*command, "--out", str(tmp_path)], catch_exceptions=False)
    assert json.loads(plain.stdout)["rows"] == json.loads((tmp_path / "build_up.json").read_text())
    assert plain.stdout == stored.stdout
    assert {row["workers"] for row in json.loads(plain.stdout)["rows"]} == {1, 2, 4}


SERVERS = ("topology={kind: parameter_server}", "sparsifier={kind: gtopk, density: 0.01}")
ORDER = ("collective_order=[{worker: 0, buckets: [1, 0]}]",)


@pytest.mark.parametrize("changes", [("topology=double_binary_tree",), SERVERS, ORDER])
def test_parts_that_cannot_work_together_are_refused_before_the_replay(changes, monkeypatch):
    monkeypatch.setattr("simulator.prediction.recorded_inputs._recorded_inputs", lambda *_: pytest.fail("replayed"))
    with pytest.raises(InputError):
        run(load("replay_topk", changes))


def test_the_row_of_a_step_has_what_random_and_largest_elements_keep_at_least():
    """k/d, and (2kd - k^2)/d^2 of the k largest of a bell-shaped distribution (Shi et al. 2019)."""
    row = ReplayedStep(3, Selection(np.array([20.0, 40.0]), 50.0, 40.0, 60.0), 1.0, 0.1, 4.0, 25.0, 100.0).row()
    assert (row["selected"], row["random_k_bound"], row["top_k_bound"]) == pytest.approx((0.3, 0.3, 0.6 - 0.09))
    assert (row["imbalance"], row["smallest"], row["padding"]) == pytest.approx((4 / 3, 2 / 3, 4 / 3))
    assert (row["energy_kept"], row["residual_norm"], row["never_sent"]) == pytest.approx((0.9, 2.0, 0.25))
