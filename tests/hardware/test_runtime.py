"""Runtimes over transports and behind NICs for which they were not fitted."""

from math import sqrt

import pytest

from simulator.hardware.runtime import FittedFor, Runtime, Way

TCP = {"endpoint_bandwidth": 7e8, "negotiation": 1e-4}
BEHIND = FittedFor(transport="tcp", carried=1.2e9)


@pytest.mark.parametrize("transport", ["tcp", None, "rdma", "mpi", "gloo"])
def test_an_endpoint_belongs_to_its_transport_and_other_costs_are_kept(transport):
    runtime = Runtime(name="r", fitted_for=FittedFor(transport="tcp"), **TCP)
    over, same = runtime.over(Way(transport, 12e9)), transport in {"tcp", None}
    assert over.endpoint_bandwidth == pytest.approx(7e8 if same else sqrt(7e8 * 12e9))
    assert over.negotiation == 1e-4
    assert (over is runtime) == same
    assert runtime.is_prior_over(transport) == (not same)
    assert runtime.width_over(Way(transport, 12e9), "endpoint_bandwidth") == pytest.approx(
        1 if same else sqrt(12 / 0.7)
    )
    assert runtime.width_over(Way(transport, 12e9), "negotiation") == (1 if same else 2)
    assert over.over(Way(transport, 12e9)) is over


def test_an_endpoint_that_was_fitted_behind_a_slow_nic_may_move_more_behind_a_fast_one():
    runtime = Runtime(fitted_for=BEHIND, **TCP)
    moved = [runtime.over(Way("tcp", rate)).endpoint_bandwidth for rate in (1e8, 1.2e9, 1.25e9, 3.2e9, 12e9)]
    assert moved[:3] == [7e8, 7e8, 7e8]
    assert moved[3:] == pytest.approx([sqrt(7e8 * 3.2e9), sqrt(7e8 * 12e9)])
    # Nine in ten lie between what was fitted and what the network carries.
    width = runtime.width_over(Way("tcp", 3.2e9), "endpoint_bandwidth")
    assert (moved[3] / width, moved[3] * width) == pytest.approx((7e8, 3.2e9))
    # A network that carries less than the endpoint limits it by itself.
    assert runtime.over(Way("rdma", 1e8)).endpoint_bandwidth == pytest.approx(7e8)


def test_a_runtime_that_says_nothing_is_the_same_over_all():
    runtime = Runtime(endpoint_bandwidth=7e8)
    assert all(runtime.over(Way(kind, 12e9)) is runtime for kind in ("tcp", "rdma", "mpi", "gloo"))


def test_servers_sum_values_of_16_bits_no_faster_than_those_of_32():
    runtime = Runtime(**TCP)
    assert runtime.summing(4) is runtime
    assert runtime.summing(2).endpoint_bandwidth == 3.5e8
    assert Runtime().summing(2).endpoint_bandwidth is None
