"""What advice prices is what `run` runs, and nothing that is recommended is slower than the scenario itself."""

import shlex
import sys
from itertools import product
from random import Random

import pytest
from long_examples import few_first
from places import ROOT
from small_advice import CARD, LAYERS, scenario

from simulator.prediction.run import run
from simulator.scenario.changes import with_value
from simulator.scenario.named_parts import read_gpu, read_runtime
from simulator.scenario.reading import load
from simulator.studies.advice.advice import advise
from simulator.studies.advice.candidates import Candidate, Grid, as_options, candidates, density_of

sys.path.insert(0, str(ROOT / "tests" / "invariants"))

import random_scenarios

METHODS = (
    {"kind": "dense"},
    {"kind": "topk", "density": 0.01},
    {"kind": "topk", "density": 0.001, "implementation": "good"},
    {"kind": "randomk", "density": 0.1, "implementation": "grace"},
    {"kind": "powersgd"},
)
SCHEDULES = (
    "wfbp",
    {"kind": "bucketed", "streams": 2},
    {"kind": "bucketed", "rule": "horovod", "cycle_time": 2e-3},
    {"kind": "diloco", "inner_steps": 50},
    {"kind": "local_sgd", "inner_steps": 4},
)
FRAMEWORKS = ("pytorch-ddp", "horovod-0.19", "grace-tensorflow1")
SHIPPED = "elastic fsdp_accumulation hsdp_llama3 oversubscription partitioned_topk quickstart slow_links straggler"
SHIPPED += " two_level_diloco mixed_gpus ring_check"


def drawn(number):
    """A small scenario, and a grid of a few of its candidates."""
    random = Random(number)
    method, schedule = METHODS[number % len(METHODS)], random.choice(SCHEDULES)
    streams = schedule["streams"] if isinstance(schedule, dict) and "streams" in schedule else 1
    spec = scenario(
        bandwidth=10 ** random.uniform(6.5, 9.5),
        sparsifier=method,
        scheduler=schedule,
        layers=LAYERS[: 3 if streams > 1 else 6],
        gpu=random.choice((CARD, read_gpu("gpus/v100-tensorflow1"))),
        cluster={"nodes": random.choice((2, 4)), "gpus_per_node": 1},
    )
    spec = with_value(spec, "cluster.runtime", read_runtime(f"runtimes/{random.choice(FRAMEWORKS)}"))
    whole = candidates(spec, density_of(spec) or 0.01)
    rounded = [item for item in whole.methods if item.precision]
    methods = (*whole.methods[:2], *rounded, *random.sample(whole.methods[2:], 4))
    schedulers = (None, *random.sample(whole.schedulers[1:], 3))
    return spec, Grid(tuple(dict.fromkeys(methods)), schedulers, (None, {"kind": "double_binary_tree"}))


def recommended(made):
    return next(row for row in made.ranking if row.overrides == made.recommended)


def rerun(source, made, overrides=()):
    """Every row with the time that `run` gives with its options, to the last digit; the recommended one is as fast."""
    for row in made.ranking:
        again = run(load(source, (*overrides, *shlex.split(as_options(row.overrides))[1::2])), intervals=False)
        assert again.result.iteration_time == row.iteration_time, (row.method, row.schedule, row.topology)
    chosen = recommended(made)
    assert made.yours is not None and chosen.iteration_time <= made.yours.iteration_time
    assert chosen is not made.yours or made.summary.do.startswith("Keep yours, ")


def any_kinds(number):
    """A random scenario over all kinds of all families that can be run; skips one worker."""
    spec = random_scenarios.that_runs(number)
    if spec.cluster.workers == 1:
        pytest.skip("one worker")
    return spec


@pytest.mark.parametrize("number", few_first(range(40), 2))
def test_every_ranked_row_runs_in_the_time_that_advice_says(number):
    spec, grid = drawn(number)
    rerun(spec.resolved(), advise(spec, grid=grid, processes=1, whole=False))


@pytest.mark.long
@pytest.mark.parametrize("number", few_first(range(40), 3, range(40, 480)))
def test_a_random_scenario_is_not_made_slower_and_the_command_takes_the_time_that_advice_says(number):
    """Over all families, meshes and local steps: 318 of these numbers are scenarios that can be run."""
    spec = any_kinds(number)
    rerun(spec.resolved(), advise(spec, processes=1, whole=False))


@pytest.mark.long
@pytest.mark.parametrize("number", few_first([1030, *range(1000, 1010)], 1, range(1010, 1055)))
def test_what_a_search_in_stages_recommends_is_no_slower_than_that_of_all_combinations(number):
    """On grids of some 200 combinations; 1030: the fastest topology of what is offered is not that of all schedules."""
    spec, random = any_kinds(number), Random(number)
    whole = candidates(spec, density_of(spec) or 0.01)
    dense = (item for item in whole.methods if item.sparsifier and item.sparsifier["kind"] == "dense")
    methods = tuple(dict.fromkeys((whole.methods[0], *dense, *random.sample(whole.methods[2:], 6))))
    sizes = (whole.schedulers, 5), (whole.topologies, 3)
    some = (random.sample(each[1:], min(most, len(each) - 1)) for each, most in sizes)
    grid = Grid(methods, *((None, *each) for each in some), (), whole.dense_only[:4])
    staged, all_of_them = (advise(spec, grid=grid, exhaustive=m, processes=1, whole=False) for m in (0, grid.points))
    times = [recommended(made).iteration_time for made in (staged, all_of_them)]
    assert times[0] <= times[1] * (1 + 1e-3)  # which may keep what is not told apart


@pytest.mark.long
@pytest.mark.parametrize("name", SHIPPED.split())
def test_every_ranked_row_of_a_shipped_scenario_runs_in_the_time_that_advice_says(name):
    rerun(name, advise(load(name), processes=1))


@pytest.mark.long
def test_a_trace_is_replayed_by_advice_as_by_run_or_its_method_is_left_out():
    """The sampled gradients cannot be replayed with RedSync: `run` refuses it, so that it is no advice."""
    made = advise(load("replay_topk"), processes=1, whole=False)
    rerun("replay_topk", made)
    assert "redsync" not in {row.sparsifier for row in made.ranking}
    assert any("cannot be replayed: " in note for note in made.notes)


@pytest.mark.parametrize(("own", "software"), [*product(("released", "good"), ("pytorch", "tensorflow-1"))])
def test_methods_are_carried_out_by_the_code_that_the_scenario_s_users_have(own, software):
    spec = scenario(sparsifier={"kind": "topk", "density": 0.01, "implementation": own})
    spec = with_value(spec, "cluster.gpu.framework", software)
    made = {kind: None for kind in ("randomk", "micro")}
    for candidate in candidates(spec, 0.01).methods:
        member = candidate.of(spec).sparsifier
        made[member.kind] = member.implementation
    assert made["randomk"] == ("grace" if (own == "released" and software == "tensorflow-1") else own)
    assert made["micro"] == own  # for TensorFlow there is none


def test_random_k_of_tensorflow_is_not_priced_by_a_kernel_that_tensorflow_does_not_have():
    """GRACE's code works through tensor by tensor, in dozens of operations: on this GPU it is slower than dense."""
    spec = scenario(bandwidth=1.25e9, sparsifier="dense", gpu=read_gpu("gpus/v100-tensorflow1"))
    randomk = next(item for item in candidates(spec, 0.01).methods if "randomk" in repr(item))
    times = [run(each.of(spec)).result.iteration_time for each in (Candidate(), randomk)]
    assert times[1] > times[0]


def test_local_steps_are_not_given_up_for_something_slower():
    """DiLoCo with 500 local steps hides nothing and needs no network: no exchange in every step is as fast."""
    spec = scenario(bandwidth=1.25e7, sparsifier="dense", scheduler={"kind": "diloco", "inner_steps": 500})
    grid = Grid((Candidate(), Candidate({"kind": "powersgd"})), (None, {"kind": "bucketed"}), (None,))
    made = advise(with_value(spec, "cluster.runtime", read_runtime("runtimes/pytorch-ddp")), grid=grid, processes=1)
    assert recommended(made).schedule.startswith("diloco")
    assert "with yours" in made.summary.gain or made.summary.do.startswith("Keep yours, ")
