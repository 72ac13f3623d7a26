"""Gradient accumulation: exact times by hand.

Two workers on a switch of 4 MB/s without start-up: an all-reduce of a million elements takes 1 s. Layers are (millions
of elements, seconds of forward, seconds of backward) of the whole batch, in forward order. Kernels are free unless a
test says otherwise; an element-wise kernel of `SLOW` takes 1 us per element.
"""

import math
from collections import defaultdict
from itertools import pairwise

import pytest
from drawn import durations
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from worked_scenarios import IDEAL, worked

from examples import example
from simulator.component import discover
from simulator.engine.plan.work.passes import Passes
from simulator.models.layers import Layer, Workload
from simulator.models.timeline import BREAKDOWN
from simulator.prediction.run import plan_of, run
from simulator.records import replace
from simulator.scenario.scenario import Scenario
from simulator.schedulers.base import Scheduler

SLOW = {"name": "slow", "kernels": {"elementwise": {"curve": "affine", "slope": 1e-6}}}
KINDS = list(discover(Scheduler))


def scenario(layers, micro_batches, *, batch=8, **parts):
    """A scenario of two workers, from (millions of elements, forward, backward) of each layer."""
    workload = {"batch_size": batch, "micro_batches": micro_batches, "update_time": 0.0}
    return Scenario.model_validate(worked(layers, workload=workload, **{"iterations": 2, "warmup": 0} | parts))


def predicted(*args, **parts):
    return run(scenario(*args, **parts)).document


def test_only_the_last_backward_pass_hides_the_exchange():
    """8 s of forward and 8 s of backward; layer 2 of 4 M elements is ready after half a backward pass.

    One pass: its exchange of 4 s begins at 12 s and is hidden. Four passes: the last backward pass is from 14 to 16 s,
    and the exchanges begin at 15 and 19 s and take 4 s each.
    """
    layers = [(4, 4, 4), (4, 4, 4)]
    assert predicted(layers, 1)["iteration_time_s"] == pytest.approx(20)
    made = predicted(layers, 4)
    assert (made["iteration_time_s"], made["breakdown_s"]["forward"]) == pytest.approx((23, 8))
    assert made["breakdown_s"]["backward"] == pytest.approx(8)
    assert made["breakdown_s"]["communication_exposed"] == pytest.approx(7)


def test_traffic_and_throughput_are_those_of_one_iteration():
    layers = [(1, 1, 1)]
    one, four = (predicted(layers, m) for m in (1, 4))
    assert four["traffic"] == {**one["traffic"], "busiest_link": four["traffic"]["busiest_link"]}
    assert four["throughput_samples_per_s"] == pytest.approx(2 * 8 / four["iteration_time_s"])


@pytest.mark.parametrize("micro_batches", [1, 2, 4, 8])
def test_gradients_are_added_in_every_pass_but_the_first(micro_batches):
    """Three million elements at 1 us each: m - 1 times 3 s of additions, which belong to the backward passes."""
    terms = predicted([(1, 1, 1), (2, 1, 1)], micro_batches, gpu=SLOW)["breakdown_s"]
    assert (terms["forward"], terms["backward"]) == pytest.approx((2, 2 + 3 * (micro_batches - 1)))


def test_gradients_of_16_bits_are_added_in_half_the_time():
    made = scenario([(2, 1, 1)], 3, batch=9, gpu=SLOW)
    short = made.model_copy(
        update={"workload": Workload.model_validate({**made.workload.model_dump(), "precision": "bf16"})}
    )
    for method in ("dense", {"kind": "topk", "density": 0.01}):
        work = plan_of(Scenario.model_validate({**short.model_dump(), "sparsifier": method})).work
        assert work.passes.earlier_backward == pytest.approx(2 / 3 + 2 / 2 * 1)
        assert work.before_last + work.backward.sum() == pytest.approx(2 + 2 * 1)


def test_an_addition_per_tensor_is_launched_in_every_pass():
    made = predicted([(1, 1, 1)] * 3, 4, runtime={"kernel_launch": 0.5})
    assert made["breakdown_s"]["backward"] == pytest.approx(3 + 3 * 3 * 0.5)


@pytest.mark.parametrize(("fused", "added"), [(True, 1), (False, 3)])
def test_products_of_megatron_add_the_gradients_that_they_make(fused, added):
    """Of two million elements and one million that no product makes, at 1 us each."""
    made = scenario([(2, 1, 1), (1, 1, 1)], 4, gpu=SLOW, scheduler={"kind": "megatron", "fused_accumulation": fused})
    document = made.model_dump()
    document["workload"]["layers"][0]["by_product"] = True
    work = plan_of(Scenario.model_validate(document)).work
    assert work.passes.earlier_backward == pytest.approx(3 * 2 / 4 + 2 * added)


def workload(micro_batches, *layers, host_ahead=False, **parts):
    """Layers are (forward, backward, host seconds of forward, of backward) of the whole batch."""
    names = ("forward", "backward", "forward_host", "backward_host")
    tensors = [Layer(name=f"{i}", numel=10, **dict(zip(names, times, strict=True))) for i, times in enumerate(layers)]
    return Workload(batch_size=8, micro_batches=micro_batches, layers=tensors, host_ahead=host_ahead, **parts)


def whole(made):
    return made.forward_time + made.backward_time


def test_the_host_launches_as_much_in_every_pass():
    """The GPU needs 4 s for the batch, the host 3 s for each pass: four passes of 1 s take as long as the host."""
    first, later = workload(4, (2, 2, 1, 2)).passes()
    assert whole(first) == pytest.approx(3)
    assert whole(later) == pytest.approx(3)
    assert [whole(made) for made in workload(1, (2, 2, 1, 2)).passes()] == pytest.approx([4, 4])


def test_a_host_that_is_slow_at_first_delays_the_first_pass_only():
    """Forward: host 3 s, GPU 1 s; backward: host 0 s, GPU 4 s. In a pass of 5 s the host needs 3 s."""
    first, later = workload(2, (2, 8, 3, 0)).passes()
    assert (first.forward_time, first.backward_time) == pytest.approx((3, 4))
    assert (later.forward_time, later.backward_time) == pytest.approx((1, 4))


TIMES = durations(3)


@given(
    layers=st.lists(st.tuples(TIMES, TIMES, TIMES, TIMES), min_size=1, max_size=4),
    passes=st.sampled_from([1, 2, 4, 8]),
    ahead=st.booleans(),
)
def test_passes_follow_the_recurrence_of_host_and_gpu(layers, passes, ahead):
    """e_i = max(max(e_(i-1), h_(i-1)) + g_i, h_i), one layer after the other through all passes."""
    first, later = workload(passes, *layers, host_ahead=ahead).passes()
    gpu = [item / passes for item in [*(x[0] for x in layers), *(x[1] for x in reversed(layers))]]
    host = [*(x[2] for x in layers), *(x[3] for x in reversed(layers))]
    end = launched = 0.0
    for g, h in zip(gpu * passes, host * passes, strict=True):
        end = max(max(end, launched) + g, launched + h)
        launched += h
    if ahead:
        end = passes * max(sum(gpu), sum(host))
    assert whole(first) + (passes - 1) * whole(later) == pytest.approx(end, rel=1e-9, abs=1e-12)


def test_a_measured_step_is_that_of_the_whole_batch_in_one_pass():
    first, later = scenario([(1, 1, 3)], 4).workload.model_copy(update={"compute_time": 8.0}).stretched(0.0).passes()
    assert (first.forward_time, later.backward_time) == pytest.approx((0.5, 1.5))


SHARDED = ("fsdp", "megatron", "zero")
"""Schedulers that gather parameters after the update, or wait for the last reduction before it."""
AT_OWN_PACE = ("overlapped_diloco", "decoupled_diloco")
"""Schedulers under which workers that differ do not end a period together."""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("jitter", [0.0, 0.2])
def test_terms_and_spans_fill_the_iteration_under_every_scheduler(kind, jitter):
    method = "dense" if kind in SHARDED else {"kind": "topk", "density": 0.01}
    made = scenario(
        [(1, 1, 1), (0.5, 0.5, 2), (2, 1, 1)],
        4,
        gpu=SLOW,
        sparsifier=method,
        scheduler=example(Scheduler, kind),
        stragglers={"jitter": jitter},
        runtime={"compute_slowdown": 0.3},
    )
    prediction = run(made)
    document, iteration = prediction.document, prediction.iteration
    assert math.fsum(document["breakdown_s"].values()) == pytest.approx(document["iteration_time_s"], rel=1e-9)
    terms = defaultdict(float)
    for worker in range(2):
        spans = iteration.spans_of(worker)
        assert {span.stream for span in spans} <= {"compute", "communication", "exchange kernel"}
        own = [span for span in spans if span.stream == "compute"]
        own.sort(key=lambda span: (span.start, span.end))
        assert own[0].start == 0
        if not (jitter and kind in AT_OWN_PACE):
            assert own[-1].end == pytest.approx(iteration.time, rel=1e-9)
        for before, after in pairwise(own):
            assert after.start == pytest.approx(before.end, rel=1e-9, abs=1e-12)
        for span in own:
            terms[span.term] += (span.duration - span.slowed) / 2
            terms["slowdown"] += span.slowed / 2
        order = [span.term for span in own if span.term in ("forward", "backward")]
        assert sum(a != b for a, b in pairwise(order)) >= 2 * 4 - 2
    for term in BREAKDOWN if kind != "decoupled_diloco" or not jitter else ():
        assert terms[term] == pytest.approx(iteration.breakdown[term], rel=1e-6, abs=1e-9 * iteration.time), term
    if not jitter:
        streams = ["compute", "communication"] if kind in SHARDED else ["compute"]  # here an update takes no time
        drawn = [span for span in iteration.spans() if span.stream in streams]
        assert max(span.end for span in drawn) == pytest.approx(iteration.time, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_single_gpu_takes_as_long_with_any_scheduler(kind):
    """One worker exchanges nothing: 4 s of compute, and 3 passes of 1.5 s of additions."""
    made = predicted([(0.5, 1, 1), (1, 1, 1)], 4, gpu=SLOW, scheduler=example(Scheduler, kind), nodes=1)
    assert (made["iteration_time_s"], made["scaling_efficiency"]) == pytest.approx((4 + 3 * 1.5, 1))


def test_a_slow_gpu_is_slow_in_every_pass():
    made = scenario([(1, 1, 1)], 4, other_gpus=[{"nodes": [1], "gpu": IDEAL, "factor": 3.0}])
    assert run(made).document["iteration_time_s"] == pytest.approx(3 * 2 + 1)
    launching = replace(made.workload.layers[0], forward_host=1.0, backward_host=1.0)
    bound = made.model_copy(update={"workload": made.workload.model_copy(update={"layers": (launching,)})})
    # The host needs 2 s for each of the four passes, more than either GPU.
    assert run(bound).document["iteration_time_s"] == pytest.approx(4 * 2 + 1)


@pytest.mark.parametrize("kind", KINDS)
def test_more_passes_are_never_faster(kind):
    method, scheduler = "dense" if kind in SHARDED else {"kind": "topk", "density": 0.1}, example(Scheduler, kind)
    times = [
        predicted([(1, 1, 2), (3, 2, 1)], m, gpu=SLOW, scheduler=scheduler, sparsifier=method)["iteration_time_s"]
        for m in (1, 2, 4, 8)
    ]
    assert times == sorted(times)


def test_batches_that_cannot_be_cut_are_refused():
    with pytest.raises(ValidationError, match="expected a number of micro-batches that divides the batch of 8, got 3"):
        scenario([(1, 1, 1)], 3)
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        scenario([(1, 1, 1)], 0)


def test_what_lies_between_the_first_forward_and_the_last_backward_pass():
    made = Passes(3, (1.0, 2.0), (3.0, 4.0))
    assert list(made.between()) == [("backward", 2.0), ("forward", 3.0), ("backward", 4.0), ("forward", 3.0)]
    assert (made.forward, made.earlier_backward) == (1 + 2 * 3, 2 + 4)
    assert not list(Passes(1, (1.0, 2.0), (3.0, 4.0)).between())
