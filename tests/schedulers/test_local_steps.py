"""Local steps: closed forms of each schedule, and a reference that goes step by step.

Unless a test says otherwise there are two workers on a switch of 4 MB/s without start-up, so that the exchange of a
million elements takes 1 s, and kernels are free.
"""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_schedulers import M, profiles, simulated, took

from simulator.engine.clock.evaluate import evaluate
from simulator.engine.clock.graphs import graph_of
from simulator.engine.clock.numbers import number_tasks
from simulator.engine.clock.slowing import end_slowed
from simulator.errors import InputError
from simulator.models.layers import Layer
from simulator.models.period import Fragment, Period
from simulator.models.timeline import merge_intervals
from simulator.prediction.draws import draw_differences
from simulator.prediction.run import plan_of, run
from simulator.scenario.reading import load
from simulator.scenario.scenario import Scenario
from simulator.schedulers.decoupled_diloco import DecoupledDiLoCo
from simulator.schedulers.overlapped_diloco import OverlappedDiLoCo
from simulator.schedulers.streaming_diloco import StreamingDiLoCo

STEP = [(1, 1, 2), (1, 0, 0), (1, 0, 0), (1, 0, 0)]
"""A step of 3 s, and four blocks of which each takes 1 s to exchange."""


def exact(value):
    return pytest.approx(value, rel=1e-9)


def period_of(scheduler, layers=STEP, **parts):
    return simulated(layers, scheduler, **parts).document["period"]


@pytest.mark.parametrize("kind", ["local_sgd", "diloco"])
@pytest.mark.parametrize("inner", [1, 2, 7, 500])
def test_a_blocking_period_is_its_steps_and_then_its_exchange(kind, inner):
    """H (forward + backward) + sum of the tensors' exchanges."""
    made = simulated(STEP, {"kind": kind, "inner_steps": inner}).document
    assert made["period"]["time_s"] == exact(3 * inner + 4)
    assert made["iteration_time_s"] == exact(3 + 4 / inner)
    assert made["period"]["compute_utilisation"] == exact(3 * inner / (3 * inner + 4))
    assert made["breakdown_s"]["communication_exposed"] == exact(4 / inner)


@given(profiles, st.sampled_from(["dense", {"kind": "topk", "density": 0.1}]), st.sampled_from([0.0, 0.3]))
def test_one_local_step_is_the_bulk_synchronous_schedule(layers, method, jitter):
    parts = {"sparsifier": method, "iterations": 3, "warmup": 0, "nodes": 3}
    whole = {"bucket_size": 1e12}
    both = []
    for scheduler in ({"kind": "sequential"}, {"kind": "local_sgd", "inner_steps": 1, **whole}):
        prediction = simulated(layers, scheduler, **parts)
        changed = prediction.scenario.model_dump() | {"cluster": {**prediction.scenario.cluster.model_dump()}}
        changed["cluster"]["stragglers"] = {"jitter": jitter}
        both.append(run(prediction.scenario.model_copy(update={"cluster": Scenario.model_validate(changed).cluster})))
    first, second = (each.document for each in both)
    assert second["iteration_time_s"] == exact(first["iteration_time_s"])
    for term, seconds in first["breakdown_s"].items():
        assert second["breakdown_s"][term] == pytest.approx(seconds, rel=1e-9, abs=1e-12)


def test_one_local_step_is_the_bulk_synchronous_schedule_on_a_real_cluster():
    first = run(load("quickstart", ("sparsifier=dense", "scheduler=sequential"))).document
    local = "scheduler={kind: local_sgd, inner_steps: 1, bucket_size: 1 TB}"
    second = run(load("quickstart", ("sparsifier=dense", local)))
    assert second.document["iteration_time_s"] == exact(first["iteration_time_s"])
    assert second.document["traffic"]["sent_bytes_per_worker"] == exact(first["traffic"]["sent_bytes_per_worker"])


def test_fragments_divide_the_peak_and_leave_the_bytes():
    whole = period_of({"kind": "diloco", "inner_steps": 8})
    for count in (2, 4):
        made = period_of({"kind": "streaming_diloco", "inner_steps": 8, "fragments": count})
        assert made["sent_bytes_per_worker"] == exact(whole["sent_bytes_per_worker"])
        assert made["sent_bytes_per_worker_peak"] == exact(whole["sent_bytes_per_worker"] / count)
        assert made["time_s"] == exact(whole["time_s"])


@pytest.mark.parametrize("delay", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("bandwidth", [4e6, 1e6, 0.25e6])
def test_a_delay_hides_what_it_can(delay, count, bandwidth):
    """Each fragment's exchange of e seconds costs max(0, e - 3 delay), as long as the delay is within its interval."""
    inner, between, exchange = 8, 8 // count, 4 / count * 4e6 / bandwidth
    made = period_of(
        {"kind": "streaming_diloco", "inner_steps": inner, "fragments": count, "delay": min(delay, between)},
        bandwidth=bandwidth,
    )
    assert made["time_s"] == exact(3 * inner + count * max(0.0, exchange - 3 * min(delay, between)))


@pytest.mark.parametrize("fragments", [1, 2, 4])
@pytest.mark.parametrize("slowdown", [0.0, 0.5, 2.0])
def test_local_steps_are_slower_while_an_exchange_is_under_way(fragments, slowdown):
    """The 4 s of all exchanges lie within local steps, of which they leave 4 / (1 + slowdown) s of work done."""
    streaming = {"kind": "streaming_diloco", "inner_steps": 8, "fragments": fragments, "delay": 2}
    runtime = {"name": "slowed", "compute_slowdown": slowdown}
    made = period_of(streaming, bandwidth=4e6 if fragments > 1 else 8e6, runtime=runtime)
    exchange = 4 if fragments > 1 else 2
    assert made["time_s"] == exact(3 * 8 + exchange * (1 - 1 / (1 + slowdown)))


def test_in_one_program_a_delay_hides_nothing():
    streaming = {"kind": "streaming_diloco", "inner_steps": 8, "fragments": 2}
    assert period_of({**streaming, "delay": 4, "one_program": True}) == period_of(streaming)


@pytest.mark.parametrize("inner", [1, 2, 20])
@pytest.mark.parametrize("eager", [False, True])
def test_an_overlapped_exchange_takes_the_next_period(inner, eager):
    """The longer of compute and exchange."""
    made = period_of({"kind": "overlapped_diloco", "inner_steps": inner, "eager": eager}, bandwidth=1e6)
    assert made["time_s"] == exact(max(3 * inner, 16))


def test_decoupled_workers_go_on_by_themselves():
    """Samples per second add up: workers of 3 and 6 s a step, of which none waits; with a barrier the slower counts."""
    slow = {"nodes": 2, "gpu": {"name": "ideal", "ideal": True}, "network": {"kind": "single_switch", "bandwidth": 4e6}}
    slow["stragglers"] = {"slow": [{"worker": 1, "factor": 2}]}
    scenario = simulated(STEP, {"kind": "decoupled_diloco", "inner_steps": 8}).scenario
    data = scenario.resolved() | {"cluster": slow}
    made = run(Scenario.model_validate(data)).document
    assert made["iteration_time_s"] == exact(2 / (1 / 3 + 1 / 6))
    together = Scenario.model_validate(data | {"scheduler": {"kind": "diloco", "inner_steps": 8}})
    assert run(together).document["iteration_time_s"] == exact(6 + 4 / 8)


def test_exchanges_that_cannot_slow_anything_down_any_more_are_forgotten():
    """A slow worker that nobody waits for falls behind by more in every period."""
    slow = {"stragglers": {"slow": [{"worker": 0, "factor": 2}]}}
    data = simulated(STEP, {"kind": "decoupled_diloco", "inner_steps": 8}).scenario.resolved()
    data["cluster"] |= slow | {"runtime": {"name": "slowed", "compute_slowdown": 0.5, "cycle_time": math.sqrt(0.1)}}
    scenario = Scenario.model_validate(data)
    plan = plan_of(scenario)
    graph, draws = graph_of(plan), next(iter(draw_differences(scenario, plan, False)))
    state, known, behind = None, [], [0.0]
    for _ in range(100):
        state = evaluate(graph, number_tasks(graph, [(plan, draws)]), state).state
        known.append(len(state.under_way))
        behind.append(float(state.now[0, 0] - state.now[0, 1]))
    assert min(after - before for before, after in pairwise(behind)) > 20
    assert 0 < max(known) <= len(STEP)


@pytest.mark.parametrize(("inner", "fragments", "effective"), [(100, 37, 111), (100, 4, 100), (10, 40, 40), (5, 2, 4)])
def test_one_fragment_is_exchanged_every_rounded_number_of_steps(inner, fragments, effective):
    """max(1, round(H/P)) steps, with Python's rounding of halves to even."""
    layers = [(0.001, 0.01, 0.02)] * fragments
    made = period_of({"kind": "streaming_diloco", "inner_steps": inner, "fragments": fragments}, layers)
    assert made["inner_steps"] == effective


def stepped(period, step, exchanges, repeats=1000):
    """Seconds of a period in a steady state, one step at a time."""
    clock = free = 0.0
    due = {}
    lengths = []
    for number in range(repeats):
        began = clock
        for done in range(1, period.steps + 1):
            clock += step
            absolute = number * period.steps + done
            for fragment, (ready, wanted) in enumerate(period.fragments):
                if (absolute - wanted) % period.steps == 0 and wanted > ready and (fragment, absolute) in due:
                    clock = max(clock, due.pop((fragment, absolute)))
            for fragment, (ready, wanted) in enumerate(period.fragments):
                if done == ready:
                    free = max(free, clock) + exchanges[fragment]
                    due[fragment, absolute + wanted - ready] = free
            for fragment, (ready, wanted) in enumerate(period.fragments):
                if done == ready and wanted == ready:
                    clock = max(clock, due.pop((fragment, absolute)))
        lengths.append(clock - began)
    return lengths[-1]


@given(
    st.lists(st.floats(0.05, 3), min_size=1, max_size=5),
    st.integers(1, 12),
    st.integers(0, 12),
    st.floats(0.1, 2),
    st.sampled_from(["streaming_diloco", "overlapped_diloco"]),
)
def test_a_period_is_what_steps_one_by_one_come_to(sizes, inner, delay, step, kind):
    layers = [(size, step if not place else 0, 0) for place, size in enumerate(sizes)]
    if kind == "streaming_diloco":
        made = StreamingDiLoCo(inner_steps=inner, fragments=len(sizes), delay=0)
        made = made.model_copy(update={"delay": min(delay, made.period.steps)})
        exchanges = [sum(round(sizes[i] * M) for i in part) / M for part in made.parts(named(len(sizes)))]
    else:
        made = OverlappedDiLoCo(inner_steps=inner, delay=min(delay, inner))
        exchanges = [sum(round(size * M) for size in sizes) / M]
    got = period_of(made.described(), layers)["time_s"]
    assert got == pytest.approx(stepped(made.period, step, exchanges), rel=1e-6)


def named(count):
    return [Layer(name=f"layer {i}", numel=1) for i in range(count)]


def test_blocks_are_dealt_out_by_the_pattern():
    names = ["embed", *(f"h.{block}.{part}" for block in range(4) for part in ("q", "k")), "head"]
    layers = [Layer(name=name, numel=1) for name in names]
    strided = StreamingDiLoCo(inner_steps=10, fragments=2, pattern="strided").parts(layers)
    runs = StreamingDiLoCo(inner_steps=10, fragments=2, pattern="sequential").parts(layers)
    assert [[names[i] for i in part] for part in strided] == [
        ["embed", "h.1.q", "h.1.k", "h.3.q", "h.3.k"],
        ["h.0.q", "h.0.k", "h.2.q", "h.2.k", "head"],
    ]
    assert [names[part[0]] for part in runs] == ["embed", "h.2.q"]
    assert sorted(i for part in strided for i in part) == list(range(len(names)))


def test_more_fragments_than_blocks_are_refused():
    with pytest.raises(InputError, match=r"at most 4 fragments, got 5"):
        simulated(STEP, {"kind": "streaming_diloco", "inner_steps": 10, "fragments": 5})


@pytest.mark.parametrize(
    "scheduler",
    [
        {"kind": "streaming_diloco", "inner_steps": 4, "delay": 5},
        {"kind": "overlapped_diloco", "inner_steps": 4, "delay": 5},
    ],
    ids=str,
)
def test_a_delay_beyond_the_period_is_refused(scheduler):
    with pytest.raises(InputError, match="`delay` of at most 4 steps"):
        load("quickstart", {"scheduler": scheduler})


@pytest.mark.long
def test_random_differences_average_out_within_a_period():
    """The slowest of p workers is late by the deviation of the mean of H draws, which falls as 1 / sqrt(H)."""
    late = {}
    for inner in (1, 100):
        made = run(
            load(
                "quickstart",
                (
                    "sparsifier=dense",
                    f"scheduler={{kind: diloco, inner_steps: {inner}}}",
                    "cluster.stragglers.jitter=0.1",
                    "iterations=200",
                ),
            )
        ).document
        late[inner] = made["idle_s"]["waiting_for_slowest"]
    assert late[100] == pytest.approx(late[1] / 10, rel=0.1)


def test_with_servers_a_period_takes_the_push_and_pull_on_the_clock():
    """The same exchange of one bucket, known in advance or followed: a push of S and a pull of S by each of two."""
    whole = {"kind": "diloco", "inner_steps": 5, "bucket_size": 1e12}
    server = {"kind": "parameter_server", "servers": 1}
    followed = period_of(whole, topology=server)
    alone = took(STEP, {"kind": "sequential"}, topology=server) - 3
    assert followed["time_s"] == pytest.approx(5 * 3 + alone, rel=1e-9)


def test_on_the_clock_a_delay_hides_as_much():
    """Token buckets make exchanges live; empty ones change nothing."""
    streaming = {"kind": "streaming_diloco", "inner_steps": 8, "fragments": 2, "delay": 2}
    network = {"kind": "single_switch", "bandwidth": 1e6, "burst": 1e-3}
    scenario = simulated(STEP, streaming, bandwidth=1e6).scenario
    data = scenario.resolved()
    data["cluster"]["network"] = network
    live = run(Scenario.model_validate(data | {"warmup": 3, "iterations": 2})).document
    assert live["period"]["time_s"] == pytest.approx(8 * 3 + 2 * (8 - 6), rel=1e-6)


def test_events_of_a_period_wait_for_earlier_exchanges_first():
    period = Period(4, (Fragment(2, 4), Fragment(4, 6)))
    assert period.crosses
    assert not Period(4, (Fragment(4, 4),)).crosses
    assert [event.step for event in period.events()] == [2, 2, 4, 4]


def test_offloading_costs_the_copies():
    """Outer parameters come once, the state of the optimiser comes and goes, and the parameters go: 16 bytes each."""
    there = {"kind": "diloco", "inner_steps": 5}
    copied = period_of({**there, "host_bandwidth": 64e6})["time_s"]
    assert copied == exact(period_of(there)["time_s"] + 4 * M * 4 * 4 / 64e6)


def test_a_decoupled_period_waits_for_its_own_exchange():
    period = DecoupledDiLoCo(inner_steps=8, fragments=2).period
    assert period == Period(8, (Fragment(4, 12), Fragment(8, 16)), together=False)
    made = period_of({"kind": "decoupled_diloco", "inner_steps": 1}, bandwidth=1e6)
    assert made["time_s"] == exact(16)
    assert math.isclose(made["compute_utilisation"], 3 / 16)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ([(4.0, 10.0)], 4.0 + 6.0 + 2.0),  # free, then 6 s in which 4 s of work are done, then the 2 s that are left
        ([(0.0, 3.0), (5.0, 6.5)], 3.0 + 2.0 + 1.5 + (10 - 2 - 2 - 1)),
        ([(-5.0, -1.0), (11.0, 20.0)], 10.0),
        ([(-5.0, 1.5)], 1.5 + 9.0),
        ([(9.0, 20.0)], 9.0 + 1.5),
    ],
)
def test_compute_is_slower_while_known_exchanges_are_under_way_and_only_then(known, expected):
    """10 s of compute from 0 on; during an exchange it does two thirds of its work."""
    assert end_slowed(0.0, 10.0, merge_intervals(known), 0.5) == exact(expected)
    assert end_slowed(0.0, 10.0, [], 0.5) == end_slowed(0.0, 10.0, merge_intervals(known), 0.0) == 10


def test_exchanges_together_wait_for_the_slowest_worker():
    """One of two workers takes 1.5 times as long: the other waits for half of 3 s for each of 4 steps."""
    slow = {"stragglers": {"slow": [{"worker": 0, "factor": 1.5}]}, "nodes": 2}
    scenario = simulated(STEP, {"kind": "diloco", "inner_steps": 4}).scenario
    data = scenario.resolved()
    data["cluster"] |= slow
    made = run(Scenario.model_validate(data)).document
    assert 4 * made["waiting_s"] == exact(4 * 0.5 * 3 / 2)


def test_the_steps_of_the_slowest_worker_are_slowed_down():
    """Worker 0 takes 4.5 s a step. In the 2 s of the exchange, which two steps hide, 2 / 1.5 s of its work are done;
    all workers take as many times longer as it does."""
    streaming = {"kind": "streaming_diloco", "inner_steps": 8, "fragments": 1, "delay": 2}
    slow = {"stragglers": {"slow": [{"worker": 0, "factor": 1.5}]}, "nodes": 2}
    data = simulated(STEP, streaming, bandwidth=8e6).scenario.resolved()
    data["cluster"] |= slow | {"runtime": {"name": "slowed", "compute_slowdown": 0.5}}
    alone = run(Scenario.model_validate(data | {"cluster": data["cluster"] | {"runtime": {"name": "free"}}})).document
    made = run(Scenario.model_validate(data)).document
    lost = made["period"]["time_s"] - alone["period"]["time_s"]
    assert lost == exact(2 * (1 - 1 / 1.5))
