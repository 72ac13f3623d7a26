"""Verdicts: yes, no or not decided; what a measurement is worth; and traps that a plain yes or no fell into."""

from statistics import NormalDist

import pytest

from simulator.hardware.runtime import Runtime
from simulator.models.widths import NORMAL_95
from simulator.prediction.doubts.doubt import Doubt, Measurement
from simulator.prediction.doubts.spread import Ratio, Response, compare_spreads
from simulator.prediction.doubts.verdict import value_of_information
from simulator.prediction.run import run, with_responses
from simulator.scenario.changes import with_value
from simulator.scenario.reading import load


def response(name, half, width=2.0, measured=True):
    measurement = Measurement(name, "sparsim record kernels --kernels", 1.0, name) if measured else None
    item = Doubt("kernel", name, "assumed", width, more=half, measurement=measurement)
    return Response(item.key, (item,), -half, half)


@pytest.mark.parametrize(
    ("log", "half", "word"),
    [(0.3, 0.2, "yes"), (-0.3, 0.2, "no"), (0.3, 0.4, "undecided"), (-0.1, 0.2, "undecided"), (0.005, 0.01, "alike")],
)
def test_a_question_is_decided_where_the_probability_is_95_per_cent(log, half, word):
    verdict = Ratio(log, (response("topk", half),))
    assert verdict.word == word
    assert verdict.probability() == pytest.approx(NormalDist().cdf(NORMAL_95 * log / half), abs=0.006)


def test_the_value_of_a_measurement_is_what_drawing_it_many_times_gives():
    """The closed form against a sum over the outcomes of the measurement, each of which is decided or not."""
    log, halves = 0.15, {"topk": 0.4, "scatter_add": 0.1}
    ratio = Ratio(log, tuple(response(name, half, width=1e9) for name, half in halves.items()))
    rows = {row.input: row for row in value_of_information(ratio)}
    rest = halves["scatter_add"] / NORMAL_95
    steps = 20_000
    decided = 0
    for place in range(steps):
        outcome = log + halves["topk"] / NORMAL_95 * NormalDist().inv_cdf((place + 0.5) / steps)
        decided += abs(outcome) >= NORMAL_95 * rest
    assert rows["topk"].decided == pytest.approx(decided / steps, abs=0.01)
    assert rows["topk"].share == pytest.approx(0.4**2 / (0.4**2 + 0.1**2), abs=0.01) and next(iter(rows)) == "topk"
    assert rows["topk"].command == "sparsim record kernels --kernels topk"


def test_what_nobody_can_measure_is_not_proposed():
    assert not value_of_information(Ratio(0.1, (response("model", 0.3, measured=False),)))
    assert not value_of_information(Ratio(0.0, ()))


def compared(name, baseline, overrides=()):
    return compare_spreads(*(with_responses(run(load(name, (*overrides, *more)))).spread for more in ((), baseline)))


BUCKETS = ("sparsifier=dense", "scheduler={kind: bucketed, bucket_size: 25 MiB}")


def without_curve(scenario, kernel):
    kernels = {name: curve for name, curve in scenario.cluster.gpu.kernels.items() if name != kernel}
    return with_value(scenario, "cluster.gpu.kernels", kernels)


def test_a_yes_against_unfused_all_reduces_is_none_against_buckets():
    """Top-k with the kernels of PyTorch 2, launched from C++ in 5 us."""
    newer = ("cluster.gpu=gpus/rtx2080ti-pytorch2", "cluster.runtime.kernel_launch=5 us")
    unfused, fair = compared("quickstart", ("sparsifier=dense",), newer), compared("quickstart", BUCKETS, newer)
    assert unfused.value > 1.1 > fair.value and fair.word != "yes"


BERT = ("cluster.gpu=gpus/a100", "workload=workloads/bert-base-v100", "workload.compute_time=100 ms")


def test_a_gpu_without_a_curve_of_topk_decides_nothing_that_hangs_on_it():
    """An A100 whose top-k nobody timed: the estimate alone said that Top-k pays."""
    made = [load("quickstart", (*BERT, "cluster.nodes=14", *more)) for more in ((), BUCKETS)]
    candidate, baseline = (with_responses(run(without_curve(item, "topk"))) for item in made)
    verdict = compare_spreads(candidate.spread, baseline.spread)
    assert verdict.value > 1.5 and verdict.word == "undecided"
    (kernels,) = [row for row in value_of_information(verdict) if "topk" in row.input]
    assert kernels.level == "assumed" and "record kernels --kernels" in kernels.command
    assert "topk" in kernels.command
    # As soon as it was timed and is as slow as the kernel of 2020, the answer is no.
    slow = with_value(made[0], "cluster.gpu.framework", "pytorch-before-1.11")
    assert compare_spreads(with_responses(run(without_curve(slow, "topk"))).spread, baseline.spread).word == "no"


def test_an_assumed_launch_time_that_turns_the_answer_leaves_it_open():
    """With launches of 1 us that were measured a method pays, with 40 us it does not; with none it is not decided."""
    model = ("workload=workloads/bert-base-v100", "workload.compute_time=250 ms")
    sets = ("cluster.gpu=gpus/v100-pytorch2", "cluster.nodes=14", *model)
    sides = [load("quickstart", sets), load("quickstart", (*sets, *BUCKETS))]
    gathers = {"name": "own", "framework": "pytorch-ddp", "gather_overhead": "1 us"}

    def judged(widths, **costs):
        own = Runtime.model_validate({**gathers, **costs, "widths": {"gather_overhead": 1.05, **widths}})
        made = (run(with_value(side, "cluster.runtime", own)) for side in sides)
        return compare_spreads(*(with_responses(each).spread for each in made))

    known = {"kernel_launch": 1.05}
    assert judged(known, kernel_launch="1 us").word == "yes" and judged(known, kernel_launch="40 us").word == "no"
    verdict = judged({})
    assert verdict.word == "undecided" and value_of_information(verdict)[0].input == "launch time of a kernel"
