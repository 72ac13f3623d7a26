"""MPI: what the libraries choose, that each algorithm delivers, and eager and rendezvous in closed form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from reference import walked

from examples import switch
from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.prices import price_steps
from simulator.engine.rounds.fold import fold
from simulator.engine.rounds.network import follow_flows
from simulator.fabrics.single_switch import SingleSwitch
from simulator.models.exchange import AllGather, AllReduce, Layout, Messages, Round, merge_tree
from simulator.topologies.mpi import EAGER_LIMIT, Mpi, with_rendezvous
from simulator.topologies.mpi_algorithms import ALGORITHMS, choose

ALPHA, B = 50e-6, 1.25e8
LIMIT = EAGER_LIMIT["open_mpi"]
KIB, MIB = 2.0**10, 2.0**20
COUNTS = [1, 2, 3, 4, 5, 8, 13, 16, 21]


def network(topology, workers):
    fabric = SingleSwitch(bandwidth=B, latency=ALPHA)
    return NetworkSetup(topology, fabric, fabric.wire(topology.layout(workers, 1)))


def seconds(topology, step, workers):
    return float(price_steps([step], [(0, 0)], network(topology, workers)).seconds[0])


@pytest.mark.parametrize(
    ("primitive", "nbytes", "workers", "name"),
    [
        ("all_reduce", 7, 2, "ring"),
        ("all_reduce", 2**16, 2, "segmented_ring"),
        ("all_reduce", 2**18 - 1, 2, "segmented_ring"),
        ("all_reduce", 2**18, 2, "rabenseifner"),
        ("all_reduce", 8191, 8, "recursive_doubling"),
        ("all_reduce", 8192, 8, "rabenseifner"),
        ("all_reduce", 1000, 2000, "reduce_broadcast"),
        ("all_reduce", 32768, 5000, "rabenseifner"),
        ("broadcast", 2**20, 4, "chain"),
        ("broadcast", 2**20, 8, "linear"),
        ("broadcast", 2**20, 16, "scatter_all_gather"),
        ("reduce", 2**18, 4, "linear"),
        ("reduce", 2**19, 4, "binomial"),
        ("reduce_scatter", 2**18, 8, "ring"),
        ("all_gather", 64 * 1024, 40, "neighbor"),  # of one worker: 1638 bytes
        ("all_gather", 40 * 65536, 40, "ring"),
        ("broadcast", 1024, 127, "knomial"),
        ("broadcast", 1024, 128, "binary"),
    ],
)
def test_open_mpi_decides_as_its_source_says(primitive, nbytes, workers, name):
    assert choose("open_mpi", primitive, np.array([float(nbytes)]), workers) == [name]


WORKERS_OF_OPEN_MPI = {
    "all_reduce": [4, 8, 16, 32, 64, 128, 256, 512, 2048, 4096],
    "broadcast": [4, 8, 16, 32, 64, 128, 256, 1024, 2048, 4096],
    "reduce": [4, 8, 16, 32, 256, 512, 2048, 4096],
    "reduce_scatter": [4, 8, 32, 64, 512, 4096],
    "all_gather": [32, 64, 128, 256, 512, 1024, 2048, 4096],
}
"""Numbers of workers from which on other rules hold: ompi/mca/coll/tuned/coll_tuned_decision_fixed.c, v4.1 (2020)."""


@pytest.mark.parametrize("primitive", sorted(WORKERS_OF_OPEN_MPI))
def test_other_rules_hold_from_the_numbers_of_workers_that_the_source_names(primitive):
    sizes = 2.0 ** np.arange(25)  # of one worker, by which a gather is decided
    limits = WORKERS_OF_OPEN_MPI[primitive]

    def decisions(workers):
        return choose("open_mpi", primitive, sizes * (workers if primitive == "all_gather" else 1), workers)

    for limit in limits:
        assert decisions(limit - 1) != decisions(limit)
    for first, last in zip([2, *limits], [limit - 1 for limit in limits], strict=False):
        assert decisions(first) == decisions(last)


@given(
    library=st.sampled_from(["open_mpi", "mpich"]),
    primitive=st.sampled_from([*ALGORITHMS]),
    workers=st.integers(1, 10_000),
    nbytes=st.lists(st.floats(0, 1e9), min_size=1, max_size=5),
)
def test_whatever_is_chosen_has_rounds(library, primitive, workers, nbytes):
    assert set(choose(library, primitive, np.array(nbytes), workers)) <= set(ALGORITHMS[primitive])


@pytest.mark.parametrize(("primitive", "name"), [(kind, name) for kind in ALGORITHMS for name in ALGORITHMS[kind]])
@pytest.mark.parametrize("workers", COUNTS)
def test_every_algorithm_delivers(primitive, name, workers):
    layout, size = Layout(workers, 1), 1e6
    payload = np.full((1, workers), size) if primitive == "all_gather" else np.array([size])
    rounds = ALGORITHMS[primitive][name](payload, layout)
    holds = walked(rounds, np.eye(workers, dtype=bool))
    came, left = np.zeros(workers), np.zeros(workers)
    for item in rounds:
        assert (item.src != item.dst).all()
        assert item.nbytes.shape == (1, len(item.src))
        np.add.at(came, item.dst, item.repeat * item.nbytes[0])
        np.add.at(left, item.src, item.repeat * item.nbytes[0])
    if primitive == "broadcast":
        assert holds[:, 0].all()
        assert (came[1:] >= size * (1 - 1e-9)).all()
    elif primitive == "reduce":
        assert holds[0].all()
        assert (left[1:] >= size * (workers - 1) / workers * (1 - 1e-9)).all()
    else:
        assert holds.all()
        least = {"all_reduce": size * (workers > 1), "reduce_scatter": size / workers * (workers > 1)}
        assert (came >= least.get(primitive, (workers - 1) * size) * (1 - 1e-9)).all()


@pytest.mark.parametrize(("nbytes", "start_ups"), [(1.0, 1), (LIMIT, 1), (LIMIT + 1, 3), (MIB, 3)])
def test_one_message_is_eager_up_to_the_limit(nbytes, start_ups):
    step = Messages("send", (nbytes,), lambda sizes, layout: [Round(np.array([0]), np.array([1]), sizes[:, None])])
    assert seconds(Mpi(), step, 2) == pytest.approx(start_ups * ALPHA + nbytes / B, rel=1e-12)
    other = Mpi(library="mpich")
    assert seconds(other, step, 2) == pytest.approx((1 if nbytes < MIB else 3) * ALPHA + nbytes / B, rel=1e-12)


@pytest.mark.parametrize("workers", [2, 4, 8, 32])
def test_two_way_exchanges_run_at_half_the_rate_after_the_first_step(workers):
    mpi = Mpi(algorithms={"all_reduce": "recursive_doubling"})
    levels = np.log2(workers)
    eager, large = seconds(mpi, AllReduce(LIMIT), workers), seconds(mpi, AllReduce(MIB), workers)
    assert eager == pytest.approx(levels * (ALPHA + LIMIT / B), rel=1e-9)
    assert large == pytest.approx(3 * ALPHA + MIB / B + (levels - 1) * (4 * ALPHA + 2 * MIB / B), rel=1e-9)
    at_once = mpi.model_copy(update={"answers_wait": False})
    assert seconds(at_once, AllReduce(MIB), workers) == pytest.approx(levels * (3 * ALPHA + MIB / B), rel=1e-9)


def test_rabenseifner_pays_twice_for_all_but_the_first_half():
    taken = seconds(Mpi(algorithms={"all_reduce": "rabenseifner"}), AllReduce(MIB), 4)
    later = sum(4 * ALPHA + 2 * part * MIB / B for part in (1 / 4, 1 / 4, 1 / 2))
    assert taken == pytest.approx(3 * ALPHA + MIB / 2 / B + later, rel=1e-9)


@pytest.mark.parametrize(("part", "queued"), [(MIB, 128 * KIB * (1 - 1 / 16)), (80 * KIB, 40 * KIB)])
def test_answers_on_a_ring_wait_for_the_queue_of_the_nic(part, queued):
    """On average for half of a message that fits into the queue."""
    p = 6
    taken = seconds(Mpi(algorithms={"all_reduce": "ring"}), AllReduce(p * part), p)
    first = 3 * ALPHA + part / B
    assert taken == pytest.approx(first + (2 * p - 3) * (first + ALPHA + queued / B), rel=1e-9)


@pytest.mark.parametrize("workers", [2, 3, 5, 8])
@pytest.mark.parametrize("primitive", ["all_reduce", "all_gather", "reduce_scatter"])
@pytest.mark.parametrize("nbytes", [1e3, 1e5, 1e7])
def test_fold_and_flows_agree(primitive, workers, nbytes):
    for name in ALGORITHMS[primitive]:
        mpi, wiring = Mpi(algorithms={primitive: name}), switch(workers, 1, B, ALPHA)
        payload = np.full((1, workers), nbytes / workers) if primitive == "all_gather" else np.array([nbytes])
        rounds = getattr(mpi, primitive)(payload, wiring.layout)
        ready = np.zeros(workers)
        ends = [end.tolist() for item in rounds for end in (item.src, item.dst)]
        if any(len(set(end)) < len(end) for end in ends):
            continue  # messages that share a link are followed as flows
        np.testing.assert_allclose(fold(rounds, wiring, ready), follow_flows(rounds, wiring, ready), rtol=1e-9)


@pytest.mark.parametrize("library", ["open_mpi", "mpich"])
@pytest.mark.parametrize("workers", [1, 2, 4, 6, 40])
def test_many_payloads_at_once_cost_what_each_costs_alone(library, workers):
    sizes = [float(size) for size in (1, 2000, 9000, 60_000, 65_473, 150_000, 300_000, 10**6, 10**7)]
    setup = network(Mpi(library=library), workers)
    for step in (AllReduce, AllGather):
        together = price_steps([step(size) for size in sizes], [(0, i) for i in range(len(sizes))], setup)
        alone = [price_steps([step(size)], [(0, 0)], setup) for size in sizes]
        np.testing.assert_allclose(together.seconds, [float(price.seconds[0]) for price in alone], rtol=1e-12)
        assert together.algorithms == sum((price.algorithms for price in alone[1:]), alone[0].algorithms)


def test_the_choice_is_named_in_the_result():
    assert price_steps([AllReduce(MIB)], [(0, 0)], network(Mpi(), 8)).algorithms == {("all_reduce", "rabenseifner"): 1}
    ring = network(Mpi(algorithms={"all_reduce": "ring"}), 8)
    assert price_steps([AllReduce(MIB)], [(0, 0)], ring).algorithms == {("all_reduce", "ring"): 1}


def test_messages_of_a_method_wait_for_answers_too():
    """gTop-k's tree: no two messages cross, so that each level costs two start-ups more."""
    step = Messages("merge", (MIB,), merge_tree)
    plain = seconds(Mpi(eager_limit=1e12), step, 8)
    assert plain == pytest.approx(6 * (ALPHA + MIB / B), rel=1e-9)
    assert seconds(Mpi(), step, 8) == pytest.approx(plain + 12 * ALPHA, rel=1e-9)


@given(nbytes=st.floats(1, 1e8), workers=st.sampled_from([2, 3, 8]))
def test_waiting_never_makes_anything_faster(nbytes, workers):
    for name in ALGORITHMS["all_reduce"]:
        mpi = Mpi(algorithms={"all_reduce": name})
        times = [
            seconds(mpi.model_copy(update=change), AllReduce(nbytes), workers)
            for change in ({"eager_limit": 1e12}, {"answers_wait": False}, {})
        ]
        assert times[0] <= times[1] * (1 + 1e-9)
        assert times[1] <= times[2] * (1 + 1e-9)


def test_requests_carry_no_bytes():
    round_ = Round(np.arange(4), np.roll(np.arange(4), -1), np.full((1, 4), MIB), 3)
    for queue in (None, 0.0, 128 * KIB, 1e12):
        rounds = with_rendezvous([round_], LIMIT, queue)
        assert sum(float(item.nbytes.sum()) for item in rounds) == pytest.approx(12 * MIB, rel=1e-12)


def test_an_unknown_algorithm_is_refused_with_the_known_ones():
    said = r"an algorithm for all_reduce: linear, .*got 'rabenseifer': did you mean"
    with pytest.raises(ValidationError, match=said):
        Mpi(algorithms={"all_reduce": "rabenseifer"})
    with pytest.raises(ValidationError):
        Mpi(algorithms={"all_to_all": "ring"})
