"""Transports: the rate of a path by hand, what is refused, and the networks that name one."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from validation_rows import row_of

from simulator.component import build
from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.prices import price_steps
from simulator.fabrics.base import Fabric
from simulator.fabrics.single_switch import SingleSwitch
from simulator.fabrics.transport import PRIORS, Transport
from simulator.loading.documents import parse_document
from simulator.models.exchange import AllReduce, Layout
from simulator.topologies.ring import Ring

NIC = 1e9
rates = st.floats(1e6, 1e12)


@pytest.mark.parametrize(
    ("terms", "rate"),
    [
        ({}, NIC),
        ({"stream_bandwidth": 3e8}, 3e8),
        ({"stream_bandwidth": 3e8, "streams": 2}, 6e8),
        ({"stream_bandwidth": 3e8, "streams": 8}, NIC),
        ({"cpu_bandwidth": 5e8, "stream_bandwidth": 3e8, "streams": 8}, 5e8),
        ({"staging": 4e8}, 4e8),
        ({"staging": 4e9}, NIC),
        ({"staging": 1e9, "store_and_forward": True}, 5e8),  # a nanosecond per byte twice
        ({"crowding": [[8, 1], [32, 0.25]]}, NIC),
    ],
)
def test_the_least_of_what_lies_on_the_way(terms, rate):
    assert Transport(kind="tcp", **terms).rate(NIC, 4) == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize(("nodes", "share"), [(2, 1), (8, 1), (16, 0.5), (32, 0.25), (64, 0.25)])
def test_the_share_of_a_crowded_network_is_a_line_on_log_axes(nodes, share):
    crowded = Transport(kind="mpi", crowding=((8, 1.0), (32, 0.25)))
    assert crowded.rate(NIC, nodes) == pytest.approx(share * NIC, rel=1e-12)


@pytest.mark.parametrize(
    ("kind", "rate", "width"), [("tcp", 3.18e9, 2), ("rdma", 25e9, 1.5), ("mpi", 1.336e9, 2), ("gloo", 1.336e9, 2)]
)
def test_a_kind_that_nobody_measured_leaves_a_nic_what_its_prior_says(kind, rate, width):
    """MPI copies in 0.708 ns a byte after 0.04 ns on the wire."""
    prior = PRIORS[kind]
    assert (prior.rate(25e9, 2), prior.prior_width) == (pytest.approx(rate, rel=1e-3), width)


@given(nic=rates, stream=rates, staging=rates, streams=st.integers(1, 16), waits=st.booleans())
def test_nothing_makes_a_path_faster(nic, stream, staging, streams, waits):
    both = Transport(kind="tcp", streams=streams, stream_bandwidth=stream, staging=staging, store_and_forward=waits)
    least = min(nic, streams * stream, staging)
    assert least / 2 * (1 - 1e-12) <= both.rate(nic, 2) <= least * (1 + 1e-12)


def test_the_nic_s_links_carry_what_the_transport_leaves():
    fabric = SingleSwitch(bandwidth=NIC, transport=Transport(kind="tcp", staging=4e8))
    assert set(fabric.wire(Layout(2, 1)).capacity[:4]) == {4e8}
    assert (set(fabric.wire(Layout(2, 1), 3e8).capacity[:4]), fabric.transport_kind) == ({3e8}, "tcp")
    assert SingleSwitch(bandwidth=NIC).transport_kind is None


@pytest.mark.parametrize(("size", "share"), [(4e3, 0.25), (8e3, 0.25), (8.1e3, 0.8), (4e4, 0.8), (4.1e4, 1.0)])
def test_a_protocol_leaves_its_share_of_the_links_to_small_payloads(size, share):
    """Up to 2 kB and 10 kB per worker, of four: a ring takes 2 (p - 1) rounds of S/p at that share of the bandwidth."""
    small, middle = ({"up_to_per_worker": limit, "efficiency": part} for limit, part in ((2e3, 0.25), (1e4, 0.8)))
    protocols = [{"name": "middle", **middle}, {"name": "small", **small}]
    fabric = build(Fabric, {"kind": "single_switch", "bandwidth": NIC, "latency": 1e-6, "protocols": protocols})
    layout = Layout(4, 1)
    assert fabric.protocol_factor(np.array([size]), 4).tolist() == [1 / share]
    network = NetworkSetup(Ring(), fabric, fabric.wire(layout))
    prices = price_steps([AllReduce(size)], [(0, 0)], network)
    assert prices.seconds[0] == pytest.approx(6 * (1e-6 + size / 4 / (share * NIC)), rel=1e-9)
    assert prices.traffic.sent.tolist() == [6 * size / 4] * 4  # the payload's own bytes


def test_a_transport_without_limits_changes_no_bit():
    bare, named = SingleSwitch(bandwidth=1.1743e9), SingleSwitch(bandwidth=1.1743e9, transport={"kind": "tcp"})
    assert (bare.wire(Layout(8, 1)).capacity == named.wire(Layout(8, 1)).capacity).all()


@pytest.mark.parametrize("kind", PRIORS)
def test_a_kind_by_itself_stands_for_its_prior_which_has_a_width_and_a_source(kind):
    transport = SingleSwitch(bandwidth=NIC, transport=kind).transport
    assert (transport, transport.kind) == (PRIORS[kind], kind)
    assert transport.prior_width > 1
    assert transport.source


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("{kind: tcp, streams: 4}", "expected `stream_bandwidth` with `streams`, got `streams` alone"),
        ("{kind: mpi, crowding: [[16, 1], [8, 0.5]]}", "expected numbers of nodes that rise, got [16, 8]"),
        ("{kind: tpc}", "'tcp', 'rdma', 'mpi' or 'gloo'"),
        ("carrier pigeon", "'tcp', 'rdma', 'mpi' or 'gloo'"),
    ],
)
def test_a_wrong_transport_is_an_error(wrong, message):
    with pytest.raises(ValidationError) as caught:
        SingleSwitch(bandwidth=NIC, transport=parse_document(f"transport: {wrong}").data["transport"])
    assert message in str(caught.value)


@pytest.mark.parametrize(("rate", "carried"), [(1, 108.4e6), (10, 641.2e6), (25, 953.5e6)])
def test_mpi_through_the_host_is_wire_and_transport(rate, carried):
    """Seconds per byte of the wire and of the way through the host add up."""
    network = row_of("8xv100-grace", f"ResNet-50, dense, 8 V100 on {rate} GbE, MPI").cluster.network
    assert isinstance(network, Fabric)
    assert network.carried(2) == pytest.approx(carried, rel=5e-4)
    assert network.carried(2) == pytest.approx(1 / (1 / (rate * 1.1743e8) + 1 / 1.412e9), rel=1e-3)
    assert math.isclose(network.bandwidth, rate * 1.1743e8, rel_tol=1e-4)
