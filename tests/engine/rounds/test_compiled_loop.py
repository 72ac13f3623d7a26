"""The compiled event loop computes what the reference in Python computes, to the last bit."""

from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from simulator.engine.rounds import compiled_loop
from simulator.engine.rounds.compiled_loop import CompiledLoop, load_library
from simulator.engine.rounds.disturbances import Disturbances, LinkChange, SteadyTraffic
from simulator.engine.rounds.equivalence_classes import structure
from simulator.engine.rounds.event_loop import EventLoop
from simulator.engine.rounds.network import Network, Stalled, follow_flows
from simulator.fabrics.leaf_spine import LeafSpine
from simulator.fabrics.single_switch import SingleSwitch
from simulator.models.exchange import Layout, Round
from simulator.records import replace
from simulator.topologies.parameter_server import ParameterServer

B = 1e8
compiled = pytest.mark.skipif(load_library() is None, reason="not compiled here: python hatch_build.py")
counts, times = st.integers(1, 4), st.sampled_from([0.0, 0.0, 1e-3, 0.05]) | st.floats(0, 1)
sizes = st.sampled_from([1e6, 1e6, 3e6]) | st.floats(1, 1e8)


@contextmanager
def without_library():
    """The reference, as where no library could be loaded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled_loop, "load_library", lambda: None)
        yield


@st.composite
def fabrics(draw):
    """Links of two kinds, oversubscribed, with token buckets, with NICs that suffer from many senders, or limited."""
    shape = Layout(draw(st.integers(2, 6)), draw(st.integers(1, 2)))
    common = {"bandwidth": B, "latency": draw(st.sampled_from([0.0, 1e-4])), "incast": draw(st.sampled_from(INCASTS))}
    common["intra_node"] = draw(st.sampled_from([None, {"bandwidth": 3 * B, "latency": 1e-5}]))
    if draw(st.booleans()):
        wiring = LeafSpine(**common, nodes_per_leaf=2, oversubscription=draw(st.floats(1, 8))).wire(shape)
    else:
        wiring = SingleSwitch(**common, burst=draw(st.sampled_from([0.0, 1e4, 1e6]))).wire(shape)
    each, links = st.sampled_from([1.0, 1.0, 0.5, 0.3]), len(wiring.names)
    factors = draw(st.lists(each, min_size=links, max_size=links))
    limit = draw(st.sampled_from([None, None, 0.4 * B]))
    scaled = replace(wiring, capacity=wiring.capacity * np.array(factors))
    return scaled if limit is None else scaled.with_ceiling(limit)


INCASTS = ((), ((2, 0.5),), ((1, 1.0), (3, 0.7), (5, 0.2)))


@st.composite
def exchanges(draw, places):
    """Rounds of random messages, some of them repeated."""
    made = []
    for _ in range(draw(counts)):
        message = st.tuples(st.integers(0, places - 1), st.integers(1, places - 1), sizes)
        pairs = draw(st.lists(message, min_size=1, max_size=8))
        src, step, nbytes = (np.array(each) for each in zip(*pairs, strict=True))
        made.append(Round(src, (src + step) % places, nbytes[None, :], draw(st.integers(1, 3))))
    return made


@st.composite
def cases(draw):
    wiring = draw(fabrics())
    places, links = wiring.layout.places, len(wiring.names)
    link = st.integers(0, links - 1)
    change = st.builds(LinkChange, times, st.tuples(link, link), st.sampled_from([0.25, 0.5, 2.0, 1.0]))
    other = st.builds(SteadyTraffic, st.just(0), st.integers(1, places - 1), st.floats(0.1 * B, 2 * B))
    around = Disturbances(tuple(draw(st.lists(change, max_size=3))), tuple(draw(st.lists(other, max_size=1))))
    begin = st.none() | st.lists(times, min_size=places, max_size=places).map(np.array)
    turns, streams = st.sampled_from([0.0, 1.0, 2.0]), st.integers(0, 1)
    submitted = draw(st.lists(st.tuples(times, exchanges(places), begin, turns, streams), min_size=1, max_size=5))
    return wiring, submitted, around, draw(st.sampled_from([0.0, 1e-4]))


def follow(wiring, submitted, around, overhead):
    """All that a network says of exchanges that start at their times, and which event loop followed them."""
    env, ends = simpy.Environment(), {}
    shapes = [structure(rounds) for _, rounds, *_ in submitted]
    options = {"overhead": overhead, "disturbances": around, "keep": True}
    network = Network(env, wiring, [shape for shape, _ in shapes], colours=np.arange(len(wiring.node)) + 0.0, **options)

    def run(number, time, ready, turn, stream):
        yield env.timeout(time)
        transfer = network.start(shapes[number], None if ready is None else env.now + ready, turn=turn, stream=stream)
        finished = yield transfer.done
        ends[number] = (env.now, finished.tolist(), transfer.ended.tolist(), transfer.left)

    env.run(until=env.all_of([env.process(run(i, time, *more)) for i, (time, _, *more) in enumerate(submitted)]))
    use, content = network.link_use(), network.token_bucket_content()
    held = None if content is None else content.tolist()
    return ends, use.times.tolist(), use.rates.tolist(), held, type(network.loop)


@compiled
@given(cases())
def test_compiled_equals_the_reference(case):
    fast = follow(*case)
    with without_library():
        slow = follow(*case)
    assert fast[-1] is CompiledLoop
    assert slow[-1] is EventLoop
    assert fast[:-1] == slow[:-1]


@compiled
def test_a_network_alone_follows_repetitions_as_the_reference_does():
    wiring = SingleSwitch(bandwidth=B, latency=1e-4).wire(Layout(5, 1))
    order = np.arange(5)
    rounds = [Round(order, (order + 1) % 5, np.full((1, 5), 1e6), 40)]
    ready = np.array([0.0, 0.01, 0.3, 0.01, 0.0])
    fast = follow_flows(rounds, wiring, ready)
    with without_library():
        assert follow_flows(rounds, wiring, ready).tolist() == fast.tolist()


@pytest.mark.parametrize("library", [nullcontext, without_library])
def test_what_never_ends_names_its_link_in_both(library):
    wiring = SingleSwitch(bandwidth=B).wire(Layout(3, 1))
    around = Disturbances((LinkChange(0.5, (wiring.names.index("node 1 NIC in"),), 0.0),))
    rounds = [Round(np.array([0]), np.array([1]), np.array([[1e9]]))]
    with pytest.raises(Stalled) as error, library():
        follow_flows(rounds, wiring, np.zeros(3), disturbances=around)
    assert error.value.args[0] == ["node 1 NIC in"]


def test_the_clock_of_simpy_shows_the_same_times_however_far_the_loop_goes_by_itself():
    """A process that wakes every millisecond looks at the network, and moves nothing."""

    def ends(step):
        env, topology = simpy.Environment(), ParameterServer(servers=1)
        layout = topology.layout(7, 1)
        push = [topology.push_pull(np.array([size]), np.array([size]), layout)[0] for size in (1e5, 3e6, 7e5)]
        start = np.random.default_rng(0).uniform(0, 0.1, layout.places)
        wiring = SingleSwitch(bandwidth=B, latency=1e-4).wire(layout)
        network = Network(env, wiring, [structure(rounds)[0] for rounds in push], colours=start)
        made, seen = [], []

        def submit(rounds, later):
            yield env.timeout(later)
            transfer = network.start(structure(rounds), env.now + start)
            yield transfer.done
            seen.append(env.now)
            made.append(transfer.times.tolist())

        def look():
            while step:
                yield env.timeout(step)

        env.process(look())
        env.run(until=env.all_of([env.process(submit(rounds, 0.37 * number)) for number, rounds in enumerate(push)]))
        return seen, made

    assert ends(0) == ends(1e-3) == ends(0.1)


@pytest.mark.parametrize("wrong", ["switched off", "missing", "of another source", "not a library"])
def test_the_reference_is_used_where_the_library_cannot_be(wrong, monkeypatch, tmp_path):
    load_library.cache_clear()
    monkeypatch.delenv("SPARSIM_COMPILED", raising=False)
    if wrong == "switched off":
        monkeypatch.setenv("SPARSIM_COMPILED", "0")
    elif wrong == "missing":
        monkeypatch.setattr(compiled_loop, "LIBRARY", tmp_path / "none.so")
    elif wrong == "of another source":
        monkeypatch.setattr(compiled_loop, "source_number", lambda: -1)
    else:
        monkeypatch.setattr(compiled_loop, "LIBRARY", tmp_path / "text.so")
        (tmp_path / "text.so").write_text("not a library", encoding="utf-8")
    assert load_library() is None
    load_library.cache_clear()
    rounds = [Round(np.array([0]), np.array([1]), np.array([[B]]))]
    with without_library():
        assert follow_flows(rounds, SingleSwitch(bandwidth=B).wire(Layout(2, 1)), np.zeros(2)).tolist() == [[0, 1]]
