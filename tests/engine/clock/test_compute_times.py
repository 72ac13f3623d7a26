"""When workers have computed what, worker by worker and part by part; and what lets an exchange start."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from simulator.engine.clock.compute_times import (
    computed_times,
    goes_at_own_pace,
    has_too_many_pushes,
    is_linear,
    push_ready_times,
    start_colours,
    stretch_factors,
)
from simulator.engine.clock.software import Credit, Software

from simulator.engine.clock.draws import Draws, foremost_workers
from simulator.models.exchange import Layout


def plan(pace=((1.0,),), selection=((0.5, 2.0),), spread=((0.25, 1.0),), backward=(3.0, 5.0), **more):
    """Two buckets, with what the times of compute are made of."""
    parts = {
        "pace": np.array(pace),
        "selection": np.array(selection),
        "selection_spread": np.array(spread),
        "work": SimpleNamespace(backward=np.array(backward), input_time=7.0, before_last=11.0),
        "scheduler": SimpleNamespace(gated=False, in_flight=None),
        "network": SimpleNamespace(topology=SimpleNamespace(sums_in_nodes=False)),
        "wiring": SimpleNamespace(layout=Layout(2, 2, servers=1), node=np.array([0, 0, 1, 1, 2])),
    }
    parts |= {"overlap": True, "live": True, "concurrent": True, "period": None, "slowdown": 0.0, "order": [0, 1]}
    return SimpleNamespace(**parts | more)


def drawn(*pairs):
    return Draws(*(np.array(column, dtype=float) for column in zip(*pairs, strict=True)))


PACES = {
    "alike": [[1.0]],
    "of each worker": [[1.0], [2.0], [3.0], [0.5]],
    "of forward and each bucket": [[1, 2, 3]] * 4,
}


@pytest.mark.parametrize("pace", PACES.values(), ids=PACES)
@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("gated", [True, False])
def test_parts_of_compute_add_up_on_every_worker(pace, overlap, gated):
    """One after the other, by hand; a selection is never shorter than half of its time, however low the draw."""
    draws = drawn((1.0, 0.0), (1.5, 2.0), (2.0, -1.0), (0.5, -4.0))
    made = plan(pace, overlap=overlap, scheduler=SimpleNamespace(gated=gated))
    expected = []
    for worker, (compute, draw) in enumerate(zip(draws.compute.tolist(), draws.selection.tolist(), strict=True)):
        own = [float(value) for value in pace[worker % len(pace)]]
        forward, *each = own if len(own) == 3 else own * 3
        row = [0.0 if gated else 7.0 + 11.0 * compute * forward]
        parts = [3.0 * compute * each[0], 5.0 * compute * each[1]]
        for bucket, (usual, spread) in enumerate(((0.5, 0.25), (2.0, 1.0))):
            row.append(row[-1] + (parts[bucket] if overlap else sum(parts) if bucket == 0 else 0.0))
            row.append(row[-1] + max(usual + draw * spread, usual / 2))
        expected.append(row)
    np.testing.assert_allclose(computed_times(made, draws), expected)


def test_selections_that_differ_make_a_row_for_each_worker():
    made = computed_times(plan(selection=[[1.0, 1.0], [2.0, 1.0]], spread=[[0.0, 0.0]] * 2), drawn((1.0, 0.0)))
    np.testing.assert_allclose(made, [[18, 21, 22, 27, 28], [18, 21, 23, 28, 29]])


@pytest.mark.parametrize(
    ("lowest", "workers", "parts", "linear"),
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
    ],
)
def test_times_are_linear_in_the_draws_unless_one_is_cut(lowest, workers, parts, linear):
    draws = drawn((1.0, lowest), *[(1.0, 5.0)] * (workers - 1))
    assert is_linear(plan(**parts), draws) is linear


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


def test_gpus_that_sum_first_push_when_the_last_one_of_their_node_is_ready():
    """Four workers on two nodes; selections end in the third and fifth column."""
    computed = np.arange(20.0).reshape(4, 5) % 7
    alone = [[row[2], row[4]] for row in computed.tolist()]
    assert push_ready_times(plan(), computed).tolist() == alone
    summing = plan(network=SimpleNamespace(topology=SimpleNamespace(sums_in_nodes=True)))
    nodes = [[max(alone[2 * node][b], alone[2 * node + 1][b]) for b in range(2)] for node in range(2)]
    assert push_ready_times(summing, computed).tolist() == [nodes[0], nodes[0], nodes[1], nodes[1]]
    wide = plan(
        network=summing.network, wiring=SimpleNamespace(layout=Layout(1, 4, servers=1), node=np.array([0, 0, 0, 0, 1]))
    )
    assert push_ready_times(wide, computed).tolist() == [[max(column) for column in zip(*alone, strict=True)]] * 4


def test_workers_have_one_number_if_they_can_push_at_the_same_times_in_all_iterations():
    """The first two are alike in one iteration only, the last two in both; a server is like nobody."""
    first = drawn((1.0, 0.0), (1.0, 0.0), (2.0, 0.0), (2.0, 0.0))
    second = drawn((1.0, 0.0), (3.0, 0.0), (2.0, 0.0), (2.0, 0.0))
    one, two = (start_colours(plan(), draws).tolist() for draws in ([first], [first, second]))
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
        ({"scheduler": SimpleNamespace(in_flight=1.0)}, False),
        ({"scheduler": SimpleNamespace(in_flight=0.0)}, False),
        ({"slowdown": 0.5}, False),
        ({"slowdown": 0.5, "overlap": False}, True),
    ],
)
def test_workers_that_differ_push_at_their_own_pace_where_nothing_holds_them(changes, own):
    unlike, alike = [drawn((1.0, 0.0), (2.0, 0.0))], [drawn((1.0, 0.0))]
    made = plan(**changes)
    assert goes_at_own_pace(made, unlike) is own
    assert goes_at_own_pace(made, [*alike, *unlike]) is own
    assert not goes_at_own_pace(made, alike)
    for parts in ({"pace": [[1.0], [2.0]]}, {"selection": [[1.0, 1.0], [2.0, 1.0]]}):
        assert goes_at_own_pace(plan(**parts, **changes), alike) is own


def test_pushes_are_followed_up_to_2_28():
    """Workers squared times buckets: 8,192 workers with four buckets are just as many."""

    def asked(buckets, concurrent=True):
        wiring = SimpleNamespace(layout=Layout(2**13, 1))
        return has_too_many_pushes(plan(order=[*range(buckets)], concurrent=concurrent, wiring=wiring))

    assert (asked(4), asked(5), asked(5, concurrent=False)) == (False, True, False)


def test_what_takes_no_time_is_not_stretched():
    assert stretch_factors(np.array([3.0, 0.0, 1.0]), np.array([2.0, 0.0, 4.0])).tolist() == [1.5, 1.0, 0.25]


def software(**runtime):
    return Software(SimpleNamespace(runtime=SimpleNamespace(**{"cycle_time": 0.0, "collective_launch": 0.0} | runtime)))


def test_an_exchange_waits_for_its_cycle_and_for_the_host():
    """Cycles of 2 s, and a host that needs 3 s for each launch, one after the other: 1 s, 2 s and 30 s are ready."""
    for runtime, starts in (
        ({}, [1, 2, 30.5]),
        ({"cycle_time": 2.0}, [2, 2, 32]),
        ({"collective_launch": 3.0}, [4, 7, 33.5]),
        ({"cycle_time": 2.0, "collective_launch": 3.0}, [5, 8, 35]),
    ):
        one, each = software(**runtime), software(**runtime)
        assert one.any is bool(runtime)
        assert [one.start_of(ready) for ready in (1.0, 2.0, 30.5)] == starts
        # On two workers, of which the second is ready a whole cycle later, each host works by itself.
        made = [each.starts_of(np.array([ready, ready + 40.0])).tolist() for ready in (1.0, 2.0, 30.5)]
        assert [first for first, _ in made] == starts
        assert [second - 40 for _, second in made] == starts
    # Three cycles of 0.1 s are 0.30000000000000004 s, which is not late for the third.
    assert software(cycle_time=0.1).start_of(3 * 0.1) == pytest.approx(0.3)
    assert software(cycle_time=0.1).starts_of(np.array([3 * 0.1])) == pytest.approx([0.3])


def test_credit_is_for_as_many_bytes_as_it_says_and_always_for_one_exchange():
    credit = Credit(SimpleNamespace(scheduler=SimpleNamespace(in_flight=10.0)))
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
    boundless = Credit(SimpleNamespace(scheduler=SimpleNamespace(in_flight=None)))
    boundless.take(1e300)
    assert boundless.allows(1e300)
    nothing = Credit(SimpleNamespace(scheduler=SimpleNamespace(in_flight=0.0)))
    nothing.take(1.0)
    assert not nothing.allows(1.0)
