"""Selections beyond the recorded workers: each quantity by its law, continuous where the recording ends."""

import math

import numpy as np
import pytest
from long_examples import few_first

from simulator.component import build
from simulator.models.exchange import Bucket, Selection
from simulator.models.gradients import Block
from simulator.models.layers import Layer
from simulator.models.overlap import INDEPENDENT, ScaleMixture, union_density
from simulator.prediction.extrapolation import (
    Observed,
    extrapolate,
    first_quarter,
    fit_exponent,
    growth_of,
    largest_of_normal,
    replay_by_workers,
    selections_within,
)
from simulator.prediction.run import run
from simulator.records import replace
from simulator.scenario.reading import load
from simulator.sparsifiers.base import Sparsifier
from simulator.traces.format.trace import TraceSpec
from simulator.traces.format.writer import TraceWriter

BUCKET = Bucket(0, (1000,), 0, (0,))
TOPK = build(Sparsifier, {"kind": "topk", "density": 0.01})
GTOPK = build(Sparsifier, {"kind": "gtopk", "density": 0.01})
MICRO = build(Sparsifier, {"kind": "micro", "density": 0.01})
METHODS = ("topk", "gaussiank", "threshold", "dgc", "redsync", "cltk", "randomk", "micro", "exdyna", "deft", "oktopk")


def seen(workers, mean, union, largest=None, **more):
    one = Selection(np.full(workers, float(mean)), union, mean if largest is None else largest, 10.0, **more)
    return Observed(workers, (one,), union / 1000, 0.0, one.passes)


def law_of(law, rho=0.01, counts=(1, 2, 4, 8, 16)):
    return tuple(seen(n, 1000 * rho, 1000 * union_density(rho, n, law)) for n in counts)


@pytest.mark.parametrize("law", [INDEPENDENT, 20.0, ScaleMixture(0.8, 0.05)])
def test_unions_follow_their_law_and_meet_what_was_recorded(law):
    observed = law_of(law)
    for n in (16, 17, 64, 1024):
        (found,) = extrapolate(TOPK, observed, [BUCKET], law, n)
        assert found.aggregated == pytest.approx(1000 * union_density(0.01, n, law), rel=1e-9)
        assert (len(found.selected), found.largest, found.target) == (n, 10.0, 10.0)
    (anchored,) = extrapolate(TOPK, observed, [BUCKET], 5.0, 16)
    assert anchored.aggregated == pytest.approx(observed[-1].selections[0].aggregated, rel=1e-12)


def test_a_union_never_leaves_the_bucket_and_none_stays_none():
    full = tuple(seen(n, 1000.0, 1000.0) for n in (1, 2, 4))
    none = tuple(seen(n, 0.0, 0.0) for n in (1, 2, 4))
    assert extrapolate(TOPK, full, [BUCKET], 5.0, 64)[0].aggregated == 1000
    assert extrapolate(TOPK, none, [BUCKET], 5.0, 64)[0].aggregated == 0
    dense = tuple(seen(n, 600.0, min(1000.0, 600.0 + 100 * n)) for n in (1, 2, 4))
    assert extrapolate(TOPK, dense, [BUCKET], 5.0, 4096)[0].aggregated <= 1000


def test_the_largest_of_more_workers_is_further_from_the_mean():
    """Normal counts of mean 50 and deviation 4: at 64 workers the largest is where 64 draws put it."""
    draws = 50 + 4 * np.random.default_rng(0).standard_normal((4000, 64))
    at = {n: float(draws[:, :n].max(axis=1).mean()) for n in (1, 2, 4, 8, 16, 64)}
    observed = [seen(n, 50.0, 50.0 * n**0.9, at[n]) for n in (1, 2, 4, 8, 16)]
    (found,) = extrapolate(TOPK, observed, [BUCKET], INDEPENDENT, 64)
    assert found.largest == pytest.approx(at[64], rel=0.01)
    assert largest_of_normal(64) == pytest.approx((at[64] - 50) / 4, rel=0.05)


def test_workers_keep_their_differences():
    uneven = np.array([8.0, 12.0, 9.0, 11.0])
    one = Selection(uneven, 30.0, 12.0, 10.0)
    observed = [seen(1, 10.0, 10.0), seen(2, 10.0, 19.0), Observed(4, (one,), 0.03, 0.0, 1.0)]
    (same,) = extrapolate(TOPK, observed, [BUCKET], 20.0, 4)
    assert same.selected == pytest.approx(uneven)
    (more,) = extrapolate(TOPK, observed, [BUCKET], 20.0, 7)
    further = largest_of_normal(7) / largest_of_normal(4)
    apart = 1 + further * (np.resize(uneven, 7) / 10 - 1)
    assert more.selected == pytest.approx(apart * 70 / apart.sum()) and more.largest == pytest.approx(10 + 2 * further)
    fewer = [replace(item, selections=(replace(item.selections[0], largest=11.0),)) for item in observed[:2]]
    (low,), (high,) = selections_within([more], [same], [*fewer, observed[2]], [BUCKET], 28)
    for end, sign in ((low, -1), (high, 1)):  # seven times the workers of the largest that was seen
        assert math.log(end.largest / more.largest) == pytest.approx(sign * 0.05 * math.log(7) / math.log(4))
        assert (end.selected.mean() == pytest.approx(10) and end.selected.min() < more.selected.min()) or end is low


def test_a_union_that_is_cut_again_is_a_power_of_the_workers():
    """Of g Top-k, whose union no overlap law describes, up to the whole bucket; passes go on as the largest does."""
    observed = [seen(n, 10.0, 100.0 * n**0.5, passes=1.0 + n) for n in (1, 2, 4)]
    observed[-1] = replace(observed[-1], most_passes=50.0)
    for n, union in ((16, 400.0), (1000, 1000.0)):
        passes = 2 + (5 - 2) * largest_of_normal(n) / largest_of_normal(4)
        (found,) = extrapolate(GTOPK, observed, [BUCKET], INDEPENDENT, n)
        assert (found.aggregated, found.passes) == pytest.approx((union, passes))


def test_parts_of_their_own_shrink_and_are_padded_more():
    observed = []
    for n in (1, 2, 4, 8):
        padding = n**0.5
        one = Selection(
            np.full(n, 96 / n), 96.0, 96 / n * padding, 10.0, 1e3 / padding, detail={"threshold": 0.5 * n**-0.2}
        )
        observed.append(Observed(n, (one,), 0.096, 0.0, 1.0))
    (found,) = extrapolate(MICRO, observed, [BUCKET], INDEPENDENT, 32)
    assert found.aggregated == pytest.approx(96) and found.selected.sum() == pytest.approx(96)
    assert found.largest == pytest.approx(96 / 32 * 32**0.5) and found.scanned == pytest.approx(1000 / 32**0.5)
    assert found.detail["threshold"] == pytest.approx(0.5 * 32**-0.2)


def test_common_elements_stay_common():
    """sum k_i = K + (n - 1) C with C = 10 of K = 90."""
    observed = [seen(n, (90 + 10 * (n - 1)) / n, 90.0, scanned=1000 / n) for n in (1, 2, 4, 8)]
    (found,) = extrapolate(MICRO, observed, [BUCKET], INDEPENDENT, 16)
    assert found.selected.sum() == pytest.approx(90 + 15 * 10)


def test_exponents_that_are_noise_are_drawn_to_nothing():
    steady = fit_exponent({n: 5.0 * n**0.3 for n in (1, 2, 4, 8)})
    noisy = fit_exponent({2: 1.0, 4: 1.2, 8: 1.02})
    assert steady == pytest.approx(0.3)
    assert 0 < noisy < 0.3 * math.log(1.02) / math.log(4)
    assert fit_exponent({1: 0.0, 2: 1.0, 4: 2.0}) == 0
    assert [fit_exponent({2: 1.0, 4: 8.0}), fit_exponent({1: 9.0, 2: 1.0, 4: 2.0, 8: 4.0})] == pytest.approx([3, 1])


def test_the_width_grows_with_the_workers_and_is_what_fewer_workers_missed():
    observed = law_of(20.0)
    missed = extrapolate(TOPK, first_quarter(observed), [BUCKET], INDEPENDENT, 16)
    apart = math.log(missed[0].aggregated / observed[-1].selections[0].aggregated)
    assert apart > 0.1
    logs = []
    for n in (16, 32, 64):
        made = extrapolate(TOPK, observed, [BUCKET], 20.0, n)
        (low,), (high,) = selections_within(made, missed, observed, [BUCKET], n)
        assert (low.selected.mean(), low.largest, high.largest) == (10, 10, 10)  # no number of workers changes these
        logs.append([math.log(made[0].aggregated / low.aggregated), math.log(high.aggregated / made[0].aggregated)])
    assert logs[0] == [0, 0] and logs[1] == pytest.approx([apart / 2, apart / 2])
    assert logs[2] == pytest.approx([apart, apart])
    assert first_quarter(law_of(20.0, counts=(1, 2, 4))) == ()


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """Traces of 16 and of 17 workers, of whom the first 16 have the same gradients; coordinates differ in scale."""
    numels = (4000, 2000, 96)
    layers = [Layer(name=f"l{i}", numel=n, forward=1e-4, backward=2e-4) for i, n in enumerate(numels)]
    piece, rng = np.repeat([0, 1, 2], numels), np.random.default_rng(0)
    scale = np.exp(0.7 * rng.standard_normal(sum(numels))) * np.where(piece == 1, 3.0, 1.0)
    values = (rng.laplace(size=(6, 17, sum(numels))) * scale / 100).astype(np.float32)
    folders = {}
    for n in (16, 17):
        folders[n] = tmp_path_factory.mktemp("traces") / f"of{n}"
        with TraceWriter(folders[n], TraceSpec(format=1, workers=n, iterations=(0,), batch_size=1), layers) as out:
            for t, each in enumerate(values):
                out.append(Block(each[:n], piece, np.arange(len(piece)), np.ones(len(piece)), numels, t, ()))
    return folders


@pytest.fixture(scope="module")
def sixteen(traces):
    return traces[16]


@pytest.mark.parametrize("kind", few_first(METHODS, 4))
def test_one_worker_more_than_recorded_is_what_its_recording_gives(traces, kind):
    """Density, union and time of 17 workers, extrapolated from 16 and replayed: within 3 %; padding within 6 %."""

    def outcome(recorded):
        trace = f"workload.trace={traces[recorded]}"
        changes = ("cluster.nodes=17", trace, f"sparsifier={{kind: {kind}, density: 0.05}}")
        document = run(load("replay_topk", changes), intervals=False).document
        density = document["density"]
        return [*(density[key] for key in ("selected", "aggregated")), document["iteration_time_s"]], density["padding"]

    (made, padding), (replayed, true) = outcome(16), outcome(17)
    assert made == pytest.approx(replayed, rel=0.03)
    assert padding == pytest.approx(true, rel=0.06)


def test_what_was_extrapolated_is_said_and_sized(sixteen):
    changes = ("cluster.nodes=64", f"workload.trace={sixteen}")
    exclusive = run(load("replay_topk", (*changes, "sparsifier={kind: exdyna, density: 0.02}"))).document
    (row,) = (row for row in exclusive["warning_sizes"] if "more workers than the trace" in row["text"])
    assert "replays of 1, 2, 4, 8 and 16 workers" in row["text"] and row["less_s"] > 0 and row["more_s"] > 0
    assert exclusive["density"]["build_up"] == pytest.approx(1)
    even = run(load("replay_topk", (*changes, "sparsifier={kind: topk, density: 0.02}"))).document
    assert any("overlap law" in note and "changes by less than 0.1 %" in note for note in even["notes"])


def test_a_law_that_is_stated_decides_how_the_union_goes_on(sixteen):
    unions = {}
    for c in (1, 1000):
        changes = ("cluster.nodes=64", f"workload.trace={sixteen}", f"overlap_concentration={c}")
        unions[c] = run(load("replay_topk", changes), intervals=False).document["density"]["aggregated"]
    assert unions[1] < unions[1000]


@pytest.mark.parametrize("kind", ["dense", "qsgd", "powersgd", "onebit"])
@pytest.mark.parametrize("nodes", [16, 64])
def test_what_does_not_follow_gradients_needs_no_replay(sixteen, kind, nodes, monkeypatch):
    for name in ("replay_by_workers", "replay_methods"):
        monkeypatch.setattr(f"simulator.prediction.recorded_inputs.{name}", lambda *_: pytest.fail("replayed"))
    changes = (f"cluster.nodes={nodes}", f"workload.trace={sixteen}", f"sparsifier={{kind: {kind}}}")
    document = run(load("replay_topk", changes)).document
    assert not any("more workers" in text for text in (*document["warnings"], *document["notes"]))


def test_bits_that_follow_magnitudes_are_those_of_the_trace_on_more_workers_too(sixteen):
    """A ring gathers what the n - 1 others send."""
    sent = {}
    for nodes in (16, 64):
        changes = (f"cluster.nodes={nodes}", f"workload.trace={sixteen}", "sparsifier=inceptionn", "topology=ring")
        sent[nodes] = run(load("replay_topk", changes), intervals=False).result.traffic.sent_per_worker
    assert sent[64] == pytest.approx(sent[16] * 63 / 15, rel=0.01)


def test_all_workers_count_equally_at_every_number(sixteen):
    from simulator.traces.format.trace import Trace

    trace = Trace.open(sixteen)
    bucket = Bucket(0, trace.numels, 0, (0, 1, 2))
    observed, _ = replay_by_workers(TOPK, [bucket], trace)
    assert [item.workers for item in observed] == [1, 2, 4, 8, 16] and growth_of(TOPK, observed).selected == 0
    assert all(item.selections[0].selected.mean() == observed[0].selections[0].selected.mean() for item in observed)
    merged = build(Sparsifier, {"kind": "gtopk", "density": 0.02})
    assert not growth_of(merged, replay_by_workers(merged, [bucket], trace)[0]).grows
