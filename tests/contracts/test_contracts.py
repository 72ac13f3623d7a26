"""What every member of a family must hold; a new kind is tested by being registered."""

import numpy as np
import pytest
from drawn import durations
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_core import PydanticCustomError
from reference import walked

from examples import PRIMITIVES, example, mapping, supported
from simulator.component import build, discover
from simulator.fabrics.base import Fabric
from simulator.models.exchange import Layout
from simulator.models.layers import Layer
from simulator.records import replace
from simulator.schedulers.base import Costs, Scheduler
from simulator.sparsifiers.base import Sparsifier
from simulator.topologies.base import Topology

FAMILIES = (Sparsifier, Topology, Scheduler, Fabric)
MEMBERS = [pytest.param(base, kind, id=f"{base.family}-{kind}") for base in FAMILIES for kind in discover(base)]
TOPOLOGIES, SCHEDULERS, FABRICS = (list(discover(base)) for base in FAMILIES[1:])
LAYOUTS = [(1, 1), (2, 1), (3, 1), (8, 1), (1, 4), (2, 4), (3, 3), (5, 2)]


@pytest.mark.parametrize(("base", "kind"), MEMBERS)
def test_a_member_is_named_after_its_file_and_says_what_it_is(base, kind):
    member = discover(base)[kind]
    assert member.kind == kind
    assert member.family == base.family
    assert member.__doc__ is not base.__doc__
    assert member.summary().endswith((".", ":"))
    if member.__module__.startswith("simulator."):
        assert member.__module__.rpartition(".")[2] == kind


@pytest.mark.parametrize(("base", "kind"), MEMBERS)
def test_a_member_is_built_from_what_it_describes(base, kind):
    member = example(base, kind)
    again = build(base, member.described())
    assert again == member
    assert type(again) is type(member)
    assert build(base, member) is member


@pytest.mark.parametrize(("base", "kind"), MEMBERS)
def test_an_unknown_key_and_a_misspelt_kind_are_refused_with_the_nearest_one(base, kind):
    fields = list(discover(base)[kind].model_fields)
    for field in fields or ["anything"]:
        with pytest.raises(ValidationError) as caught:
            example(base, kind, **{f"{field}q": 1})
        (error,) = [item for item in caught.value.errors() if item["loc"] == (f"{field}q",)]
        assert error["ctx"]["what"] == "a known key"
        if fields:
            assert f"'{field}'" in error["ctx"]["hint"]
    with pytest.raises(PydanticCustomError, match=f"did you mean '{kind}'"):
        build(base, {**mapping(base, kind), "kind": f"{kind}q"})


def test_a_kind_that_two_modules_define_is_refused_with_both():
    """Two plug-ins, say, that know nothing of each other; a module that is imported anew defines its own again."""
    known = discover(Scheduler)["wfbp"]
    with pytest.raises(TypeError, match=r"scheduler kind 'wfbp' is defined in simulator\.schedulers\.wfbp and another"):
        type(Scheduler)("Wfbp", (Scheduler,), {"__module__": "another", "__doc__": "One more."}, kind="wfbp")
    assert discover(Scheduler)["wfbp"] is known


RULES = {"bucketed": ("ddp", "horovod"), "mg_wfbp": ("optimal", "greedy")}


@pytest.mark.parametrize("kind", SCHEDULERS)
@given(
    layers=st.lists(st.tuples(st.integers(1, 10**7), durations(0.01)), min_size=1, max_size=30),
    options=st.fixed_dictionaries(
        {},
        optional={
            "partition": st.floats(1e5, 1e8),
            "bucket_size": st.floats(1e3, 1e8),
            "rule": st.integers(0, 1),
        },
    ),
)
def test_a_scheduler_sends_every_element_once_in_backward_order(kind, layers, options):
    known = discover(Scheduler)[kind].model_fields
    if "rule" in options and kind in RULES:
        options = {**options, "rule": RULES[kind][options["rule"]]}
    scheduler = example(Scheduler, kind, **{key: value for key, value in options.items() if key in known})
    model = [Layer(name=str(i), numel=n, backward=seconds) for i, (n, seconds) in enumerate(layers)]
    plan = scheduler.plan(model, Costs(lambda n: 1e-3 + 1e-9 * np.asarray(n), lambda n: 1e-9 * np.asarray(n), 0.01))
    assert [bucket.index for bucket in plan] == list(range(len(plan)))
    ready = [bucket.ready_layer for bucket in plan]
    assert ready == sorted(ready, reverse=True)
    assert min(piece for bucket in plan for piece in bucket.pieces) >= 1
    pieces = [piece for bucket in plan for piece in bucket.pieces]
    for layer in reversed(model):
        whole = layer.numel
        while whole:
            whole -= pieces.pop(0)
            assert whole >= 0
    assert pieces == []
    for bucket in plan:
        following = [other.ready_layer for other in plan[bucket.index + 1 :] if other.ready_layer < bucket.ready_layer]
        assert not following or bucket.numel <= sum(layer.numel for layer in model[max(following) + 1 :])


def got(phases, places):
    """Bytes that each place received."""
    total = np.zeros(places)
    for item in (item for rounds in phases for item in rounds):
        np.add.at(total, item.dst, item.repeat * item.nbytes[0])
    return total


@pytest.mark.parametrize("kind", TOPOLOGIES)
def test_a_topology_delivers(kind):
    """Everyone ends up with every contribution, and with at least the bytes that this takes."""
    for shape in LAYOUTS:
        assert_delivered(kind, shape)


def assert_delivered(kind, shape):
    topology = example(Topology, kind)
    layout = topology.layout(*shape)
    p, size = layout.workers, 1e6
    for primitive in supported(topology):
        payload = np.full((1, p), size) if primitive == "all_gather" else np.array([size])
        rounds = getattr(topology, primitive)(payload, layout)
        # A pipelined collective is one round over which chunk after chunk flows, each a step further than the last.
        walks = 2 * p if kind == "nccl" else 1
        holds = walked(walks * rounds, np.eye(layout.places, p, dtype=bool))
        least = {"all_reduce": size * (p > 1), "all_gather": (p - 1) * size, "reduce_scatter": size / p * (p > 1)}
        if primitive == "broadcast":
            assert holds[:p, 0].all()
            least["broadcast"] = np.where(np.arange(p) > 0, size, 0)
        else:
            assert holds[:p].all(), primitive
        assert (got([rounds], layout.places)[:p] >= least[primitive] * (1 - 1e-9)).all(), primitive
        assert all(item.nbytes.shape == (1, len(item.src)) and len(item.src) == len(item.dst) for item in rounds)
        assert all((item.src != item.dst).all() and item.nbytes.min() >= 0 for item in rounds)
    if topology.style == "push_pull":
        for slot in (0, 7):
            phases = topology.push_pull(np.array([size]), np.array([2 * size]), layout, slot)
            holds = np.eye(layout.places, p, dtype=bool)
            for rounds in phases:
                holds = walked(rounds, holds)
            assert holds[:p].all()
            assert (got(phases, layout.places)[:p] >= 2 * size * (1 - 1e-9)).all()


@pytest.mark.parametrize("kind", TOPOLOGIES)
def test_a_topology_says_what_it_cannot_do(kind):
    topology, layout = example(Topology, kind), Layout(2, 1)
    for primitive in set(PRIMITIVES) - set(supported(topology)):
        with pytest.raises(PydanticCustomError, match=f"a topology with .*{kind} has"):
            getattr(topology, primitive)(np.ones((1, 2)), layout)
    if topology.style == "collective":
        with pytest.raises(PydanticCustomError, match=f"push and pull.*{kind} has"):
            topology.push_pull(np.ones(1), np.ones(1), layout)


@pytest.mark.parametrize("kind", FABRICS)
def test_a_fabric_routes_over_links_that_exist(kind):
    for shape in LAYOUTS:
        for servers, colocated in ((0, False), (1, False), (3, False), (3, True)):
            assert_routed(kind, shape, servers, colocated)


def assert_routed(kind, shape, servers, colocated):
    layout = replace(Layout(*shape), servers=servers, colocated=colocated)
    fabric = example(Fabric, kind)
    try:
        wiring = fabric.wire(layout)
    except PydanticCustomError as error:
        assert error.type == "expected"
        assert layout.placement().nodes > 1, "one node fits on every fabric"
        assert error.context["got"] == f"{layout.placement().nodes} nodes"
        return
    links = len(wiring.capacity)
    assert np.isfinite(wiring.capacity).all()
    assert wiring.capacity.min() > 0
    assert len(wiring.names) == len(set(wiring.names)) == links
    src, dst = (axis.ravel() for axis in np.meshgrid(np.arange(layout.places), np.arange(layout.places)))
    src, dst = src[src != dst], dst[src != dst]
    first, last, latency, middle = wiring.route(src, dst)
    middle = np.full((len(src), 0), -1) if middle is None else middle
    for link in (first, last):
        assert ((link >= 0) & (link < links)).all()
    assert middle.shape == (len(src), middle.shape[-1])
    assert ((middle >= -1) & (middle < links)).all()
    assert all(part.dtype == np.int64 for part in (first, last, middle))
    assert latency.shape == src.shape
    assert (latency >= 0).all()
    # No link twice on one way: a message leaves through its first and arrives through its last, which differ.
    used = np.sort(np.column_stack([first, middle, last]), axis=1)
    assert ((np.diff(used, axis=1) > 0) | (used[:, 1:] == -1)).all()
    # As long there as back; an inner order by the pair finds the way back.
    length = (middle >= 0).sum(axis=1)
    assert (length[np.lexsort((src, dst))] == length[np.lexsort((dst, src))]).all()
    assert_capped(wiring, fabric.wire(layout, 1e6), src, dst)


def assert_capped(wiring, capped, src, dst):
    """A cap on endpoints holds for each end of a message between nodes, and changes no other link."""
    assert capped.names == wiring.names
    apart = wiring.node[src] != wiring.node[dst]
    first, last = capped.route(src, dst)[:2]
    ends = np.concatenate([first[apart], last[apart]]).astype(int)
    assert (capped.capacity[ends] == 1e6).all()
    nic = np.array([" NIC" in name for name in wiring.names])
    assert (capped.capacity[nic] == 1e6).all()
    inside = np.concatenate([first[~apart], last[~apart]]).astype(int)
    assert (capped.capacity[inside] == wiring.capacity[inside]).all()
    changed = capped.capacity != wiring.capacity
    assert (capped.capacity[changed] == 1e6).all()
    if nic.any() or apart.any():
        assert capped.capacity.min() == 1e6


@pytest.mark.parametrize("kind", FABRICS)
def test_a_fabric_routes_no_messages_at_all(kind):
    none = np.zeros(0, dtype=np.int64)
    route = example(Fabric, kind).wire(Layout(1, 1)).route(none, none)
    assert [len(part) for part in route[:3]] == [0, 0, 0]
