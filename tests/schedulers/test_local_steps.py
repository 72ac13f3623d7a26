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
from worked_scenarios import exact

from simulator.engine.clock.evaluate import evaluate
from simulator.engine.clock.graphs import graph_of
from simulator.engine.clock.numbers import number_tasks
from simulator.errors import InputError
from simulator.models.graph import Fragment, Period
from simulator.models.layers import Layer
from simulator.prediction.draws import draw_differences
from simulator.prediction.run import plan_of, run
from simulator.scenario.reading import load
from simulator.schedulers.decoupled_diloco import DecoupledDiLoCo
from simulator.schedulers.overlapped_diloco import OverlappedDiLoCo
from simulator.schedulers.streaming_diloco import StreamingDiLoCo

STEP = [(1, 1, 2), (1, 0, 0), (1, 0, 0), (1, 0, 0)]
"""A step of 3 s, and four blocks of which each takes 1 s to exchange."""


def period_of(scheduler, layers=STEP, **parts):
    return simulated(layers, scheduler, **parts).document["period"]


@pytest.mark.parametrize("kind", ["local_sgd", "diloco"])
@pytest.mark.parametrize("inner", [1, 2, 7, 500])
def test_a_blocking_period_is_its_steps_and_then_its_exchange(kind, inner):
    """H (forward + backward) + sum of the tensors' exchanges."""
    made = simulated(STEP, {"kind": kind, "inner_steps": inner}).document
    assert (made["period"]["time_s"], made["iteration_time_s"]) == (exact(3 * inner + 4), exact(3 + 4 / inner))
    assert made["period"]["compute_utilisation"] == exact(3 * inner / (3 * inner + 4))
    assert made["breakdown_s"]["communication_exposed"] == exact(4 / inner)


@given(profiles, st.sampled_from(["dense", {"kind": "topk", "density": 0.1}]), st.sampled_from([0.0, 0.3]))
def test_one_local_step_is_the_bulk_synchronous_schedule(layers, method, jitter):
    parts = {"sparsifier": method, "iterations": 3, "warmup": 0, "nodes": 3, "stragglers": {"jitter": jitter}}
    local = {"kind": "local_sgd", "inner_steps": 1, "bucket_size": 1e12}
    first, second = (simulated(layers, each, **parts).document for each in ("sequential", local))
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
    slow = {"slow": [{"worker": 1, "factor": 2}]}
    assert took(STEP, {"kind": "decoupled_diloco", "inner_steps": 8}, stragglers=slow) == exact(2 / (1 / 3 + 1 / 6))
    assert took(STEP, {"kind": "diloco", "inner_steps": 8}, stragglers=slow) == exact(6 + 4 / 8)


def test_exchanges_that_cannot_slow_anything_down_any_more_are_forgotten():
    """A slow worker that nobody waits for falls behind by more in every period."""
    slow = {"slow": [{"worker": 0, "factor": 2}]}
    runtime = {"name": "slowed", "compute_slowdown": 0.5, "cycle_time": math.sqrt(0.1)}
    scheduler = {"kind": "decoupled_diloco", "inner_steps": 8}
    scenario = simulated(STEP, scheduler, stragglers=slow, runtime=runtime).scenario
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
    due, lengths = {}, []
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
    odd, even = ["embed", "h.1.q", "h.1.k", "h.3.q", "h.3.k"], ["h.0.q", "h.0.k", "h.2.q", "h.2.k", "head"]
    assert [[names[i] for i in part] for part in strided] == [odd, even]
    assert [names[part[0]] for part in runs] == ["embed", "h.2.q"]
    assert sorted(i for part in strided for i in part) == list(range(len(names)))


def test_more_fragments_than_blocks_are_refused():
    with pytest.raises(InputError, match=r"at most 4 fragments, got 5"):
        simulated(STEP, {"kind": "streaming_diloco", "inner_steps": 10, "fragments": 5})


@pytest.mark.long
def test_random_differences_average_out_within_a_period():
    """The slowest of p workers is late by the deviation of the mean of H draws, which falls as 1 / sqrt(H)."""
    late = {}
    for inner in (1, 100):
        changes = ("sparsifier=dense", "cluster.stragglers.jitter=0.1", "iterations=200")
        made = run(load("quickstart", (*changes, f"scheduler={{kind: diloco, inner_steps: {inner}}}"))).document
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
    parts = {"bandwidth": 1e6, "network": {"burst": 1e-3}, "warmup": 3, "iterations": 2}
    assert period_of(streaming, **parts)["time_s"] == pytest.approx(8 * 3 + 2 * (8 - 6), rel=1e-6)


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


def test_exchanges_together_wait_for_the_slowest_worker():
    """One of two workers takes 1.5 times as long: the other waits for half of 3 s for each of 4 steps."""
    made = simulated(STEP, {"kind": "diloco", "inner_steps": 4}, stragglers={"slow": [{"worker": 0, "factor": 1.5}]})
    assert 4 * made.document["waiting_s"] == exact(4 * 0.5 * 3 / 2)


def test_the_steps_of_the_slowest_worker_are_slowed_down():
    """Worker 0 takes 4.5 s a step. In the 2 s of the exchange, which two steps hide, 2 / 1.5 s of its work are done;
    all workers take as many times longer as it does."""
    streaming = {"kind": "streaming_diloco", "inner_steps": 8, "fragments": 1, "delay": 2}
    parts = {"bandwidth": 8e6, "stragglers": {"slow": [{"worker": 0, "factor": 1.5}]}}
    slowed = period_of(streaming, runtime={"name": "slowed", "compute_slowdown": 0.5}, **parts)
    assert (slowed["time_s"] - period_of(streaming, **parts)["time_s"]) == exact(2 * (1 - 1 / 1.5))
