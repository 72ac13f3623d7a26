"""When gradients travel: every scheduler against timelines by hand, brute force, and each other.

Unless a test says otherwise there are two workers on a switch of 4 MB/s without start-up: an all-reduce of a million
elements, 2 (p - 1) / p of 4 MB, takes 1 s, half of it the reduce-scatter; kernels are free. Layers are (millions of
elements, seconds of forward, seconds of backward) in forward order.
"""

from itertools import pairwise

import numpy as np
import pytest
from drawn import durations, or_none
from hypothesis import given
from hypothesis import strategies as st
from worked_scenarios import M, worked

from simulator.engine.plan.setup import Setup
from simulator.engine.plan.work.division import price_costs
from simulator.errors import InputError
from simulator.fabrics.single_switch import SingleSwitch
from simulator.hardware.gpu import Gpu
from simulator.hardware.runtime import Runtime
from simulator.models.graph import Queue
from simulator.models.layers import Layer, Workload
from simulator.models.precision import FP32_BYTES
from simulator.prediction.run import run
from simulator.scenario.scenario import Scenario
from simulator.schedulers.asc_wfbp import SimultaneousMerged
from simulator.schedulers.base import FREE, Costs
from simulator.schedulers.bucketed import Bucketed
from simulator.schedulers.decoupled import Decoupled
from simulator.schedulers.lags import LayerwiseAdaptive
from simulator.schedulers.mg_wfbp import MergedGradient
from simulator.schedulers.omgs import OptimalMergedSparse
from simulator.schedulers.priority import Priority
from simulator.schedulers.tictac import TicTac
from simulator.schedulers.wfbp import WaitFree
from simulator.sparsifiers.dense import Dense
from simulator.sparsifiers.topk import TopK
from simulator.topologies.ring import Ring

WHOLE = 1e18

times = durations(2)
profiles = st.lists(st.tuples(st.floats(1e-6, 3), times, times), min_size=1, max_size=6)
sizes = st.lists(st.tuples(st.integers(1, M), durations(1)), min_size=1, max_size=9)


def simulated(layers, scheduler, sparsifier="dense", **parts):
    """The prediction for (millions of elements, forward, backward) of each layer; its breakdown adds up."""
    prediction = run(Scenario.model_validate(worked(layers, scheduler=scheduler, sparsifier=sparsifier, **parts)))
    terms = prediction.document["breakdown_s"]
    assert sum(terms.values()) == pytest.approx(prediction.document["iteration_time_s"], rel=1e-9)
    assert min(terms.values()) >= -1e-9
    return prediction


def took(*args, **parts):
    return simulated(*args, **parts).document["iteration_time_s"]


def travels(prediction):
    """When each bucket's exchange begins and ends, in the order in which they begin: (bucket, start, end)."""
    made = {}
    for span in prediction.iteration.spans():
        if span.stream == "communication":
            start, end = made.get(span.bucket, (span.start, span.end))
            made[span.bucket] = (min(start, span.start), max(end, span.end))
    return sorted(((bucket, *when) for bucket, when in made.items()), key=lambda item: item[1:])


def model(*items):
    """Layers in forward order from (elements, backward seconds) in backward order."""
    return [Layer(name="layer", numel=n, backward=backward) for n, backward in reversed(items)]


def affine(startup, slope, select=(0.0, 0.0), density=1.0, **more):
    return Costs(
        lambda n: startup + slope * np.asarray(n, dtype=float),
        lambda n: select[0] + select[1] * np.asarray(n, dtype=float),
        density,
        **more,
    )


def grouped(scheduler, layers, costs):
    return [list(bucket.layers) for bucket in scheduler.plan(layers, costs)]


# Fusion


def cycles(items, limit, cycle_time=1.0):
    """Horovod's groups of tensors (elements, seconds), numbered in the order in which they are ready."""
    scheduler = Bucketed(rule="horovod", bucket_size=limit, cycle_time=cycle_time)
    last = len(items) - 1
    return [[last - layer for layer in group] for group in grouped(scheduler, model(*items), FREE)]


def test_a_buffer_holds_the_next_tensor_only_if_that_fits():
    """Buffers of 40 bytes, ten elements: 4 and 6 fill one exactly, 4 and 7 do not fit, and 11 travel alone."""
    assert cycles([(4, 0.1), (6, 0.1), (1, 0.1)], 40.0) == [[0, 1], [2]]
    assert cycles([(4, 0.1), (7, 0.1), (3, 0.1)], 40.0) == [[0], [1, 2]]
    assert cycles([(4, 0.1), (11, 0.1), (4, 0.1), (6, 0.1)], 40.0) == [[0], [1], [2, 3]]


def test_a_buffer_holds_what_is_ready_when_its_cycle_ends():
    """Cycles end at 1, 2, 3 s; what is ready as a cycle ends belongs to it."""
    assert cycles([(1, 0.5), (1, 0.5), (1, 0.5), (1, 1.0)], 400.0) == [[0, 1], [2], [3]]
    assert cycles([(1, 0.5), (1, 0.5), (1, 0.5), (1, 1.0)], 400.0, 2.5) == [[0, 1, 2, 3]]
    # The size is counted from the cycle's start: the second buffer has room again.
    assert cycles([(6, 0.9), (6, 0.2), (4, 0.1)], 40.0) == [[0], [1, 2]]


def test_ddp_closes_a_bucket_that_is_full():
    """The first holds 8 bytes, two elements, the others 20, five; a tensor goes with the bucket that it fills."""
    scheduler = Bucketed(first_bucket=8.0, bucket_size=20.0)
    layers = model((1, 0), (1, 0), (4, 0), (1, 0), (2, 0), (9, 0), (1, 0))
    groups = [[6 - layer for layer in group] for group in grouped(scheduler, layers, FREE)]
    assert groups == [[0, 1], [2, 3], [4, 5], [6]]


# Merged gradients


def last_end(groups, layers, costs):
    """When the last of these groups, in backward order, has been exchanged one after the other."""
    ready = np.cumsum([layer.backward for layer in reversed(layers)])
    end = 0.0
    for group in groups:
        size = float(sum(layers[layer].numel for layer in group))
        end = max(end, float(ready[len(layers) - 1 - group[-1]])) + float(costs.exchange(size))
    return end


def every_grouping(count):
    order = list(reversed(range(count)))
    for mask in range(2 ** (count - 1)):
        yield [order[i:j] for i, j in pairwise([0, *(i for i in range(1, count) if mask >> (i - 1) & 1), count])]


@given(
    items=sizes,
    startup=durations(1),
    slope=durations(2e-6),
    power=st.sampled_from([0.5, 1.0, 1.5]),
    jump=st.sampled_from([0.0, 0.3]),
    below=st.integers(1, M),
)
def test_optimal_merging_is_as_good_as_the_best_of_all_cuts(*, items, startup, slope, power, jump, below):
    """Also where small payloads are dearer than larger ones, as between two protocols."""
    layers = model(*items)
    costs = Costs(
        lambda n: startup + slope * M * (np.asarray(n) / M) ** power + jump * (np.asarray(n) < below), np.zeros_like
    )
    best = min(last_end(groups, layers, costs) for groups in every_grouping(len(layers)))
    assert last_end(grouped(MergedGradient(), layers, costs), layers, costs) == pytest.approx(best, rel=1e-9)


def test_optimal_merging_by_hand():
    """An exchange of n million elements takes 2 (0.5 s + n / 2 s) = 1 s + n s; tensors of 0.5 come at 0.6, 1.2, 1.8.

    One by one: 0.6 + 3 * 1.5 = 5.1 s. All together: 1.8 + 2.5 = 4.3 s. The last one, then the other two: from 0.6 to
    2.1 and, as those were ready at 1.8, on to 2.1 + 2 = 4.1 s; the other way round max(2 + 1.2, 1.8) + 1.5 = 4.7 s.
    Before it all is the forward pass, 3 s.
    """
    layers = [(0.5, 1, 0.6)] * 3
    merged = simulated(layers, "mg_wfbp", latency=0.5)
    assert [bucket.layers for bucket in merged.plan.work.buckets] == [(2,), (1, 0)]
    assert merged.document["iteration_time_s"] == pytest.approx(3 + 4.1, rel=1e-9)
    assert took(layers, "wfbp", latency=0.5) == pytest.approx(3 + 5.1, rel=1e-9)
    one = {"kind": "bucketed", "first_bucket": WHOLE, "bucket_size": WHOLE}
    assert took(layers, one, latency=0.5) == pytest.approx(3 + 4.3, rel=1e-9)


def test_merging_by_a_law_of_ones_own():
    """With a start-up stated as nothing, nothing is merged, whatever the network; with a huge one all is."""
    layers = [(0.5, 1, 0.6)] * 3
    for startup, count in (("0 s", 3), ("100 s", 1)):
        stated = {"kind": "mg_wfbp", "startup": startup, "per_byte": "0 s"}
        assert len(simulated(layers, stated, latency=0.5).plan.work.buckets) == count


@pytest.mark.parametrize("first", [1, 3])
def test_greedy_merging_by_hand(first):
    """Start-up 1 s, an element takes 1 s; in backward order tensors of (first, 1, 3, 1, 1) ready at 1, 1.5, 4, 5, 9.

    The second is ready 0.5 s after the first could start: joins. The third would keep these two waiting from 1.5 to 4:
    cut; they travel till 1.5 + 1 + 2 = 4.5 (or 6.5, where the first has 3). The fourth is ready at 5, 0.5 s after the
    third could start (or before it could): joins. The fifth comes 4 s (or 2.5 s) after that: cut.
    """
    layers = model((first, 1), (1, 0.5), (3, 2.5), (1, 1), (1, 4))
    assert grouped(MergedGradient(rule="greedy", smallest=0), layers, affine(1, 1)) == [[4, 3], [2, 1], [0]]
    stated = MergedGradient(rule="greedy", smallest=0, startup=1, per_byte=1 / FP32_BYTES)
    assert grouped(stated, layers, affine(50, 50)) == [[4, 3], [2, 1], [0]]


@given(items=sizes)
def test_greedy_merging_at_both_ends(items):
    layers = model(*items)
    order = list(reversed(range(len(layers))))
    assert grouped(MergedGradient(rule="greedy", smallest=0, startup=1e6, per_byte=0), layers, affine(0, 0)) == [order]
    free = MergedGradient(rule="greedy", smallest=0, startup=0, per_byte=0)
    assert grouped(free, layers, affine(1, 1)) == [[layer] for layer in order]


def last_end_at_once(groups, layers, costs, streams):
    """When the last of these groups ends on several streams: start-ups at once, bytes one after the other."""
    ready = np.cumsum([layer.backward for layer in reversed(layers)])
    startup, ends = float(costs.exchange(1.0)), [0.0] * streams
    for group in groups:
        size = float(sum(layers[layer].numel for layer in group))
        started = max(float(ready[len(layers) - 1 - group[-1]]), ends[-streams])
        ends.append(max(ends[-1], started + startup) + max(0.0, float(costs.exchange(size)) - startup))
    return ends[-1]


def test_simultaneous_merging_by_hand():
    """The tensors of the example by hand above, on two streams: a start-up of 1 s, then n s.

    One by one they end at 0.6 + 1 + 0.5 = 2.1, at max(2.1, 1.2 + 1) + 0.5 = 2.7 and, on the first one's stream, at
    max(2.7, 2.1 + 1) + 0.5 = 3.6 s. Any merge is later: the first two 3.2 and the third 3.7 s; the last two 3.8 s.
    """
    layers = [(0.5, 1, 0.6)] * 3
    at_once = simulated(layers, "asc_wfbp", latency=0.5)
    assert [bucket.layers for bucket in at_once.plan.work.buckets] == [(2,), (1,), (0,)]
    assert at_once.document["streams"]["count"] == 2
    # Half of an exchange's bytes follow half of its start-up. They meet those of the exchange before, so that the first
    # two end 0.1 s later than by the law, and the third, which starts when the first has ended, 0.2 s later.
    assert at_once.document["iteration_time_s"] == pytest.approx(3 + 3.8, rel=1e-9)
    assert took(layers, {"kind": "asc_wfbp", "streams": 1}, latency=0.5) == pytest.approx(3 + 4.1, rel=1e-9)


def test_simultaneous_merging_keeps_few_ways_to_divide_many_tensors():
    """Twelve streams and many tensors: the search ends, and is no worse than no merging or one bucket."""
    layers, costs = model(*((1 + i * i % 97, 0.01 * (i % 7)) for i in range(150))), affine(1, 0.01)
    order = list(reversed(range(len(layers))))
    for streams in (2, 12):
        chosen = last_end_at_once(grouped(SimultaneousMerged(streams=streams), layers, costs), layers, costs, streams)
        assert chosen <= last_end_at_once([[layer] for layer in order], layers, costs, streams)
        assert chosen <= last_end_at_once([order], layers, costs, streams)


def test_greedy_merging_fills_small_buckets_first():
    """Below 8,192 elements the next tensor joins, whatever it costs."""
    layers = model((4000, 1), (4000, 1), (4000, 1), (8192, 1), (1, 1))
    assert grouped(MergedGradient(rule="greedy", startup=0, per_byte=0), layers, affine(1, 1)) == [[4, 3, 2], [1], [0]]


def test_omgs_by_hand():
    """Exchange 2 + 6 n, selection 1 + n / 2 s: a merge saves 2 s of exchange, and 1 s of selection.

    In backward order, tensors of (1, 1, 4, 1) after (1, 2, 4, 5) s of backward. The second: waits 2 - 1 < 2, joins.
    The third: 4 - 1 > 2, cut; the first two, ready at 1 + 2 + s(2) = 5, travel till 5 + 14 = 19. The third is ready at
    5 + 4 + s(4) = 12 and waits 7 s for them in any case, so that the fourth, 5 - 1 - 7 < 2, joins.
    """
    layers = model((1, 1), (1, 2), (4, 4), (1, 5))
    assert grouped(OptimalMergedSparse(), layers, affine(2, 6, (1, 0.5))) == [[3, 2], [1, 0]]
    # With a faster network, 2 + n, the first two are through at 9: nothing keeps the third, and 5 - 1 > 2.
    assert grouped(OptimalMergedSparse(), layers, affine(2, 1, (1, 0.5))) == [[3, 2], [1], [0]]


def test_omgs_in_time():
    """Gathers of (n-1) k values and as many indices, start-up 0.5 s each: k = 0.1 n elements take 1 s + 0.2 n s.

    Three tensors of a million, selected in 0.1 s each: two merges save 2 s and wait 0.2 s, and 0.1 s of selection each
    is saved, so all go together: 3 + 0.3 + 0.1 + 1 + 0.6 s; one by one from 3.2 on: 3.2 + 3 * 1.2 s.
    """
    card = {"name": "card", "kernels": {"topk": {"curve": "affine", "intercept": 0.1}}}
    sparsifier = {"kind": "topk", "density": 0.1, "granularity": "bucket"}
    layers, parts = [(1, 1, 0.1)] * 3, {"latency": 0.5, "gpu": card}
    assert took(layers, "omgs", sparsifier, **parts) == pytest.approx(5.0, rel=1e-9)
    assert took(layers, "wfbp", sparsifier, **parts) == pytest.approx(6.8, rel=1e-9)


@pytest.mark.parametrize(
    ("granularity", "groups", "total"), [("bucket", [(2, 1, 0)], 3.25), ("layer", [(2,), (1,), (0,)], 3.45)]
)
def test_omgs_saves_selection_only_where_merged_tensors_are_selected_from_at_once(granularity, groups, total):
    """Exchanges are free, 0.05 s of backward each, 0.1 s of selection a call: 3 + 0.15 s, and one call or three."""
    card = {"name": "card", "kernels": {"topk": {"curve": "affine", "intercept": 0.1}}}
    sparsifier = {"kind": "topk", "density": 0.1, "granularity": granularity}
    made = simulated([(1, 1, 0.05)] * 3, "omgs", sparsifier, gpu=card, bandwidth=1e18)
    assert [bucket.layers for bucket in made.plan.work.buckets] == groups
    assert made.document["iteration_time_s"] == pytest.approx(total, rel=1e-9)


def test_costs_are_exact_at_49_sizes_and_straight_between():
    """From 1 to 2^32 elements over a density of 2^-16 those are the powers of two; selection takes n log2 n ns."""
    gpu = Gpu.model_validate({"name": "card", "kernels": {"topk": {"curve": "n_log_n", "coefficient": 1e-9}}})
    fabric = SingleSwitch(bandwidth=4e6)
    workload = Workload.model_validate({"batch_size": 1, "layers": [{"name": "layer", "numel": 2**32}]})
    setup = Setup(workload, 2, 1, gpu, fabric, Runtime(), Ring(), TopK(density=2**-16), LayerwiseAdaptive(), 1.0)
    costs = price_costs(setup)
    powers = np.arange(1, 49)
    exact = powers * 2.0**powers * 1e-9
    np.testing.assert_allclose(costs.selection(2.0**powers), exact, rtol=1e-9)
    np.testing.assert_allclose(costs.selection(1.5 * 2.0 ** powers[:-1]), (exact[1:] + exact[:-1]) / 2, rtol=1e-9)


# Layer-wise adaptive densities


@given(
    items=sizes,
    startup=durations(0.2),
    slope=st.floats(1e-8, 2e-6),
    select=st.tuples(durations(0.2), durations(1e-7)),
    density=st.sampled_from([0.001, 0.01, 0.1]),
    highest=st.sampled_from([0.005, 0.25, 1.0]),
)
def test_lags_is_as_dense_as_overlap_can_hide(*, items, startup, slope, select, density, highest):
    """Each exchange that is denser than need be ends before the next tensor is ready, and could not be denser."""
    layers, costs = model(*items), affine(startup, slope, select, density)
    buckets = LayerwiseAdaptive(highest_density=highest).plan(layers, costs)
    assert [bucket.layers for bucket in buckets] == [(i,) for i in reversed(range(len(layers)))]
    ready, busy = np.cumsum([layers[b.ready_layer].backward + float(costs.selection(b.numel)) for b in buckets]), 0.0
    for bucket, now, following in zip(buckets, ready, [*ready[1:], ready[-1]], strict=True):
        start, chosen = max(now, busy), bucket.density
        busy = start + float(costs.exchange(bucket.numel * chosen / density))
        assert density <= chosen <= max(density, highest)
        if chosen > density:
            assert busy <= following * (1 + 1e-9)
        if chosen < max(density, highest):
            denser = start + float(costs.exchange(bucket.numel * chosen * (1 + 1e-6) / density))
            assert denser >= following * (1 - 1e-9)


def test_lags_in_time():
    """Gathered values and indices take 2 density n seconds. Tensors of 4, 1 and 1 million are ready at 1, 2 and 3.

    The first has a second: density 1 / (2 * 4) = 0.125. The second would fit at 0.5 and is held at 0.25, to 2.5. After
    the third nothing can hide it: 1 %, 0.02 s. After 3 s of forward that makes 6.02 s.
    """
    prediction = simulated([(1, 1, 1), (1, 1, 1), (4, 1, 1)], "lags", {"kind": "topk", "density": 0.01})
    assert [bucket.density for bucket in prediction.plan.work.buckets] == pytest.approx([0.125, 0.25, 0.01], rel=1e-3)
    assert [end for _, _, end in travels(prediction)] == pytest.approx([5, 5.5, 6.02], rel=1e-3)
    assert prediction.document["iteration_time_s"] == pytest.approx(6.02, rel=1e-3)


@pytest.mark.parametrize("sparsifier", ["dense", "qsgd", "signsgd"])
def test_lags_refuses_a_method_without_a_density(sparsifier):
    with pytest.raises(InputError, match=f"expected a sparsifier with a density, got {sparsifier}"):
        simulated([(1, 1, 1)] * 2, "lags", sparsifier)


def test_a_lone_worker_has_no_exchange_to_hide():
    """Nothing travels, so that there is nothing to refuse, nor to merge for."""
    for scheduler in ("lags", "mg_wfbp", "omgs"):
        made = simulated([(1, 1, 1)] * 2, scheduler, nodes=1, runtime={"negotiation": 10})
        assert made.document["iteration_time_s"] == pytest.approx(4, rel=1e-9)
        assert [bucket.layers for bucket in made.plan.work.buckets] == [(1,), (0,)]


def test_a_density_for_a_method_without_one_is_an_error():
    with pytest.raises(ValueError, match="a sparsifier with a density"):
        Dense().at_density(0.1)
    assert Dense().at_density(None) == Dense()


# Priority


@given(items=sizes, limit=st.floats(2e4, 3e6), tiny=st.lists(st.integers(1, 20), min_size=1), few=st.floats(1, 40))
def test_slices_are_no_larger_than_asked_and_make_up_each_tensor(items, limit, tiny, few):
    for kind in (Priority, WaitFree):
        slices_fit(model(*items), kind(partition=limit), limit)
        slices_fit(model(*((n, 0) for n in tiny)), kind(partition=few), few)


def slices_fit(layers, scheduler, limit):
    slices = scheduler.plan(layers)
    assert [item.index for item in slices] == list(range(len(slices)))
    assert all(FP32_BYTES * item.numel <= max(limit, FP32_BYTES) for item in slices)
    for layer, tensor in enumerate(layers):
        mine = [item for item in slices if item.layers == (layer,)]
        ends = np.cumsum([item.numel for item in mine])
        assert [item.offset for item in mine] == [0, *ends[:-1]]
        assert ends[-1] == tensor.numel
        assert {item.ready_layer for item in mine} == {layer}


THREE = [(1, 1, 1), (2, 1, 1), (4, 1, 1)]


@pytest.mark.parametrize(
    ("credit", "order", "total"),
    [
        # Slices of a second each. The last layer's (0 to 3) are ready at 1, the middle one's (4, 5) at 2, the first's
        # (6) at 3, when backward ends. One at a time, the most urgent: 0 | 4 | 6 | 5 | 1 2 3, so that the first layer
        # has its parameters at 4, the middle one at 5, the last at 8: forward from 4 to 6, and from 8 to 9.
        (0, [0, 4, 6, 5, 1, 2, 3], 9),
        (7.9e6, [0, 4, 6, 5, 1, 2, 3], 9),
        # Two slices may be handed over: 0 and 1 go at 1; 4 is handed over at 2 behind 1, 6 at 3 behind 4, then 5.
        # Parameters at 5, 6 and 8: forward from 5 to 7, and from 8 to 9.
        (8e6, [0, 1, 4, 6, 5, 2, 3], 9),
        # All at once: first in, first out. Parameters at 8, 7 and 5: forward from 8 to 11.
        (1e9, [0, 1, 2, 3, 4, 5, 6], 11),
    ],
)
def test_priority_and_credit_by_hand(credit, order, total):
    prediction = simulated(THREE, {"kind": "priority", "partition": 4e6, "credit": credit})
    assert travels(prediction) == [(bucket, 1 + i, 2 + i) for i, bucket in enumerate(order)]
    terms = prediction.document["breakdown_s"]
    assert prediction.document["iteration_time_s"] == pytest.approx(total, rel=1e-9)
    assert (terms["forward"], terms["backward"]) == pytest.approx((3, 3), rel=1e-9)
    assert terms["communication_exposed"] == pytest.approx(total - 6, rel=1e-9)


def test_spans_of_the_compute_stream_by_hand():
    """Forward is of no bucket; backward and selection by turns, from the last layer's bucket on."""
    quarter = {"curve": "affine", "intercept": 0.25}
    card = {"name": "card", "kernels": {"topk": quarter, "update": quarter}}
    made = simulated([(1, 1, 1), (1, 1, 0.5)], "wfbp", {"kind": "topk", "density": 0.5}, gpu=card, bandwidth=1e18)
    assert [(s.label, s.bucket, s.start, s.end) for s in made.iteration.spans() if s.stream == "compute"] == [
        ("forward", -1, 0, 2),
        ("backward", 0, 2, 2.5),
        ("selection", 0, 2.5, 2.75),
        ("backward", 1, 2.75, 3.75),
        ("selection", 1, 3.75, 4),
        ("update", -1, pytest.approx(4), pytest.approx(4.5)),
    ]


def test_first_in_first_out_with_a_barrier_by_hand():
    """Forward until 3, then the same seven seconds from 4 on; nothing of it hides behind the next forward pass."""
    assert took(THREE, {"kind": "wfbp", "partition": 4e6}) == pytest.approx(11, rel=1e-9)


def test_a_small_first_layer_overtakes_a_huge_last_one():
    """Ten seconds of slices from 1 on; the first layer's is ready at 2 and goes next: forward from 3 to 4, 12 to 13.

    Whole tensors can't be overtaken: 1 to 11, then 11 to 12; forward from 12 to 14.
    """
    layers = [(1, 1, 1), (10, 1, 1)]
    sliced = simulated(layers, {"kind": "priority", "partition": 4e6})
    assert travels(sliced)[1] == (10, 2, 3)
    assert sliced.document["iteration_time_s"] == pytest.approx(13, rel=1e-9)
    assert took(layers, "tictac") == pytest.approx(14, rel=1e-9)


@pytest.mark.parametrize(("topology", "seconds"), [("ring", 1), ("parameter_server", 4)])
def test_of_many_that_are_ready_at_once_the_first_layer_goes_first(topology, seconds):
    """A server takes 2 s for a million elements of two workers, and as long to send them back."""
    layers = [(1, 0, 0), (1, 0, 0), (1, 0, 0), (1, 0, 1)]
    prediction = simulated(layers, {"kind": "priority", "partition": WHOLE}, topology=topology)
    ends = [(bucket, 1 + (i + 1) * seconds) for i, bucket in enumerate((3, 2, 1, 0))]
    assert [(bucket, end) for bucket, _, end in travels(prediction)] == ends


@given(layers=profiles, latency=times, topology=st.sampled_from(["ring", "parameter_server"]))
def test_tictac_is_priority_with_whole_tensors_and_no_credit(layers, latency, topology):
    parts = {"latency": latency, "topology": topology}
    one, other = (simulated(layers, each, **parts) for each in ("tictac", {"kind": "priority", "partition": WHOLE}))
    assert travels(one) == travels(other)
    for key in ("iteration_time_s", "breakdown_s", "communication_total_s", "traffic"):
        assert one.document[key] == other.document[key]


def test_tictac_plans_whole_tensors():
    layers = model((3, 1), (2, 1))
    assert TicTac().plan(layers) == Priority(partition=WHOLE).plan(layers) == WaitFree().plan(layers)
    assert TicTac().queue == Priority().queue == Queue(by_priority=True, credit=0)


# Gated iterations


@given(layers=profiles, partition=st.floats(1e6, 1e7), credit=st.sampled_from([0, 4e6, 1e9]), latency=durations(0.5))
def test_waiting_layer_by_layer_is_never_slower_than_a_barrier(layers, partition, credit, latency):
    """The link is never left idle while a slice waits, so the last ends as early, and forward may start before."""
    gated = took(layers, {"kind": "priority", "partition": partition, "credit": credit}, latency=latency)
    assert gated <= took(layers, {"kind": "wfbp", "partition": partition}, latency=latency) * (1 + 1e-9)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["priority", "tictac", "decoupled"])
@pytest.mark.parametrize("topology", ["ring", "parameter_server"])
@given(layers=profiles)
def test_a_gated_iteration_on_an_endless_network_is_its_compute(kind, topology, layers):
    compute = sum(forward + backward for _, forward, backward in layers)
    assert took(layers, kind, topology=topology, bandwidth=1e18) == pytest.approx(compute, rel=1e-9, abs=1e-9)


# Decoupled all-reduce

EACH = {"kind": "decoupled", "bucket_size": 1}


def test_decoupled_by_hand():
    """Layers of 2, 2 and 4 million: halves of 1, 1 and 2 s. Ready in backward order at 1, 2 and 3.

    Reduce-scatters 1-3, 3-4, 4-5; all-gathers from the first layer on 5-6, 6-7, 7-9. Forward 6-7, 7-8, 9-10, so that
    of 10 s, 3 and 1 are spent waiting. Whole all-reduces with a barrier: forward until 3, 4-8, 8-10, 10-12.
    """
    layers = [(2, 1, 1), (2, 1, 1), (4, 1, 1)]
    prediction = simulated(layers, EACH)
    spans = [item for item in prediction.iteration.spans() if item.stream == "communication"]
    assert [(item.label, item.bucket, item.start, item.end) for item in spans] == [
        ("ReduceScatter", 0, 1, 3),
        ("ReduceScatter", 1, 3, 4),
        ("ReduceScatter", 2, 4, 5),
        ("AllGather", 2, 5, 6),
        ("AllGather", 1, 6, 7),
        ("AllGather", 0, 7, 9),
    ]
    document = prediction.document
    assert document["iteration_time_s"] == pytest.approx(10, rel=1e-9)
    assert document["breakdown_s"]["communication_exposed"] == pytest.approx(4, rel=1e-9)
    assert took(layers, "wfbp") == pytest.approx(12, rel=1e-9)


@pytest.mark.parametrize(
    ("launch", "starts"),
    [
        # Launched by 1.25, 2.25 and 3.25, all is reduced at 5.25; from then on a gather each is launched in 0.25 s.
        (0.25, [1.25, 3.25, 4.25, 5.5, 6.5, 7.5]),
        # Launched by 3, 5 and 7, all is reduced at 8; gathers at 10, 12 and 14.
        (2, [3, 5, 7, 10, 12, 14]),
    ],
)
@pytest.mark.parametrize("fidelity", ["auto", "flows"])
def test_gathers_are_launched_once_all_is_reduced(launch, starts, fidelity):
    runtime, layers = {"collective_launch": launch}, [(2, 1, 1), (2, 1, 1), (4, 1, 1)]
    prediction = simulated(layers, EACH, runtime=runtime, fidelity=fidelity)
    spans = [item for item in prediction.iteration.spans() if item.stream == "communication"]
    assert [item.bucket for item in spans] == [0, 1, 2, 2, 1, 0]
    assert [item.start for item in spans] == pytest.approx(starts, rel=1e-9)
    assert prediction.document["iteration_time_s"] == pytest.approx(starts[-1] + 3, rel=1e-9)


def test_decoupled_buckets_by_hand():
    """Fused to 16 MB: the last layer alone, the first two together; both their parameters come with one gather.

    Reduce-scatters 1-3 and 3-5, gathers 5-7 and 7-9: forward of the first two 7-9, of the last 9-10.
    """
    prediction = simulated([(2, 1, 1), (2, 1, 1), (4, 1, 1)], {"kind": "decoupled", "bucket_size": 16e6})
    assert [bucket.layers for bucket in prediction.plan.work.buckets] == [(2,), (1, 0)]
    assert prediction.document["iteration_time_s"] == pytest.approx(10, rel=1e-9)


@given(layers=profiles, nodes=st.integers(2, 5), sparsifier=st.sampled_from(["dense", "randomk", "union"]))
def test_decoupled_sends_the_same_bytes(layers, nodes, sparsifier):
    method = {"kind": "randomk", "density": 0.1} if sparsifier == "randomk" else "dense"
    if sparsifier == "union":
        method = {"kind": "topk", "density": 0.1, "exchange_by": "union_all_reduce"}
    halves, whole = (simulated(layers, each, method, nodes=nodes) for each in (EACH, "wfbp"))
    assert all(halves.plan.exchanges[1])
    for key in ("total_bytes", "sent_bytes_per_worker", "sent_bytes_per_worker_max"):
        assert halves.document["traffic"][key] == pytest.approx(whole.document["traffic"][key], rel=1e-9)


def test_gathered_pairs_have_no_second_half():
    """Half of the elements as values and indices take n seconds, as dense: 1-5, 5-7, 7-9, then forward until 12."""
    prediction = simulated([(2, 1, 1), (2, 1, 1), (4, 1, 1)], EACH, {"kind": "topk", "density": 0.5})
    assert not any(prediction.plan.exchanges[1])
    assert travels(prediction) == [(0, 1, 5), (1, 5, 7), (2, 7, 9)]
    assert prediction.document["iteration_time_s"] == pytest.approx(12, rel=1e-9)


def test_push_and_pull_have_no_second_half():
    """Of a million elements of two workers the server takes in 8 MB in 2 s, and sends as much: 1-3, 3-5."""
    prediction = simulated([(1, 1, 1)], EACH, topology="parameter_server")
    assert not any(prediction.plan.exchanges[1])
    assert prediction.document["iteration_time_s"] == pytest.approx(6, rel=1e-9)


def test_decoupled_plans_the_buckets_of_one_limit():
    layers, same = model((3, 1), (2, 1), (4, 1), (1, 1)), Bucketed(first_bucket=16, bucket_size=16)
    assert grouped(Decoupled(bucket_size=16), layers, affine(0, 0)) == grouped(same, layers, affine(0, 0))
    assert grouped(Decoupled(bucket_size=16), layers, affine(0, 0)) == [[3, 2], [1], [0]]


# Slices and selection


def test_selection_of_a_slice_runs_beside_the_exchange_of_the_one_before():
    """Top-k of n million elements takes 0.25 + n / 4 s; pairs of n / 4 million values and indices travel n / 2 s.

    Whole, 4 million: 1 + 1 of forward and backward, 1.25 to select, 2 on the way: 5.25. In four slices: selected by
    2.5, 3, 3.5 and 4, each on the way for 0.5: 4.5. Twice as dense, each slice is on the way for 1 s from 2.5 on: 6.5,
    whole 7.25. Three start-ups of selection are the price: with nothing to hide them behind, slices are slower.
    """
    card = {"name": "card", "kernels": {"topk": {"curve": "affine", "intercept": 0.25, "slope": 0.25e-6}}}
    for density, bandwidth, whole, sliced in ((0.25, 4e6, 5.25, 4.5), (0.5, 4e6, 7.25, 6.5), (0.25, 1e18, 3.25, 4)):
        parts = {"sparsifier": {"kind": "topk", "density": density}, "gpu": card, "bandwidth": bandwidth}
        assert took([(4, 1, 1)], "wfbp", **parts) == pytest.approx(whole, rel=1e-9)
        cut = simulated([(4, 1, 1)], {"kind": "wfbp", "partition": 4e6}, **parts)
        assert cut.document["iteration_time_s"] == pytest.approx(sliced, rel=1e-9)
        assert cut.document["breakdown_s"]["selection"] == pytest.approx(2, rel=1e-9)


# Many at a time


@pytest.mark.parametrize(
    ("credit", "total"),
    [
        # The server takes 2 s for a million elements of two workers, and 2 s to send them back. One at a time: 1-5 and
        # 5-9, forward of the first layer 9-10, of the last 10-11.
        (0, 11),
        # Both: pushes 1-3 and 3-5, pulls 3-5 and 5-7, the first layer's last: forward 7-9.
        (1e9, 9),
    ],
)
def test_credit_with_a_server_by_hand(credit, total):
    scheduler = {"kind": "priority", "partition": WHOLE, "credit": credit}
    assert took([(1, 1, 1), (1, 1, 1)], scheduler, topology="parameter_server") == pytest.approx(total, rel=1e-9)


@given(
    layers=profiles,
    partition=st.floats(1e6, 1e7),
    credit=or_none("size", 3e7),
    nodes=st.integers(2, 3),
    servers=st.integers(1, 3),
    placement=st.sampled_from(["sharded", "round_robin"]),
)
def test_no_more_than_the_credit_is_under_way(*, layers, partition, credit, nodes, servers, placement):
    prediction = simulated(
        layers,
        {"kind": "priority", "partition": partition, "credit": credit},
        topology={"kind": "parameter_server", "servers": servers, "placement": placement},
        nodes=nodes,
    )
    nbytes, when = prediction.plan.work.nbytes, travels(prediction)
    assert len(when) == len(nbytes)
    for _, now, _ in when:
        under_way = [bucket for bucket, start, end in when if start <= now < end]
        assert len(under_way) == 1 or sum(nbytes[bucket] for bucket in under_way) <= credit


@pytest.mark.parametrize("given", [{"startup": "1 s"}, {"per_byte": "1 ns"}])
def test_half_a_law_of_ones_own_is_refused(given):
    with pytest.raises(ValueError, match="expected `startup` and `per_byte` together, or neither, got one of them"):
        simulated([(0.5, 1, 0.6)], {"kind": "mg_wfbp", **given})
