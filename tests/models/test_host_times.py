"""Two clocks: a GPU that waits for the host's launches, by a recurrence kernel by kernel and by closed forms."""

import pytest
from drawn import durations
from hypothesis import given
from hypothesis import strategies as st

from simulator.models.layers import Layer, Workload

seconds = durations(10)
LAYERS = st.lists(st.tuples(seconds, seconds, seconds, seconds), min_size=1, max_size=12)


def workload(times, **more):
    """Layers of (forward, backward, host's forward, host's backward)."""
    layers = [
        Layer(name=str(i), numel=1, forward=f, backward=b, forward_host=hf, backward_host=hb)
        for i, (f, b, hf, hb) in enumerate(times)
    ]
    return Workload(batch_size=8, layers=layers, **more)


def in_turn(times):
    """Layers in the order in which an iteration runs them, as (GPU, host)."""
    return [(f, h) for f, _, h, _ in times] + [(b, h) for _, b, _, h in reversed(times)]


def ends(made):
    """When each layer ends on the GPU, forward and then backward."""
    now, found = 0.0, []
    for lasts in [*(layer.forward for layer in made.layers), *(layer.backward for layer in reversed(made.layers))]:
        now += lasts
        found.append(now)
    return found


@given(LAYERS)
def test_a_layer_begins_when_the_gpu_is_free_and_the_host_has_come_to_it(times):
    gpu = host = 0.0
    expected = []
    for work, launching in in_turn(times):
        gpu = max(gpu, host) + work
        host += launching
        gpu = max(gpu, host)
        expected.append(gpu)
    assert ends(workload(times).queued()) == pytest.approx(expected)


@given(st.lists(st.tuples(seconds, seconds), min_size=1, max_size=6))
def test_many_kernels_per_layer_come_to_the_same(layers):
    """1,000 kernels a layer, launched one after the other: the layer's end differs by less than two of them."""
    kernels = 1000
    gpu = host = 0.0
    expected = []
    for work, launching in layers:
        for _ in range(kernels):
            host += launching / kernels
            gpu = max(gpu, host) + work / kernels
        expected.append(gpu)
    made = workload([(work, 0, launching, 0) for work, launching in layers]).queued()
    most = max(max(pair) for pair in layers) / kernels
    assert ends(made)[: len(layers)] == pytest.approx(expected, abs=2 * most + 1e-9)


@given(LAYERS)
def test_a_host_that_runs_ahead_leaves_the_slower_of_the_two(times):
    made = workload(times, host_ahead=True).queued()
    gpu, host = (sum(column) for column in zip(*in_turn(times), strict=True))
    assert made.forward_time + made.backward_time == pytest.approx(max(gpu, host))
    if gpu >= host:
        assert [(item.forward, item.backward) for item in made.layers] == [
            (pytest.approx(f, abs=1e-9), pytest.approx(b, abs=1e-9)) for f, b, _, _ in times
        ]


def test_without_host_times_nothing_changes():
    made = workload([(1, 2, 0, 0), (3, 4, 0, 0)])
    assert made.queued() is made


def test_a_larger_batch_takes_the_gpu_longer_and_the_host_not():
    """At batch 8 the host needs 4 s and the GPU 2 s; at batch 32 the GPU needs 8 s, after 0 s of waiting."""
    made = workload([(1, 1, 2, 2)])
    assert [made.rescaled(size).queued().forward_time for size in (8, 32)] == [2, 4]
    assert [made.rescaled(size).queued().backward_time for size in (8, 32)] == [2, 4]
    assert made.scaled(0.25, 1.0).queued().backward_time == made.queued().backward_time


@given(LAYERS.filter(lambda times: sum(map(sum, times)) > 0.1), st.booleans())
def test_the_measured_iteration_stays_whole(times, ahead):
    made = workload(times, compute_time=5, host_ahead=ahead).stretched(1).queued()
    assert made.forward_time + made.backward_time == pytest.approx(4)
