"""Many scenarios in one evaluation: the same as each by itself, to the last bit; and folds that are refused."""

import itertools
import random

import pytest
from long_examples import few_first
from places import ROOT

from simulator.engine.plan.work import division
from simulator.errors import InputError
from simulator.loading.documents import read_document
from simulator.prediction.simulated import simulate_batch, simulate_scenario
from simulator.scenario.reading import load
from simulator.studies.sweep.points import GridPoints

NAMES = ("quickstart", "mixed_gpus", "oversubscription", "partitioned_topk", "priority_p3", "ring_check", "straggler")
AXES = {
    "cluster.network.bandwidth": ("2 Gbit/s", "10 Gbit/s", "80 Gbit/s"),
    "cluster.network.latency": ("1 us", "30 us", "2 ms"),
    "topology": ("ring", "halving_doubling", "nccl", "{kind: mpi, library: open_mpi}", "gloo"),
    "sparsifier": ("{kind: topk, density: 0.01}", "{kind: gtopk, density: 0.01}", "{kind: oktopk, density: 0.02}"),
    "cluster.gpus_per_node": ("1", "2"),
}


def figures(made):
    """Everything that was computed; of an error its text."""
    if isinstance(made, InputError):
        return str(made)
    prices, plan = made.plan.prices, made.plan
    counts = prices.folded, prices.flowed, prices.obstacles, prices.algorithms, prices.reasons
    curves = {name: inside for name, (_, inside) in prices.curves.items()}
    arrays = prices.seconds, prices.start_up, prices.traffic.sent, prices.traffic.links
    numbers = [*made.figures.seconds, *made.figures.rows, *(each.tolist() for each in arrays)]
    return numbers, counts, curves, plan.flowing, plan.slowdown


def seconds_of(made):
    """The seconds of each iteration; of an error its text."""
    return str(made) if isinstance(made, InputError) else list(made.figures.seconds)


def alone(scenario):
    try:
        return simulate_scenario(scenario)
    except InputError as error:
        return error


def varied(name, seed, count):
    """Scenarios of a name with some of the axes at some of their values, where they can be combined."""
    drawn, made = random.Random(f"{name} {seed}"), []
    keys = ["cluster.network.bandwidth", *drawn.sample([*AXES], 2)]
    while len(made) < count:
        changes = [f"{key}={drawn.choice(AXES[key])}" for key in keys]
        try:
            made.append(load(name, ("iterations=2", "warmup=0", *changes)))
        except InputError:
            count -= 1
    return made


@pytest.mark.parametrize("name", few_first(NAMES, 3))
def test_a_batch_is_each_scenario_by_itself(name):
    scenarios = [scenario for seed in range(2) for scenario in varied(name, seed, 4)]
    together = simulate_batch(scenarios)
    assert [figures(made) for made in together] == [figures(alone(item)) for item in scenarios]
    without_terms = simulate_batch(scenarios, terms=False)
    assert [seconds_of(made) for made in without_terms] == [seconds_of(made) for made in together]


@pytest.mark.parametrize("name", ["big", "break_even_map", "worker_sweep"])
def test_points_of_a_sweep_in_one_batch_are_each_by_itself(name):
    path = ROOT / "scenarios" / "sweeps" / f"{name}.yaml"
    points = GridPoints(read_document(path), path.parent, strict=True)
    scenarios = [points.scenario(number) for number in random.Random(0).sample([*points.grid.numbers()], 24)]
    assert [figures(made) for made in simulate_batch(scenarios)] == [figures(alone(item)) for item in scenarios]


def test_what_fails_in_a_batch_is_named_in_its_place():
    """A topology without the primitive, and a method that needs the whole model: neither stops the others."""
    good = load("quickstart")
    bad = [
        load("quickstart", ("topology=double_binary_tree", "sparsifier={kind: topk, density: 0.01}")),
        load("quickstart", ("sparsifier={kind: topk, density: 0.01, granularity: model}", "scheduler=wfbp")),
    ]
    made = simulate_batch([good, bad[0], good, bad[1], good])
    assert [isinstance(item, InputError) for item in made] == [False, True, False, True, False]
    assert [figures(made[place]) for place in (1, 3)] == [figures(alone(item)) for item in bad]
    assert figures(made[0]) == figures(made[2]) == figures(made[4]) == figures(simulate_scenario(good))


READERS = ("scheduler=mg_wfbp", "scheduler={kind: mg_wfbp, rule: greedy}", "scheduler=asc_wfbp", "scheduler=omgs")


@pytest.mark.parametrize("refused", [False, True])
def test_costs_that_schedulers_read_are_priced_once_and_are_those_of_each_by_itself(refused, monkeypatch):
    """Also where the exchanges of one cannot be priced."""
    topologies = "topology=ring", "topology=nccl", "topology=halving_doubling", "topology=parameter_server"
    rates = "cluster.network.bandwidth=1 Gbit/s", "cluster.network.bandwidth=25 Gbit/s"
    axes = itertools.product(READERS[:2] if refused else READERS, topologies, rates)
    own = "versus=null", "sparsifier=dense", "workload.trace=workloads/alexnet-v100"  # of few tensors
    scenarios = [load("quickstart", (*own, *changes)) for changes in axes]
    if refused:
        wrong = "sparsifier={kind: topk, density: 0.01}", "topology=double_binary_tree"
        scenarios.insert(3, load("quickstart", (*own, READERS[0], *wrong)))
    asked, price = [], division.price_costs
    monkeypatch.setattr(division, "price_costs", lambda setup: asked.append(setup) or price(setup))
    forget_divisions()
    together = [figures(made) for made in simulate_batch(scenarios)]
    # Schedulers with as many streams share costs; pushes and pulls on several are refused before anything is divided.
    divided = [each for each in scenarios if each.scheduler.streams == 1 or not each.topology.concurrent]
    networks = [(each.topology.kind, each.cluster.network.bandwidth) for each in divided]
    jobs = {(*it, each.sparsifier.kind, each.scheduler.streams) for it, each in zip(networks, divided, strict=True)}
    assert len(jobs) < len(divided) and len(asked) == len(jobs)
    for number, scenario in enumerate(scenarios):
        forget_divisions()
        assert figures(alone(scenario)) == together[number]
    assert isinstance(together[3], str) == refused


def forget_divisions():
    division._divisions.clear()
    division._priced.clear()


SERVERS = ("topology=parameter_server", "cluster.network.oversubscription=16")


def test_a_fold_that_overfills_a_link_is_refused():
    """Uplinks of leaves carry pushes of many workers, which the fold lets pass at the same time."""
    with pytest.raises(
        InputError, match=r"got `fold`, by which leaf \d to spine 0 would be \d{3,} % busy.*auto"
    ) as why:
        simulate_scenario(load("oversubscription", ("fidelity=fold", *SERVERS)))
    assert "fidelity" in str(why.value)
    assert isinstance(simulate_batch([load("oversubscription", ("fidelity=fold", *SERVERS))])[0], InputError)
    made = simulate_scenario(load("oversubscription", SERVERS))
    assert (made.plan.prices.traffic.links / made.plan.wiring.capacity).max() <= made.figures.times[0] * (1 + 1e-9)


def test_a_fold_that_is_exact_is_not_refused():
    asked, chosen = (simulate_scenario(load("quickstart", (f"fidelity={how}",))) for how in ("fold", "auto"))
    assert asked.figures.rows == chosen.figures.rows


@pytest.mark.parametrize(
    "change",
    [
        {}, {"cluster.stragglers.jitter": 0.1}, {"cluster.stragglers.slow": [{"worker": 1, "factor": 2.0}]},
        {"cluster.network.burst": 1e6}, {"cluster.gpu": "gpus/v100", "sparsifier": {"kind": "topk", "density": 0.01}},
    ],
)  # fmt: skip
def test_one_iteration_is_steady_where_all_workers_keep_to_their_mean(change):
    """No jitter, nobody slower, no links that remember, and no kernels that take a while longer now and then."""
    asked = {"cluster.gpu": "gpus/ideal", "sparsifier": "dense", "ignore_memory": True} | change
    assert simulate_scenario(load("quickstart", asked)).is_steady == (not change)
