"""What links carry at every time, condition by condition; and orders of collectives that end or do not."""

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from examples import switch
from simulator.engine.plan.network_setup import BackgroundTraffic, Conditions, LinkCondition, RecordedLink
from simulator.engine.plan.work.work import common_order
from simulator.engine.rounds.disturbances import NO_DISTURBANCES, SteadyTraffic

B = 8.0
WIRING = switch(3, 2, B)
"""NICs of nodes 0 to 2, out and then in, are the links 0 to 5."""


def carried(conditions, link, time):
    """The share of a link's stated bandwidth at a time, as the slowed wiring and the changes up to then have it."""
    factor = 1.0
    for change in conditions.disturbances(WIRING).changes:
        if change.time <= time and link in change.links:
            factor = change.factor
    return factor * float(conditions.slowed(WIRING).capacity[link]) / B


def expected(windows, steps, name, time):
    """Every window that holds multiplies, and so does the last step that has begun; before the first, all is there."""
    share = 1.0
    for item in windows:
        if (name == item.link or name.startswith(item.link + " ")) and item.start <= time:
            share *= item.factor if item.until is None or time < item.until else 1.0
    for item in steps:
        if name == item.link or name.startswith(item.link + " "):
            begun = [number for number, each in enumerate(item.seconds) if each <= time]
            values = item.share or [min(rate / B, 1.0) for rate in item.rate]
            share *= values[begun[-1]] if begun else 1.0
    return share


def slow(link, factor, start=0.0, until=None):
    """A condition, also of a factor above 1, which nobody can write down."""
    return LinkCondition.model_construct(link=link, factor=factor, start=start, until=until)


def traffic(source, destination, bandwidth):
    """Background traffic between two nodes."""
    return BackgroundTraffic(source=source, destination=destination, bandwidth=bandwidth)


LINKS = st.sampled_from(["node 0", "node 1 NIC out", "node 0 NIC in"])
FACTORS = st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0])
WINDOWS = st.builds(
    lambda link, factor, start, length: slow(link, factor, float(start), length and start + length),
    LINKS, FACTORS, st.integers(0, 4), st.none() | st.integers(1, 4),
)  # fmt: skip
TIMES = st.lists(st.integers(-3, 6), min_size=1, max_size=4, unique=True).map(sorted)
STEPS = st.builds(
    lambda link, times, values, rates: RecordedLink.model_construct(  # times before an iteration are below 0
        link=link,
        seconds=tuple(map(float, times)),
        share=() if rates else tuple(values[: len(times)]),
        rate=tuple(B * each for each in values[: len(times)]) if rates else (),
    ),
    LINKS, TIMES, st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=4, max_size=4), st.booleans(),
)  # fmt: skip


@given(st.lists(WINDOWS, max_size=4), st.lists(STEPS, max_size=2))
def test_conditions_of_a_link_multiply_at_every_time(windows, steps):
    made = Conditions(links=(*windows, *steps))
    for link, name in enumerate(WIRING.names):
        for time in np.arange(0, 10, 0.5).tolist():
            assert carried(made, link, time) == expected(windows, steps, name, time), (name, time)
    changes = made.disturbances(WIRING).changes
    times = [(change.time, change.factor) for change in changes]
    assert times == sorted(set(times))
    assert changes or made.disturbances(WIRING) is NO_DISTURBANCES
    # What changes nothing is no change.
    for link in range(len(WIRING.names)):
        factors = [1.0, *(change.factor for change in changes if link in change.links)]
        assert all(before != after for before, after in pairwise(factors))


def test_a_link_that_is_slow_for_ever_is_a_slow_link_and_one_that_is_dead_a_change():
    always = Conditions(links=(slow("node 1", 0.5), slow("node 1 NIC in", 0.25)))
    assert (always.slowed(WIRING).capacity / B)[:6].tolist() == [1, 0.5, 1, 1, 0.125, 1]
    assert always.disturbances(WIRING) is NO_DISTURBANCES
    dead = Conditions(links=(slow("node 1 NIC in", 0.0),))
    assert (dead.slowed(WIRING).capacity == B).all()
    assert [(item.time, item.links, item.factor) for item in dead.disturbances(WIRING).changes] == [(0.0, (4,), 0.0)]
    assert Conditions().slowed(WIRING) is WIRING


def test_a_link_cannot_have_carried_more_than_it_can():
    """Up to a billionth more is a rounding, and counts as all of it."""
    recorded = {"link": "node 0 NIC in", "seconds": (1.0, 2.0)}
    most = Conditions((RecordedLink.model_construct(**recorded, rate=(B / 2, B * (1 + 5e-10))),))
    assert [item.factor for item in most.disturbances(WIRING).changes] == [0.5, 1.0]
    for rates in ((B / 2, B * (1 + 2e-9)), (2 * B, 0.0)):
        with pytest.raises(PydanticCustomError, match=r"at most .* on node 0 NIC in"):
            Conditions((RecordedLink.model_construct(**recorded, rate=rates),)).disturbances(WIRING)


def test_recorded_times_rise():
    for second in (1.0, 0.5):
        with pytest.raises(ValidationError, match=f"expected times that rise, got 1 s, then {second:g} s"):
            RecordedLink(link="node 0", seconds=(1.0, second), share=(1.0, 0.5))
    assert RecordedLink(link="node 0", seconds=(1.0, 1.5), share=(1.0, 0.5)).share == (1.0, 0.5)


def test_traffic_of_others_goes_from_the_first_place_of_one_node_to_that_of_another():
    made = Conditions(background=(traffic(0, 2, 3.0), traffic(1, 0, 4.0))).disturbances(WIRING)
    assert made.steady == (SteadyTraffic(0, 4, 3.0), SteadyTraffic(2, 0, 4.0))
    assert made.changes == ()
    with pytest.raises(PydanticCustomError, match="expected a node below 3, got 3: nodes count from 0"):
        Conditions(background=(traffic(0, 3, 3.0),)).disturbances(WIRING)


def test_links_are_named_in_full_or_up_to_a_space():
    for name in ("node", "node 0 NIC", "place 5 local in"):
        assert Conditions(links=(slow(name, 0.0),)).disturbances(WIRING).changes
    for name in ("nod", "node 0 NI", "NIC", "node 3"):
        with pytest.raises(PydanticCustomError, match="expected a link of this fabric"):
            Conditions(links=(slow(name, 0.5),)).slowed(WIRING)


def test_an_order_that_all_workers_share_is_followed():
    assert common_order({}, 3, 4) == [0, 1, 2, 3]
    assert common_order({0: [0, 1], 1: [0, 1]}, 2, 2) == [0, 1]
    assert common_order({0: [2, 0, 1], 1: [2, 0, 1]}, 2, 3) == [2, 0, 1]
    assert common_order({0: [1, 0]}, 1, 2) == [1, 0]


@pytest.mark.parametrize(
    ("orders", "workers", "said"),
    [
        ({1: [1, 0, 2]}, 3, "got workers 0, 2 at bucket 0 and worker 1 at bucket 1, each waiting for the other"),
        ({1: [0, 2, 1]}, 2, "got worker 0 at bucket 1 and worker 1 at bucket 2 after bucket 0, each waiting"),
        ({0: [1, 0, 2], 1: [1, 0, 2]}, 7, "got workers 2, 3, 4, 5, ... at bucket 0 and workers 0, 1 at bucket 1"),
        ({0: [1, 0, 2]}, 7, "got workers 1, 2, 3, 4, ... at bucket 0 and worker 0 at bucket 1"),
        ({0: [1, 0, 2]}, 5, "got workers 1, 2, 3, 4 at bucket 0 and worker 0 at bucket 1"),
        ({0: [0, 1]}, 1, "expected every bucket from 0 to 2 once, got [0, 1] of worker 0, without [2]"),
        ({0: [0, 1, 3]}, 1, "got [0, 1, 3] of worker 0, without [2]"),
        ({0: [0, 1, 1]}, 1, "expected every bucket from 0 to 2 once, got [0, 1, 1] of worker 0, without [2]"),
        ({0: [0, 1, 1, 2]}, 1, "expected every bucket from 0 to 2 once, got [0, 1, 1, 2] of worker 0"),
    ],
)
def test_workers_that_would_wait_for_each_other_for_ever_are_named(orders, workers, said):
    with pytest.raises(PydanticCustomError, match=re.escape(said)):
        common_order(orders, workers, 3)
