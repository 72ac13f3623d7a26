"""When workers have computed what, worker by worker and part by part; and what lets an exchange start."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from worked_scenarios import worked

from simulator.engine.clock.evaluate import evaluate
from simulator.engine.clock.graphs import graph_of
from simulator.engine.clock.numbers import Draws, foremost_are_enough, foremost_workers, number_tasks
from simulator.engine.clock.slowing import Credit, Host
from simulator.engine.clock.workers import goes_at_own_pace, has_too_many_pushes, number_starts, push_ready_times
from simulator.models.exchange import Layout
from simulator.models.graph import Queue
from simulator.prediction.run import plan_of
from simulator.records import replace
from simulator.scenario.scenario import Scenario


def plan_with(
    pace=((1.0,),), selection=((0.5, 2.0),), spread=((0.25, 1.0),), backward=(3.0, 5.0), scheduler="wfbp", **parts
):
    """Two buckets on four workers, with what the times of compute are made of: 7 s of input, and 11 s of forward."""
    layers = [(0.001, 11.0, backward[1]), (0.001, 0.0, backward[0])]
    runtime, workload = {"name": "own", **parts.pop("runtime", {})}, {"input_time": 7.0}
    made = {"bandwidth": 1e6, "nodes": 4, "runtime": runtime, "workload": workload, "scheduler": scheduler}
    plan = plan_of(Scenario.model_validate(worked(layers, **made, **parts)))
    assert len(plan.work.buckets) == 2
    differing = {"pace": pace, "selection": selection, "selection_spread": spread}
    arrays = {name: np.array(values, dtype=float) for name, values in differing.items()}
    return replace(plan, work=replace(plan.work, **arrays))


def drawn(*pairs):
    return Draws(*(np.array(column, dtype=float) for column in zip(*pairs, strict=True)))


def ends(plan, draws):
    """When each worker ends each part of the backward pass and each selection, (w, ...)."""
    graph = graph_of(plan)
    ran = evaluate(graph, number_tasks(graph, [(plan, draws)]))
    named = [place for place in graph.compute if graph.tasks[place].label in ("backward", "selection")]
    return np.array([np.broadcast_to(ran.end[place][0], ran.end[named[-1]].shape[1]) for place in named]).T


PACES = {
    "alike": [[1.0]],
    "of each worker": [[1.0], [2.0], [3.0], [0.5]],
    "of forward and each bucket": [[1.0, 2.0, 3.0]] * 4,
}
SCHEDULERS = {"wfbp": "wfbp", "at once": {"kind": "sequential", "bucket_size": "1 B"}, "gated": {"kind": "priority"}}


@pytest.mark.parametrize("pace", PACES.values(), ids=PACES)
@pytest.mark.parametrize("kind", SCHEDULERS)
def test_parts_of_compute_add_up_on_every_worker(pace, kind):
    """One after the other, by hand; a selection is never shorter than half of its time, however low the draw."""
    draws = drawn((1.0, 0.0), (1.5, 2.0), (2.0, -1.0), (0.5, -4.0))
    expected = []
    for worker, (compute, draw) in enumerate(zip(draws.compute.tolist(), draws.selection.tolist(), strict=True)):
        own = [float(value) for value in pace[worker % len(pace)]]
        forward, *each = own if len(own) == 3 else own * 3
        now, row = 0.0 if kind == "gated" else 7.0 + 11.0 * compute * forward, []
        parts = [3.0 * compute * each[0], 5.0 * compute * each[1]]
        chosen = [max(0.5 + draw * 0.25, 0.25), max(2.0 + draw, 1.0)]
        order = [*parts, *chosen] if kind == "at once" else [parts[0], chosen[0], parts[1], chosen[1]]
        for seconds in order:
            now += seconds
            row.append(now)
        expected.append(row)
    np.testing.assert_allclose(ends(plan_with(pace, scheduler=SCHEDULERS[kind]), draws), expected)


def test_selections_that_differ_make_a_row_for_each_worker():
    made = ends(plan_with(selection=[[1.0, 1.0], [2.0, 1.0]], spread=[[0.0, 0.0]] * 2), drawn((1.0, 0.0)))
    np.testing.assert_allclose(made, [[21, 22, 27, 28], [21, 23, 28, 29]])


@pytest.mark.parametrize(
    ("lowest", "workers", "parts", "enough"),
    [
        # At -1 selections of 0.5 and 2 s that vary by 0.25 and 1 s are at half of their times; below, they are cut.
        (-1.0, 3, {}, True),
        (-1.01, 3, {}, False),
        (-1.01, 3, {"spread": [[0.2, 0.9]]}, True),
        (-1.01, 3, {"spread": [[0.3, 0.9]]}, False),
        (-1.01, 3, {"spread": [[0.2, 1.0]]}, False),
        (-3.0, 3, {"selection": [[0.0, 0.0]], "spread": [[0.0, 0.0]]}, True),
        # Of two workers nobody is left out, and of unlike ones the draws do not say who is slower.
        (0.0, 2, {}, False),
        (0.0, 3, {"pace": [[1.0], [1.0], [1.0]]}, False),
        (0.0, 3, {"pace": [[1.0, 2.0, 3.0]]}, True),
        # All meet after the backward pass; where a forward pass follows, or compute is slowed, each counts.
        (0.0, 3, {"scheduler": "priority"}, False),
        (0.0, 3, {"runtime": {"compute_slowdown": 0.5}}, False),
    ],
)
def test_the_foremost_are_enough_where_times_are_linear_in_the_draws(lowest, workers, parts, enough):
    draws, plan = drawn((1.0, lowest), *[(1.0, 5.0)] * (workers - 1)), plan_with(**parts)
    assert foremost_are_enough(graph_of(plan), plan, draws) is enough


@example([(4, -2), (0, 1), (0, 2)], 1.0)
@example([(0, 2), (4, -2), (4, -1), (0, 2)], 1.0)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-2, 2)), min_size=1, max_size=12), st.sampled_from([0.5, 1.0]))
def test_the_foremost_are_those_that_nobody_exceeds_each_once(pairs, scale):
    """Worker by worker against all others; of equal ones one is enough."""
    draws = drawn(*pairs)
    found = foremost_workers(scale * draws.compute, scale * draws.selection)
    ahead = {
        (c, s) for c, s in pairs if not any(a >= c and b >= s and (a, b) != (c, s) for a, b in pairs)
    }  # fmt: skip
    assert sorted(pairs[worker] for worker in found.tolist()) == sorted(ahead)


def facts(*, pace=((1.0,),), selection=((0.5, 2.0),), order=(0, 1), sums=False, **more):
    """What is asked of a plan about pushes: two nodes of two workers, and a server."""
    queue, overlap = Queue(credit=more.pop("credit", None)), more.pop("overlap", True)
    topology = SimpleNamespace(concurrent=more.pop("concurrent", True), has=lambda name: sums)
    parts = {
        "work": SimpleNamespace(pace=np.array(pace), selection=np.array(selection), order=order),
        "setup": SimpleNamespace(scheduler=SimpleNamespace(queue=queue, overlap=overlap), topology=topology),
        "wiring": SimpleNamespace(layout=Layout(2, 2, servers=1), node=np.array([0, 0, 1, 1, 2])),
    }
    return SimpleNamespace(**parts | {"live": True, "period": None, "slowdown": 0.0} | more)


def test_gpus_that_sum_first_push_when_the_last_one_of_their_node_is_ready():
    """Four workers on two nodes, with two buckets."""
    computed = np.arange(20.0).reshape(4, 5)[:, 2:5:2] % 7
    alone = computed.tolist()
    assert push_ready_times(facts(), computed).tolist() == alone
    summing = facts(sums=True)
    nodes = [[max(alone[2 * node][b], alone[2 * node + 1][b]) for b in range(2)] for node in range(2)]
    assert push_ready_times(summing, computed).tolist() == [nodes[0], nodes[0], nodes[1], nodes[1]]
    wide = facts(sums=True, wiring=SimpleNamespace(layout=Layout(1, 4, servers=1), node=np.array([0, 0, 0, 0, 1])))
    assert push_ready_times(wide, computed).tolist() == [[max(column) for column in zip(*alone, strict=True)]] * 4


def test_workers_have_one_number_if_they_can_push_at_the_same_times_in_all_iterations():
    """The first two are alike in one iteration only, the last two in both; a server is like nobody."""
    first = drawn((1.0, 0.0), (1.0, 0.0), (2.0, 0.0), (2.0, 0.0))
    second = drawn((1.0, 0.0), (3.0, 0.0), (2.0, 0.0), (2.0, 0.0))
    plan = plan_with(topology={"kind": "parameter_server", "servers": 1, "local_aggregation": False})
    one, two = (number_starts(plan, graph_of(plan), draws).tolist() for draws in ([first], [first, second]))
    assert (one[0] == one[1], one[2] == one[3], len(set(one))) == (True, True, 3)
    assert (two[0] == two[1], two[2] == two[3], len(set(two))) == (False, True, 4)
    assert min(one[:4]) > one[4]
    assert min(two[:4]) > two[4]


@pytest.mark.parametrize(
    ("changes", "own"),
    [
        ({}, True),
        ({"live": False}, False),
        ({"concurrent": False}, False),
        ({"period": 1}, False),
        ({"credit": 1.0}, False),
        ({"credit": 0.0}, False),
        ({"slowdown": 0.5}, False),
        ({"slowdown": 0.5, "overlap": False}, True),
    ],
)
def test_workers_that_differ_push_at_their_own_pace_where_nothing_holds_them(changes, own):
    unlike, alike, made = [drawn((1.0, 0.0), (2.0, 0.0))], [drawn((1.0, 0.0))], facts(**changes)
    assert goes_at_own_pace(made, unlike) is own
    assert goes_at_own_pace(made, [*alike, *unlike]) is own
    assert not goes_at_own_pace(made, alike)
    for parts in ({"pace": [[1.0], [2.0]]}, {"selection": [[1.0, 1.0], [2.0, 1.0]]}):
        assert goes_at_own_pace(facts(**parts, **changes), alike) is own


def test_pushes_are_followed_up_to_2_28():
    """Workers squared times buckets: 8,192 workers with four buckets are just as many."""

    def asked(buckets, concurrent=True):
        wiring = SimpleNamespace(layout=Layout(2**13, 1))
        return has_too_many_pushes(facts(order=[*range(buckets)], concurrent=concurrent, wiring=wiring))

    assert (asked(4), asked(5), asked(5, concurrent=False)) == (False, True, False)


def test_what_takes_no_time_is_not_stretched_and_others_keep_their_proportions():
    """The first bucket is there at once and reduced for 3 ms, in which the slower one does two thirds of 3 ms."""
    halves = {"kind": "decoupled", "bucket_size": "1 B"}
    plan = plan_with(selection=[[0.0, 0.0]], spread=[[0.0, 0.0]], backward=(0.0, 1.0), scheduler=halves)
    plan = replace(plan, slowdown=0.5)
    made = ends(plan, drawn((1.0, 0.0), (2.0, 0.0)))
    assert made[:, :2].tolist() == [[0, 0], [0, 0]]
    np.testing.assert_allclose(made[:, 2], np.array([0.5, 1.0]) * (2 + 0.003 / 3), rtol=1e-12)


def host(points=1, cycle_time=0.0, launch=0.0):
    return Host(SimpleNamespace(points=[None] * points, cycle=cycle_time, launch=launch))


def test_an_exchange_waits_for_its_cycle_and_for_the_host():
    """Half a cycle of 2 s, and a host that needs 3 s for each launch in turn: 1 s, 2 s and 30.5 s are ready."""
    for runtime, starts in (
        ({}, [1, 2, 30.5]),
        ({"cycle_time": 2.0}, [2, 3, 31.5]),
        ({"launch": 3.0}, [4, 7, 33.5]),
        ({"cycle_time": 2.0, "launch": 3.0}, [5, 8, 34.5]),
    ):
        one, each = host(**runtime), host(**runtime)
        assert [one.start_of(ready) for ready in (1.0, 2.0, 30.5)] == starts
        # On two workers, of which the second is ready a whole cycle later, each host works by itself.
        made = [each.start_of(np.array([[ready, ready + 40.0]]))[0].tolist() for ready in (1.0, 2.0, 30.5)]
        assert [first for first, _ in made] == starts
        assert [second - 40 for _, second in made] == starts


def test_hosts_of_many_iterations_have_cycles_and_launches_of_their_own():
    both = host(2, np.array([[2.0], [3.0]]), np.array([[3.0], [0.5]]))
    made = [np.ravel(both.start_of(np.array([[ready], [ready]]))).tolist() for ready in (1.0, 2.0, 30.5)]
    assert made == [[5, 3], [8, 4], [34.5, 32.5]]


def test_credit_is_for_as_many_bytes_as_it_says_and_always_for_one_exchange():
    credit = Credit(Queue(credit=10.0))
    assert credit.allows(50.0)
    credit.take(6.0)
    assert (credit.allows(4.0), credit.allows(4.5)) == (True, False)
    credit.take(4.0)
    assert not credit.allows(1.0)
    credit.give_back(6.0)
    assert (credit.allows(6.0), credit.allows(6.5)) == (True, False)
    credit.give_back(4.0)
    assert credit.allows(50.0)
    assert credit.out == 0
    boundless = Credit(Queue())
    boundless.take(1e300)
    assert boundless.allows(1e300)
    nothing = Credit(Queue(credit=0.0))
    nothing.take(1.0)
    assert not nothing.allows(1.0)
