"""NCCL's channels over the hardware, its choices, and what collectives take: closed forms and measured figures."""

import numpy as np
import pytest
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from examples import example
from simulator.component import build
from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.prices import price_steps
from simulator.fabrics.base import Fabric
from simulator.hardware.machine import Machine, generation_of
from simulator.models.exchange import AllGather, AllReduce, Broadcast, Layout, ReduceScatter
from simulator.records import replace
from simulator.topologies.base import Topology
from simulator.topologies.nccl_channels import Channels, rings
from simulator.topologies.nccl_tuning import NcclTuning

DGX1 = [
    [0, 1, 1], [0, 2, 1], [0, 3, 2], [0, 4, 2], [1, 2, 2], [1, 3, 1], [1, 5, 2], [2, 3, 2],
    [2, 6, 1], [3, 7, 1], [4, 5, 1], [4, 6, 1], [4, 7, 2], [5, 6, 2], [5, 7, 1], [6, 7, 2],
]  # fmt: skip
"""Links of a DGX-1 with V100 (NVIDIA, DGX-1 with Tesla V100 System Architecture, 2017)."""
STEPS = {
    "all_reduce": lambda size, p: AllReduce(size),
    "all_gather": lambda size, p: AllGather(size / p),
    "reduce_scatter": lambda size, p: ReduceScatter(size),
    "broadcast": lambda size, p: Broadcast(size),
}


def fabric(kind="single_switch", bandwidth=24e9, latency=3e-6, **more):
    return build(Fabric, {"kind": kind, "bandwidth": bandwidth, "latency": latency, **more})


def cluster(nics=8, nic=24e9, inside=235e9, **more):
    return fabric(bandwidth=nic, nics_per_node=nics, intra_node={"bandwidth": inside, "latency": 3e-6}, **more)


def priced(on, nodes, gpus, sizes, primitive="all_reduce", *, device="A100", **options):
    layout = Layout(nodes, gpus)
    network = NetworkSetup(example(Topology, "nccl", **options), on, on.wire(layout), device=device)
    return price_steps([STEPS[primitive](size, layout.workers) for size in sizes], (), network)


def bus_bandwidth(on, nodes, gpus, size, primitive="all_reduce", **more):
    """Bytes per second in the unit of nccl-tests: those over one link of a ring."""
    p = nodes * gpus
    passes = 2 if primitive == "all_reduce" else 1
    return passes * (p - 1) / p * size / float(priced(on, nodes, gpus, [size], primitive, **more).seconds[0])


@pytest.mark.parametrize("nics", [1, 2, 4, 8])
def test_every_nic_carries_its_share_of_a_ring(nics):
    """One ring for each NIC: what leaves a node is spread evenly over all of them."""
    on, layout = cluster(nics), Layout(10, 8)
    found = priced(on, 10, 8, [2**34], algorithm="ring", protocol="Simple")
    wiring, loads = on.wire(layout), price_loads(on, layout)
    out = [number for number, name in enumerate(wiring.names) if "NIC" in name and name.endswith("out")]
    np.testing.assert_allclose(loads[out], 2 * 79 / 80 * 2**30 / nics, rtol=1e-9)
    rate = 2 * 79 / 80 * 2**34 / float(found.seconds[0])
    assert rate == pytest.approx(nics * 24e9, rel=0.01)  # the ports inside carry more


def price_loads(on, layout):
    network = NetworkSetup(example(Topology, "nccl", algorithm="ring", protocol="Simple"), on, on.wire(layout))
    return price_steps([AllReduce(2**30)], [(0, 0)], network).traffic.links


def test_sums_in_the_switch_send_one_payload_and_a_part():
    (item,) = Channels("nvls", Machine()).all_reduce(np.array([8e6]), Layout(1, 8))
    np.testing.assert_allclose(item.nbytes, 9e6)


@pytest.mark.parametrize("primitive", ["all_reduce", "all_gather", "reduce_scatter", "broadcast"])
def test_the_time_is_a_start_up_and_the_bytes_over_the_busiest_link(primitive):
    """On one GPU per node and a ring: bytes of all steps over the NIC's rate, whatever the start-up is."""
    on, p = fabric(), 6
    once, twice = priced(on, p, 1, [2**28, 2**29], primitive, algorithm="ring", protocol="Simple").seconds
    passes = {"all_reduce": 2 * (p - 1) / p, "broadcast": 1.0}.get(primitive, (p - 1) / p)
    assert twice - once == pytest.approx(passes * 2**28 / 24e9, rel=1e-9)


def test_flows_of_all_steps_at_once_take_as_long_as_the_busiest_link():
    on, layout = cluster(2), Layout(4, 4)
    for options in ({"algorithm": "ring"}, {"algorithm": "tree"}):
        network = NetworkSetup(example(Topology, "nccl", **options), on, on.wire(layout), device="A100")
        quick, slow = (price_steps([AllReduce(1e8)], (), replace(network, fidelity=how)) for how in ("auto", "flows"))
        assert quick.folded == slow.flowed == 1
        assert float(slow.seconds[0]) == pytest.approx(float(quick.seconds[0]), rel=0.1)
        assert slow.seconds[0] >= quick.seconds[0] * (1 - 1e-9)


# Measured figures, none of which these constants were fitted to.


@pytest.mark.parametrize(("gpus", "measured"), [(2, 22.6e9), (3, 45.1e9), (4, 85.4e9), (5, 37.2e9), (6, 45.7e9)])
def test_bus_bandwidth_on_the_mesh_of_a_dgx1(gpus, measured):
    """VIA-Research/vTrain, 2024, at 1 GiB. On 5 GPUs no ring closes: chains; a link carries 22.6 GB/s (2 GPUs)."""
    mesh = fabric("nvlink_mesh", 22.6e9, 4e-6, links=DGX1, host=5.4e9)
    assert bus_bandwidth(mesh, 1, gpus, 2**30, device="V100") == pytest.approx(measured, rel=0.06)


@pytest.mark.parametrize(
    ("primitive", "gpus", "measured"),
    [("all_reduce", 4, 367e9), ("all_reduce", 8, 482e9), ("all_gather", 4, 354e9), ("all_gather", 8, 364e9)],
)
def test_bus_bandwidth_of_h100_on_nvswitch(primitive, gpus, measured):
    """xxrjun/nccl-tests-cluster, 2026, at 16 GiB; the rate is NCCL's own: 18 links of 20.6 GB/s."""
    switch = fabric("nvswitch", 18 * 20.6e9, 3e-6)
    found = bus_bandwidth(switch, 1, gpus, 2**34, primitive, device="NVIDIA H100 80GB HBM3")
    assert found == pytest.approx(measured, rel=0.06)


@pytest.mark.parametrize(("primitive", "measured"), [("all_reduce", 97.6e9), ("all_gather", 97.7e9)])
def test_two_nics_in_a_node_carry_twice_what_one_does(primitive, measured):
    """xxrjun/nccl-tests-cluster, 2026, 10 nodes of 2 H100 at 16 GiB; with one GPU in each node 48.4 GB/s."""
    on = cluster(2, 48.4e9, 365e9)
    assert bus_bandwidth(on, 10, 2, 2**34, primitive, device="H100") == pytest.approx(measured, rel=0.03)


def test_eight_nics_of_two_nodes_of_h100():
    """lessizzmore/create-a3mega at 8 GiB: 338 GB/s with 8 NICs of 200 Gbit/s, as trees of two nodes send S once."""
    assert bus_bandwidth(cluster(8, 25e9, 365e9), 2, 8, 2**33, device="H100") == pytest.approx(338e9, rel=0.06)


# Choices.


def chosen(on, nodes, gpus, size, device="A100", *, primitive="all_reduce", **options):
    layout, payload = Layout(nodes, gpus), np.array([float(size)])
    choices = example(Topology, "nccl", **options).choices(primitive, payload, layout, on.machine(layout, device))
    (label,) = {choice.label for choice in choices if choice.mask.any()}
    return label


def test_trees_carry_small_payloads_of_many_nodes_and_rings_large_ones_of_few():
    on = cluster(8)
    assert chosen(on, 256, 8, 2**20) == "tree LL128"
    assert chosen(on, 256, 8, 2**13) == "tree LL"
    assert chosen(on, 2, 8, 2**30) == "ring Simple"
    assert chosen(on, 256, 8, 2**20, primitive="all_gather").startswith("ring")


def test_sums_in_the_switch_need_hopper_and_an_nvswitch():
    switch, mesh = fabric("nvswitch", 370e9), fabric("nvlink_mesh", 45e9)
    assert chosen(switch, 1, 8, 2**30, "H100") == "nvls Simple"
    assert chosen(switch, 1, 8, 2**30, "A100") == "ring Simple"
    assert "nvls" not in chosen(mesh, 1, 8, 2**30, "H100")
    assert "nvls" not in chosen(switch, 1, 8, 2**30, "H100", tuning=NcclTuning(nvls=False))
    assert chosen(switch, 1, 8, 2**30, "H100", tuning=NcclTuning(version="2.8")) == "ring Simple"
    assert chosen(cluster(8, 48e9, 365e9), 2, 8, 2**30, "H100") == "nvls_tree Simple"


def test_sharp_and_pat_where_they_are_asked_for_or_possible():
    assert chosen(cluster(8, 48e9, 365e9), 64, 8, 2**28, "H100", tuning=NcclTuning(sharp=True)) == "collnet Simple"
    assert chosen(fabric(), 64, 1, 2**16, "H100", primitive="all_gather") == "pat Simple"
    old = {"primitive": "all_gather", "tuning": NcclTuning(version="2.20")}
    assert "pat" not in chosen(fabric(), 64, 1, 2**16, "H100", **old)


def test_environment_variables_of_nccl_override_the_choice():
    on = cluster(8)
    assert chosen(on, 256, 8, 2**20, algorithm="ring").startswith("ring")
    assert chosen(on, 256, 8, 2**20, protocol="^LL128").split()[1] != "LL128"
    assert chosen(on, 256, 8, 2**20, algorithm="Ring,Tree", protocol="simple").endswith("Simple")
    no_tree = chosen(on, 4, 8, 2**20, primitive="all_gather", algorithm="tree")  # NCCL has none for a gather
    assert no_tree.startswith("ring")
    few, many = (priced(on, 2, 8, [2**20], protocol="LL128", max_channels=count).seconds[0] for count in (1, 16))
    assert few > many
    for wrong in ({"algorithm": "rings"}, {"protocol": "LL256"}):
        with pytest.raises(ValidationError, match="names out of"):
            example(Topology, "nccl", **wrong)


def test_the_choice_and_its_reason_stand_with_the_price():
    found = priced(cluster(8), 8, 8, [2**20, 2**32])
    assert {label for _, label in found.reasons} == {"tree LL128", "ring Simple"}
    assert all("NCCL's model expects" in reason for reason in found.reasons.values())
    assert set(priced(cluster(8), 8, 8, [2**20], algorithm="ring").reasons.values()) == {"asked for by algorithm: ring"}


@pytest.mark.parametrize(
    ("primitive", "asked"),
    [
        ("all_gather", {"algorithm": "tree"}),  # trees are for all-reduces,
        ("broadcast", {"algorithm": "^ring"}),  # and broadcasts go along rings only;
        ("all_reduce", {"algorithm": "nvls,collnet"}),  # between nodes it is NVLS tree, and these have no SHARP;
        ("all_reduce", {"algorithm": "nvls_tree", "protocol": "LL"}),  # sums in switches have Simple only
    ],
)
def test_what_nccl_does_not_have_is_not_said_to_be_asked_for(primitive, asked):
    words = " and ".join(f"{key}: {text}" for key, text in asked.items())
    (own,) = priced(cluster(8), 8, 8, [2**20], primitive=primitive).reasons.items()
    (made,) = priced(cluster(8), 8, 8, [2**20], primitive=primitive, **asked).reasons.items()
    name = primitive.replace("_", "-")
    assert made == (own[0], f"NCCL cannot carry {name} here with {words}, and chooses by itself: {own[1]}")


@pytest.mark.parametrize(
    ("device", "generation"),
    [
        ("NVIDIA A100-SXM4-40GB", "ampere"), ("NVIDIA H100 80GB HBM3", "hopper"), ("NVIDIA_H100_80GB_HBM3", "hopper"),
        ("Tesla V100-SXM2", "volta"), ("GeForce RTX 2080 Ti", "volta"), ("NVIDIA B200", "blackwell"),
        ("RTX 3080", "ampere"), ("NVIDIA L4", "ampere"), ("", "volta"),
        ("AMD Instinct MI355X", "cdna"), ("MI300X", "cdna"), ("AMD Instinct MI250X / MI250", "cdna"),
    ],
)  # fmt: skip
def test_generations_as_nccl_groups_them(device, generation):
    assert generation_of(device) == generation
    assert generation_of(device, 37e10) == (generation if device else "hopper")


@pytest.mark.parametrize("device", ["Intel Gaudi 3", "Google TPU v5p", "AWS Trainium2", "Ascend 910B"])
def test_accelerators_without_nccl_or_rccl_are_refused_by_name(device):
    with pytest.raises(PydanticCustomError) as refused:
        priced(cluster(8), 2, 8, [2**20], device=device)
    assert refused.value.message().startswith(f"expected a GPU of NVIDIA or AMD for topology nccl, got {device}")


MESH = [[a, b, 1] for a in range(8) for b in range(a + 1, 8)]


@pytest.mark.parametrize("device", ["AMD Instinct MI300X", "MI325X", "AMD Instinct MI355X"])
def test_gpus_of_amd_sum_in_no_switch(device):
    """RCCL has rings and trees; a tree by Simple only between nodes, and PAT for nobody who does not ask for it."""
    sizes = [2.0**power for power in range(10, 35, 2)]
    switched, direct = fabric("nvswitch", 448e9), fabric("nvlink_mesh", 64e9, links=MESH)
    for on, nodes, gpus in ((cluster(8, 50e9, 448e9), 2, 8), (switched, 1, 8), (direct, 1, 8), (fabric(), 8, 1)):
        for primitive in STEPS:
            labels = {name for _, name in priced(on, nodes, gpus, sizes, primitive, device=device).algorithms}
            assert {label.split()[0] for label in labels} <= {"ring", "tree"}
            assert nodes > 1 or "tree Simple" not in labels
    assert chosen(cluster(8, 50e9, 448e9), 2, 8, 2**34, device=device) == "ring Simple"
    assert chosen(cluster(8, 50e9, 448e9), 2, 8, 2**34, device="H100").startswith("nvls")


def test_rings_between_nodes_use_every_link_of_a_full_mesh_once():
    """Eight rings of seven steps inside a node over 56 links in each direction: none is used by two of them."""
    on = fabric(bandwidth=50e9, nics_per_node=8, intra_node={"bandwidth": 64e9, "latency": 3e-6, "mesh": MESH})
    layout = Layout(2, 8)
    edges = rings(on.machine(layout, "MI300X"), layout)
    inside = edges.src // 8 == edges.dst // 8
    assert inside.sum() == 2 * 56
    np.testing.assert_allclose(edges.share[inside], 1 / 8)
    for ends in (edges.src, edges.dst):  # every NIC is entered and left by one ring
        assert sorted(ends[~inside].tolist()) == list(range(16))
    assert bus_bandwidth(on, 2, 8, 2**34, device="MI300X") == pytest.approx(8 * 50e9, rel=0.01)
    alone = bus_bandwidth(fabric("nvlink_mesh", 64e9, links=MESH), 1, 8, 2**34, device="MI300X")
    assert alone == pytest.approx(7 * 64e9, rel=0.01)


@pytest.mark.parametrize("nics", [1, 2, 4, 8])
def test_rings_through_fewer_nics_than_gpus_share_them_evenly_over_a_full_mesh(nics):
    on = fabric(bandwidth=10e9, nics_per_node=nics, intra_node={"bandwidth": 64e9, "mesh": MESH})
    assert bus_bandwidth(on, 4, 8, 2**34, device="MI300X") == pytest.approx(nics * 10e9, rel=0.01)


@pytest.mark.parametrize(
    ("links", "generation"),
    [(720e9, "blackwell"), (370e9, "hopper"), (240e9, "ampere"), (130e9, "volta"), (0, "volta")],
)
def test_a_gpu_without_a_name_is_known_by_its_nvlinks(links, generation):
    assert generation_of("ideal", links) == generation
    if links:
        assert fabric("nvswitch", links).machine(Layout(1, 8), "ideal").generation == generation
        assert cluster(8, 24e9, links).machine(Layout(2, 8), "ideal").generation == generation


# What was measured of NCCL on a network.


def test_the_measured_time_of_a_step_counts_for_every_node_that_a_chunk_passes():
    """Ring over 4 nodes of one GPU: 6 steps of an all-reduce, each with its overhead by the bytes of the step."""
    on = fabric(nccl={"step_overhead": [[1e3, "10 us"], [1e6, "40 us"]]}, collective_start_up="1 ns")
    small, large = priced(on, 4, 1, [4e3, 4e6], algorithm="ring", protocol="Simple").seconds
    assert small == pytest.approx(6 * (10e-6 + 1e3 / 24e9) + 1e-9, rel=1e-6)
    assert large == pytest.approx(6 * (40e-6 + 1e6 / 24e9) + 1e-9, rel=1e-6)


def test_more_latency_than_when_the_steps_were_measured_is_added_to_them():
    terms = {"step_overhead": [[1e3, "10 us"], [1e6, "10 us"]], "latency": "3 us"}
    then, now = (
        float(priced(fabric(latency=latency, nccl=terms), 4, 1, [4e6], algorithm="ring").seconds[0])
        for latency in (3e-6, 13e-6)
    )
    assert now - then == pytest.approx(6 * 10e-6)


@pytest.mark.parametrize(
    ("device", "nodes", "size", "loop"),
    [
        # 16 channels with 8 heads: 128 chunks of 16, 32, 64 and 128 KiB; no more than the payload itself.
        ("H100", 1, 2**20, 2**20), ("H100", 1, 2**22, 2**21), ("H100", 1, 2**25, 2**22), ("H100", 1, 2**28, 2**23),
        ("H100", 1, 2**30, 2**24), ("H100", 2, 2**23, 2**23), ("H100", 2, 2**26, 2**24), ("H100", 4, 2**32, 2**23),
        ("B200", 1, 2**31, 24 * 2**20), ("B200", 2, 2**31, 2**25),  # 24 channels in a node, 32 on several
    ],
)  # fmt: skip
def test_two_stages_of_a_sum_in_switches_fill_before_bytes_come_out(device, nodes, size, loop):
    """With a fitted share of the rate, what fills the pipeline is part of the fit."""
    share, name = {"H100": 0.85, "B200": 0.74}[device], "nvls Simple" if nodes == 1 else "nvls_tree Simple"
    fitted = {"efficiency": {name: share if nodes == 1 else 0.92}}
    seconds = [
        float(priced(on, nodes, 8, [size], device=device, algorithm="nvls,nvls_tree").seconds[0])
        for on in (cluster(8, 50e9, 400e9), cluster(8, 50e9, 400e9, nccl=fitted))
    ]
    assert seconds[0] - seconds[1] == pytest.approx(2 * loop / (5 / 6 * share * 400e9), rel=1e-6)


def test_sizes_of_steps_must_rise():
    with pytest.raises(ValidationError, match="rising bytes"):
        fabric(nccl={"step_overhead": [[1e6, "10 us"], [1e3, "10 us"]]})


@pytest.mark.parametrize(
    ("algorithm", "primitive", "crossings"),
    [("ring", "all_reduce", 2 * 14 / 8), ("ring", "all_gather", 2 * 7 / 8), ("tree", "all_reduce", 2)],
)
def test_the_way_between_two_sites_is_paid_for_each_border_that_data_cross(algorithm, primitive, crossings):
    """A ring through both sites crosses their border twice in 8 steps, trees once up and once down."""
    took = {}
    for hop in (0.0, 0.01):
        on = fabric("leaf_spine", 1e9, 50e-6, nodes_per_leaf=4, hop_latency=hop)
        took[hop] = float(priced(on, 8, 1, [2**20], primitive, algorithm=algorithm).seconds[0])
    assert took[0.01] - took[0.0] == pytest.approx(crossings * 2 * 0.01, rel=1e-6)


def test_a_ring_of_nccl_between_two_sites_takes_about_what_its_messages_take():
    on = fabric("leaf_spine", 1e9, 50e-6, nodes_per_leaf=4, hop_latency=0.01)
    layout = Layout(8, 1)
    network = NetworkSetup(example(Topology, "ring"), on, on.wire(layout))
    slow = price_steps([STEPS["all_gather"](2**16, layout.workers)], (), network).seconds[0]
    assert priced(on, 8, 1, [2**16], "all_gather", algorithm="ring").seconds[0] == pytest.approx(slow, rel=0.15)
