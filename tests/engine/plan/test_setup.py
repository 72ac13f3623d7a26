"""Where places of several jobs stand, counted by hand, and the network that each of them sees."""

from types import SimpleNamespace

import pytest

from simulator.engine.plan.network_setup import Conditions, LinkCondition
from simulator.engine.plan.setup import networks_of
from simulator.engine.rounds.disturbances import NO_DISTURBANCES
from simulator.fabrics.single_switch import SingleSwitch
from simulator.models.exchange import Layout
from simulator.topologies.parameter_server import ParameterServer
from simulator.topologies.ring import Ring
from simulator.topologies.tree import Tree

B = 1e9


def setup(layout, topology=None, conditions=None, *, streams=1, gpu=("", "card"), transport=None, hosts=(), **runtime):
    """What `networks_of` reads of a job."""
    return SimpleNamespace(
        layout=layout,
        hosts=hosts,
        nodes=layout.nodes,
        gpus_per_node=layout.gpus_per_node,
        topology=topology or Ring(),
        fabric=SingleSwitch.model_validate({"bandwidth": B, "latency": 0.0, "transport": transport}),
        conditions=conditions or Conditions(),
        runtime=SimpleNamespace(**{"endpoint_bandwidth": None, "server_bandwidth": None} | runtime),
        scheduler=SimpleNamespace(streams=streams),
        fidelity="fold",
        gpu=SimpleNamespace(device=gpu[0], name=gpu[1]),
    )


SLOW = Conditions(
    (LinkCondition(link="node 2 NIC out", factor=0.5), LinkCondition(link="node 0 NIC in", factor=0.5, start=1.0))
)


def seated():
    """Three nodes of two GPUs and a server of its own, with three more jobs.

    One on nodes 2 and 0 with two servers of its own, one of two GPUs with a server beside them on node 2, and one of a
    single GPU on node 1 with a server.
    """
    layouts = (
        (Layout(2, 1, servers=2), (2, 0)),
        (Layout(1, 2, servers=1, colocated=True), (2,)),
        (Layout(1, 1, servers=1), (1,)),
    )
    others = [setup(layout, Tree(), hosts=nodes) for layout, nodes in layouts]
    return networks_of([setup(Layout(3, 2, servers=1), conditions=SLOW), *others])


def alone(*parts, **others):
    """The network of a job by itself."""
    (network,) = networks_of([setup(*parts, **others)])
    return network


def test_each_job_stands_behind_those_before_it():
    """Servers of their own get the next free nodes: 3, then 4 and 5, then 6. GPUs of a node are numbered on."""
    network, *others = seated()
    assert network.wiring.node.tolist() == [0, 0, 1, 1, 2, 2, 3, 2, 0, 4, 5, 2, 2, 2, 1, 6]
    assert [other.seats.tolist() for other in others] == [[7, 8, 9, 10], [11, 12, 13], [14, 15]]
    # A place has links of its own inside its node, so that equal ranks on a node would be one link.
    wiring = network.wiring
    assert len({wiring.names.index(f"place {place} local out") for place in range(16)}) == 16
    assert sum(name.endswith("NIC out") for name in wiring.names) == 7


def test_other_jobs_see_the_same_nodes_with_their_own_exchange_and_nothing_that_changes():
    mine, *others = seated()
    for network, nodes in zip(others, ([2, 0, 4, 5], [2, 2, 2], [1, 6]), strict=True):
        assert network.wiring.node.tolist() == nodes == mine.wiring.node[network.seats].tolist()
        assert network.topology == Tree()
        assert network.disturbances is NO_DISTURBANCES
        assert (network.fidelity, network.healthy, network.device) == ("fold", False, "card")
    first = others[0].wiring
    assert first.capacity[first.names.index("node 2 NIC out")] == B / 2
    assert first.capacity[first.names.index("node 0 NIC out")] == B
    assert (mine.topology, mine.seats) == (Ring(), None)
    assert [item.factor for item in mine.disturbances.changes] == [0.5]


def test_links_are_shared_with_other_jobs_or_where_they_change():
    slow, changing = (Conditions(links=(link,)) for link in SLOW.links)
    made = [alone(Layout(3, 1), conditions=each) for each in (Conditions(), slow, changing)]
    assert [network.shared for network in made] == [False, False, True]
    assert [network.healthy for network in made] == [True, False, False]
    assert all(network.shared for network in networks_of([setup(Layout(3, 1)), setup(Layout(1, 1), hosts=(1,))]))


def test_the_device_is_what_the_gpu_says_it_is_or_its_name():
    for gpu, device in ((("a100", "card"), "a100"), (("", "card"), "card")):
        assert alone(Layout(2, 1), gpu=gpu).device == device


@pytest.mark.parametrize(("stated", "rate"), [(B / 4, B / 4), (4 * B, B), (None, B)])
def test_servers_on_machines_of_their_own_have_the_bandwidth_that_is_stated_up_to_that_of_their_nics(stated, rate):
    """Only the links by which servers send and receive, and none where they stand beside workers."""

    def nics(topology):
        wiring = alone(topology.layout(2, 1), topology, server_bandwidth=stated).wiring
        return {name: wiring.capacity[link] for link, name in enumerate(wiring.names)}

    for name, capacity in nics(ParameterServer(servers=2)).items():
        assert capacity == (rate if name.startswith(("node 2 NIC", "node 3 NIC")) else B), name
    assert set(nics(ParameterServer(servers=2, colocated=True)).values()) == {B}
    assert set(nics(Ring()).values()) == {B}


def test_endpoints_limit_the_nics_of_pushes_and_pulls_only():
    for topology, rate in ((ParameterServer(servers=1), B / 2), (Ring(), B)):
        wiring = alone(topology.layout(2, 1), topology, endpoint_bandwidth=B / 2).wiring
        assert {float(wiring.capacity[link]) for link in range(wiring.offset)} == {rate}


def test_streams_bring_connections_of_their_own_which_fill_a_nic_together():
    """A connection of 0.3 GB/s, of which two carry 0.6 GB/s, but never more than one exchange's for one message."""
    for streams, capacity, ceiling in ((1, 0.3 * B, None), (2, 0.6 * B, 0.3 * B), (4, B, 0.3 * B)):
        transport = {"kind": "tcp", "streams": 1, "stream_bandwidth": 0.3 * B}
        wiring = alone(Layout(2, 1), streams=streams, transport=transport).wiring
        assert wiring.capacity[: wiring.offset].tolist() == pytest.approx([capacity] * 4)
        if ceiling is None:
            assert wiring.ceiling is None
        else:
            assert wiring.ceiling[: wiring.offset].tolist() == pytest.approx([ceiling] * 4)
    plain = alone(Layout(2, 1), streams=2).wiring
    assert (plain.ceiling, set(plain.capacity.tolist())) == (None, {B})
