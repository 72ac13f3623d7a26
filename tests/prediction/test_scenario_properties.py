"""What must hold for every combination of sparsifier, topology and scheduler, whatever the cluster."""

import json

import pytest
from drawn import durations
from hypothesis import given
from hypothesis import strategies as st

from examples import example, mapping
from simulator.component import discover
from simulator.errors import InputError
from simulator.models.small_cache import ResultsOfObjects
from simulator.prediction.run import plan_of, run
from simulator.scenario.reading import load
from simulator.scenario.scenario import Scenario
from simulator.schedulers.base import Scheduler
from simulator.sparsifiers.base import Sparsifier
from simulator.topologies.base import Topology

FAMILIES = {"sparsifier": Sparsifier, "topology": Topology, "scheduler": Scheduler}
CARD = {
    "name": "card",
    "memory_bandwidth": 5e11,
    "kernels": {"elementwise": {"curve": "affine", "intercept": 1e-5, "slope": 2e-11}},
}
BY_COSTS = {kind for kind, member in discover(Scheduler).items() if member.reads_costs}
BY_PRIORITY = {kind for kind in discover(Scheduler) if example(Scheduler, kind).queue.by_priority}
NOISY = {"curve": "n_log_n", "coefficient": 3e-10, "spread": 0.1}

layers = st.lists(
    st.builds(
        lambda numel, forward, backward: {"name": "tensor", "numel": numel, "forward": forward, "backward": backward},
        st.integers(1, 10**6),
        durations(0.01),
        durations(0.01),
    ),
    min_size=2,
    max_size=6,
)
COSTS = dict.fromkeys(("negotiation", "collective_launch", "gather_overhead"), durations(1e-3))
COSTS |= {"kernel_launch": durations(1e-4), "endpoint_bandwidth": st.floats(1e8, 1e10)}
software = st.fixed_dictionaries({}, optional=COSTS)


PRECISIONS = st.sampled_from(["fp32", "bf16", "fp16", {"travels": "fp16"}])
ONE_TO_SIX, ONE_TO_THREE = st.integers(1, 6), st.integers(1, 3)


@st.composite
def scenarios(draw, gpus=ONE_TO_THREE, nodes=ONE_TO_SIX):
    """A scenario as a mapping; combinations that can't work together are left out."""
    made = {
        "workload": {
            "batch_size": 8,
            "micro_batches": draw(st.sampled_from([1, 1, 2, 8])),
            "layers": draw(layers),
            "precision": draw(PRECISIONS),
        },
        "cluster": {
            "nodes": draw(nodes),
            "gpus_per_node": draw(gpus),
            "gpu": CARD,
            "runtime": draw(software),
            "network": {
                "kind": "single_switch",
                "bandwidth": draw(st.floats(1e7, 1e10)),
                "latency": draw(durations(1e-3)),
                "intra_node": {"bandwidth": draw(st.floats(1e8, 1e11)), "latency": draw(durations(1e-4))},
            },
        },
        "overlap_concentration": draw(st.sampled_from([None, 0.0, 30.0])),
    }
    for family, base in FAMILIES.items():
        made[family] = mapping(base, draw(st.sampled_from(list(discover(base)))))
    return made


def predicted(scenario):
    """The result document, or None where the parts refuse to work together."""
    spec = Scenario.model_validate(scenario)
    try:
        return run(spec).document
    except InputError:
        return None


def altered(scenario, **changes):
    """A copy with other parts of the cluster."""
    return {**scenario, "cluster": {**scenario["cluster"], **changes}}


def networked(scenario, bandwidth=1.0, latency=1.0):
    """A copy with all bandwidths and latencies scaled."""
    network = scenario["cluster"]["network"]
    scaled = {"bandwidth": network["bandwidth"] * bandwidth, "latency": network["latency"] * latency}
    intra = network["intra_node"]
    local = {"bandwidth": intra["bandwidth"] * bandwidth, "latency": intra["latency"] * latency}
    return altered(scenario, network={**network, **scaled, "intra_node": local})


@pytest.mark.parametrize(
    ("family", "kind"), [(name, kind) for name, base in FAMILIES.items() for kind in discover(base)]
)
def test_every_kind_is_accepted_somewhere(family, kind):
    (one, ones), (two, twos) = ((name, discover(base)) for name, base in FAMILIES.items() if name != family)
    network = {"kind": "single_switch", "bandwidth": 1e9}
    workload = {"batch_size": 1, "layers": [{"name": "a", "numel": 1000}, {"name": "b", "numel": 10}]}
    small = {"workload": workload, "cluster": {"nodes": 2, "gpu": CARD, "network": network}}
    choices = ({family: kind, one: first, two: second} for first in ones for second in twos)
    parts = ({name: mapping(FAMILIES[name], chosen) for name, chosen in choice.items()} for choice in choices)
    assert any(predicted(small | choice) is not None for choice in parts)


@given(scenario=scenarios(nodes=st.just(1), gpus=st.just(1)))
def test_one_worker_neither_selects_nor_communicates(scenario):
    result = predicted(scenario)
    if result is None:
        return
    assert result["communication_total_s"] == 0 and result["traffic"]["total_bytes"] == 0
    assert {result["breakdown_s"][term] for term in ("selection", "communication_exposed", "combine", "idle")} == {0}
    assert result["scaling_efficiency"] == pytest.approx(1)


@given(
    scenario=scenarios(),
    jitter=st.sampled_from([0.0, 0.1]),
    slowdown=st.sampled_from([0.0, 0.4]),
    cycle=st.sampled_from([0.0, 0.005]),
)
def test_the_breakdown_sums_to_the_iteration_and_covers_the_compute(scenario, jitter, slowdown, cycle):
    runtime = {**scenario["cluster"]["runtime"], "compute_slowdown": slowdown, "cycle_time": cycle}
    noisy = {**CARD, "kernels": {**CARD["kernels"], "topk": NOISY}}
    changed = altered(scenario, runtime=runtime, gpu=noisy, stragglers={"jitter": jitter})
    result = predicted({**changed, "iterations": 3, "warmup": 1})
    if result is None:
        return
    time, parts = result["iteration_time_s"], result["breakdown_s"]
    assert sum(parts.values()) == pytest.approx(time, rel=1e-9) and min(parts.values()) >= -1e-9 * time
    assert result["iteration_time_interval_s"][0] <= time <= result["iteration_time_interval_s"][1]
    if jitter == 0:
        compute = sum(layer["forward"] + layer["backward"] for layer in scenario["workload"]["layers"])
        assert time >= (compute + parts["update"]) * (1 - 1e-9)
        assert result["scaling_efficiency"] <= 1 + 1e-9


def chosen_algorithms(result):
    return [(item["primitive"], item["algorithm"], item["calls"]) for item in result["collectives"]]


@given(scenario=scenarios(), by=st.floats(1, 100))
def test_a_better_network_is_never_slower(scenario, by):
    """But by priority it can be, as nothing is interrupted: what ends sooner may let a less urgent bucket in before an
    urgent one is ready (Graham 1969, anomalies of list scheduling). Where buckets are merged by a rule of thumb, from
    costs, a better network may have worse buckets, and where a library chooses its algorithm by tables of its own, it
    may choose one that is worse on this network."""
    if scenario["scheduler"]["kind"] in (*BY_PRIORITY, *BY_COSTS):
        return
    result = predicted(scenario)
    if result is None:
        return
    time = result["iteration_time_s"] * (1 + 1e-9)
    for change in ({"bandwidth": by}, {"latency": 1 / by}):
        better = predicted(networked(scenario, **change))
        if chosen_algorithms(better) == chosen_algorithms(result):
            assert better["iteration_time_s"] <= time


@given(scenario=scenarios(gpus=st.just(1), nodes=st.integers(2, 6)), factor=st.floats(1, 5), data=st.data())
def test_it_does_not_matter_which_of_equal_workers_is_slow(scenario, factor, data):
    times = []
    for _ in range(2):
        worker = data.draw(st.integers(0, scenario["cluster"]["nodes"] - 1))
        result = predicted(altered(scenario, stragglers={"slow": [{"worker": worker, "factor": factor}]}))
        if result is None:
            return
        times.append(result["iteration_time_s"])
    assert times[0] == pytest.approx(times[1], rel=1e-12)
    assert times[0] >= predicted(scenario)["iteration_time_s"] * (1 - 1e-9)


@given(scenario=scenarios())
def test_flows_give_the_fold_s_answer_where_auto_folds(scenario):
    result = predicted(scenario)
    if result is None or result["fidelity"]["tier"] != "fold":
        return
    flowed = predicted({**scenario, "fidelity": "flows"})
    assert flowed["iteration_time_s"] == pytest.approx(result["iteration_time_s"], rel=1e-9)
    assert flowed["breakdown_s"] == pytest.approx(result["breakdown_s"], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("nodes", [7, 8, 9, 16])
def test_flows_of_a_library_s_trees_give_the_fold_s_answer(nodes):
    """Of 2^n and 2^n + 1 nodes some pair is used by both trees."""
    keys = ("cluster.gpus_per_node=2", "sparsifier=dense", "topology={kind: nccl, algorithm: tree}")
    folded, flowed = (
        run(load("ring_check", (f"cluster.nodes={nodes}", *keys, f"fidelity={fidelity}"))).document
        for fidelity in ("auto", "flows")
    )
    assert (folded["fidelity"]["tier"], flowed["fidelity"]["tier"]) == ("fold", "flows")
    assert flowed["iteration_time_s"] == pytest.approx(folded["iteration_time_s"], rel=1e-9)


@given(scenario=scenarios(), seed=st.integers(0, 2**63 - 1))
def test_the_same_seed_gives_the_same_document(scenario, seed):
    again = {**altered(scenario, stragglers={"jitter": 0.1}), "seed": seed, "iterations": 2}
    first, second = predicted(again), predicted(json.loads(json.dumps(again)))
    assert json.dumps(first) == json.dumps(second)
    rebuilt = Scenario.model_validate(Scenario.model_validate(again).resolved(), context={"units_required": True})
    assert rebuilt == Scenario.model_validate(again)
    assert first is None or first["digest"] == rebuilt.digest


def test_another_seed_gives_other_draws():
    scenario = load("quickstart", ("cluster.stragglers.jitter=0.1", "iterations=2"))
    assert len({run(scenario.model_copy(update={"seed": seed})).document["iteration_time_s"] for seed in (0, 1)}) == 2


def test_the_ring_check_is_the_textbook_time():
    p, nbytes, bandwidth, latency = 8, 1e8, 1.25e9, 50e-6
    expected = 2 * (p - 1) * (latency + nbytes / (p * bandwidth))
    assert expected == pytest.approx(0.1407)
    assert run(load("ring_check")).document["iteration_time_s"] == pytest.approx(expected, rel=1e-9)


def test_work_is_planned_once_for_all_networks_and_the_oldest_forgotten(monkeypatch):
    monkeypatch.setattr("simulator.engine.plan.work.work._works", ResultsOfObjects(2))

    def work(density, bandwidth=10):
        changes = (f"sparsifier.density={density}", f"cluster.network.bandwidth={bandwidth} Gbit/s")
        return plan_of(load("quickstart", changes)).work

    first, second = work(0.01), work(0.02)
    assert work(0.01, 20) is first and work(0.02, 20) is second is not first
    work(0.03)
    assert work(0.02) is second and work(0.01) is not first
