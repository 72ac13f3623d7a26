"""What a measurement says: against closed forms, of the measured job, and of jobs that share its doubts or do not."""

import math

import pytest

from simulator.errors import InputError
from simulator.prediction.doubts.spread import Response, Spread, compare_spreads, widths_of
from simulator.prediction.run import run, run_batch, with_responses
from simulator.scenario.reading import load
from simulator.studies.compare.opponent import run_with_comparison
from simulator.studies.explain.explanation import explain
from simulator.units import show_time

INSIDE = {"bandwidth": 1.1e10, "latency": 1e-5}
NETWORK = {"kind": "single_switch", "bandwidth": 3e9, "latency": 3e-5, "intra_node": INSIDE}
CLUSTER = {"nodes": 4, "gpus_per_node": 4, "gpu": "gpus/v100-pytorch2", "network": NETWORK}
JOB = {
    "workload": {"trace": "workloads/bert-base-v100", "batch_size": 32},
    "cluster": {**CLUSTER, "runtime": "runtimes/pytorch-ddp"},
    **{"topology": "nccl", "sparsifier": "dense", "scheduler": "bucketed"},
}
TOPK = {"sparsifier": {"kind": "topk", "density": 0.01}}


@pytest.fixture(scope="module")
def before():
    """The job without a measurement."""
    return with_responses(run(load(JOB)))


def measured(seconds, **others):
    """The job with a measured iteration."""
    return JOB | {"measured": {"iteration_time": seconds, "source": "made here", **others}}


def half(prediction):
    """The logarithm of the upper end over the lower one, halved."""
    low, high = prediction.spread.interval()
    return math.log(high / low) / 2


@pytest.mark.parametrize("factor", [0.85, 1.0, 1.3])
def test_the_measured_job_is_predicted_as_measured(before, factor):
    seconds = factor * before.spread.time
    made = with_responses(run(load(measured(seconds))))
    assert made.spread.time == pytest.approx(seconds, rel=0.03)
    assert made.spread.interval()[0] <= seconds <= made.spread.interval()[1] and half(made) < 0.4 * half(before)
    assert sum(made.result.breakdown.values()) == pytest.approx(made.result.iteration_time)
    assert "predicted" in made.result.measured
    assert before.result.measured is None


def test_a_job_that_shares_doubts_moves_and_narrows_and_one_that_shares_none_does_not(before):
    source = measured(1.3 * before.spread.time)
    free, known = (with_responses(run(load(each, TOPK))) for each in (JOB, source))
    assert known.spread.time > 1.03 * free.spread.time and half(known) < half(free)
    other = {
        "workload": {"trace": "workloads/resnet50-v100", "batch_size": 32},
        "cluster.gpu": "gpus/a100",
        "cluster.network": "networks/10gbe-tcp",
        "cluster.runtime": "runtimes/horovod-v100-10gbe",
        "scheduler": "sequential",  # nothing slows compute down
    }
    free, known = (with_responses(run(load(each, other))) for each in (JOB, source))
    assert known.spread.time == pytest.approx(free.spread.time, rel=1e-9)
    assert known.spread.interval() == pytest.approx(free.spread.interval(), rel=1e-9)


def test_more_noise_says_less(before):
    exact, noisy = (with_responses(run(load(measured(1.3 * before.spread.time, noise=n)))) for n in (0.01, 0.3))
    assert before.spread.time < noisy.spread.time < exact.spread.time and half(exact) < half(noisy) < half(before)


def test_exposed_communication_tells_links_from_compute(before):
    """As much more time: once all of it exposed communication, once none."""
    time = before.spread.time
    exposed = before.result.breakdown["communication_exposed"]
    waits, computes = (
        run(load(measured(1.2 * time, exposed_communication=seconds))).result.breakdown
        for seconds in (exposed + 0.2 * time, exposed)
    )
    assert waits["communication_exposed"] > 1.15 * computes["communication_exposed"]
    assert computes["backward"] > 1.05 * waits["backward"]
    share = {"communication_exposed": (exposed + 0.2 * time) / (1.2 * time)}
    assert run(load(measured(1.2 * time, **share))).result.breakdown == pytest.approx(waits, rel=1e-6)
    hidden, none = (
        run(load(measured(time, **{name: 0}))).result.breakdown
        for name in ("exposed_communication", "communication_exposed")
    )
    assert hidden == none and hidden["communication_exposed"] < 0.9 * exposed


def test_what_was_measured_is_that_of_the_file_whatever_is_changed(before):
    """With overrides, with `at`, as a scenario that is changed, and from a result that is read again."""
    source = measured(1.3 * before.spread.time)
    changed = run(load(source, TOPK))
    there = source["measured"] | {"at": {"sparsifier": "dense"}}
    ways = load(JOB | TOPK | {"measured": there}), load(load(source), TOPK), load(load(source, TOPK).resolved())
    for made in run_batch(ways):
        assert made.spread.time == pytest.approx(changed.spread.time, rel=1e-9)
    assert changed.scenario.digest != load(JOB, TOPK).digest


def test_the_opponent_and_the_explanation_know_the_measurement(before):
    seconds = 1.3 * before.spread.time
    assert run_with_comparison(measured(seconds), TOPK).result.comparison.opponent_time > 1.2 * before.spread.time
    explained = explain(load(measured(seconds)))
    assert explained.iteration_time == pytest.approx(seconds, rel=0.03)
    assert sum(term.seconds for term in explained.terms) == pytest.approx(explained.iteration_time, rel=0.01)
    assert explained.measured


def test_a_measurement_that_cannot_be_is_refused_with_its_distance(before):
    with pytest.raises(InputError, match=r"measured\.iteration_time.*half-widths of its 90 % interval away"):
        run(load(measured(before.spread.time / 20)))
    alone = {"cluster.nodes": 1, "cluster.gpus_per_node": 1}
    one = load(JOB, alone).model_copy(update={"measured": load(measured(0.4, exposed_communication=0.1)).measured})
    assert run(one).spread.time < before.spread.time  # measured on 16, and carried to one
    with pytest.raises(InputError, match="one worker exchanges nothing"):
        run(load(measured(0.4, exposed_communication=0.1, at=alone)))
    with pytest.raises(InputError, match="at most the whole iteration"):
        run(load(measured(0.4, exposed_communication=0.5)))
    with pytest.raises(InputError, match="iteration_time"):
        load(JOB | {"measured": {"communication_exposed": 0.35, "source": "made here"}})
    with pytest.raises(InputError, match=r"measured\.iteration_time"):
        load(measured(0.0))


def test_what_a_fit_used_says_nothing_new(before):
    made = with_responses(run(load(measured(1.3 * before.spread.time, used_in_fit=True))))
    assert made.spread.time == before.spread.time and made.spread.interval() == before.spread.interval()


def test_two_doubts_and_one_measurement_in_closed_form():
    """Slopes h = (0.3, 0.4) and a noise n leave of the sum |h| n / hypot(|h|, n), and of one h sqrt(1 - g g)."""
    slopes, noise = (0.3, 0.4), 0.05
    norm = math.sqrt(0.5**2 + noise**2)
    names = zip("ab", slopes, strict=True)
    known = [Response((name, ""), (), -h, h, gains=((h / norm, h / norm),)) for name, h in names]
    _, high = Spread(1.0, tuple(known)).interval()
    assert math.log(high) == pytest.approx(0.5 * noise / norm)
    other = Spread(1.0, (known[0], known[1]._replace(low=0.0, high=0.0)))
    _, high = other.interval()
    assert math.log(high) == pytest.approx(0.3 * math.sqrt(1 - (0.3 / norm) ** 2))
    ratio = compare_spreads(other, Spread(1.0, tuple(known)))
    assert math.log(ratio.interval()[1]) == pytest.approx(0.4 * math.sqrt(1 - (0.4 / norm) ** 2))
    apart = compare_spreads(other, Spread(1.0, tuple(known), measurement="another"))
    assert widths_of(apart.responses)[1] == pytest.approx(math.hypot(math.log(high), 0.5 * noise / norm))


def test_of_the_measured_job_its_noise_is_left_also_where_effects_grow_as_figures_move():
    """The ends of doubts are followed from where the measurement moved them, in the gains as in the interval."""
    changes = ("measured.iteration_time=500 ms", "measured.source=a timer", "measured.noise=0.02")
    low, high = with_responses(run(load("quickstart", changes))).spread.interval()
    assert low < 0.5 < high and high / low < 1.02**4


def test_of_the_measured_job_its_noise_is_left_in_studies_as_in_a_run_and_by_more_measurements(before):
    """Doubts of some 40 % leave all of the noise, and of first order (`run`) and simulated (`with_responses`) alike;
    what was said of the exposed communication beside it adds nothing to that, although it begins at a kink."""
    seconds, exposed = 1.1 * before.spread.time, before.result.breakdown["communication_exposed"]
    for others in ({}, {"exposed_communication": exposed + 0.05 * seconds}):
        for noise in (0.03, 0.001):
            made = run(load(measured(seconds, noise=noise, **others)))
            assert [half(made), half(with_responses(made))] == pytest.approx([noise, noise], rel=0.1)


def test_two_measurements_are_met_where_exposed_communication_begins():
    """At 9.4 Gbit/s most of it is hidden, so that the slope of the first step is not that of the last."""
    network = NETWORK | {"bandwidth": 1.175e9}
    job = JOB | {"workload": {"trace": "workloads/resnet50-v100", "batch_size": 64}}
    job |= {"cluster": JOB["cluster"] | {"nodes": 8, "network": network}}
    timed = {"iteration_time": 0.31, "exposed_communication": 0.031, "noise": 0.001, "source": "made here"}
    made = run(load(job | {"measured": timed}))
    assert made.spread.time == pytest.approx(0.31, rel=0.001) and half(made) < 0.0011


def test_the_interval_before_a_measurement_is_that_of_the_job_without_it(before):
    made = run(load(measured(1.3 * before.spread.time)))
    for each, without in ((made, run(load(JOB))), (with_responses(made), before)):
        ends = " to ".join(map(show_time, without.spread.interval()))
        assert f"from {show_time(before.spread.time)} ({ends}) to" in each.result.measured


def test_a_measurement_that_nothing_explains_is_not_carried_to_other_jobs(before):
    seconds = before.spread.interval()[1] * 1.1
    other = measured(seconds, at={"cluster.nodes": 4}) | {"cluster": JOB["cluster"] | {"nodes": 8}}
    made, elsewhere = run(load(measured(seconds))), run(load(other))
    assert "may not be described" in made.result.measured and made.spread.time == pytest.approx(seconds, rel=0.05)
    assert elsewhere.result.measured.endswith("It is not carried over to this job")
    bare = {key: value for key, value in other.items() if key != "measured"}
    assert elsewhere.spread.time == run(load(bare)).spread.time
