"""Work of the host around an exchange: copies, the optimiser's calls, and hooks of modules, by hand.

Two workers on a switch of 4 MB/s without start-up: an all-reduce of a million elements takes 1 s; kernels are free.
"""

import pytest
from worked_scenarios import exact, worked

from simulator.prediction.run import run
from simulator.scenario.scenario import Scenario

SLICES = {"kind": "priority", "partition": "4 MB"}
FIVE_CALLS = {"kind": "momentum", "weight_decay": True, "nesterov": True}


def took(layers=(("a.weight", 1, 1),), nodes=2, runtime=None, workload=None, cluster=None, **parts):
    """Seconds of an iteration from (name, forward, backward) of each layer, a million elements each.

    The host's forward and backward may follow.
    """
    cluster = {"nodes": nodes, "runtime": {"name": "host", **(runtime or {})}, **(cluster or {})}
    made = worked([(1, *times) for _, *times in layers], workload=workload, **cluster, **parts)
    for tensor, (name, *_) in zip(made["workload"]["layers"], layers, strict=True):
        tensor["name"] = name
    return run(Scenario.model_validate(made)).document["iteration_time_s"]


def test_the_host_works_on_every_element_of_an_exchanged_gradient():
    per_element = {"exchange_element": "500 ns"}
    assert took() == exact(3)
    assert took(runtime=per_element) == exact(3.5)
    assert took(runtime=per_element, nodes=1) == exact(2)
    # Two collectives of ten thousand pairs each, 0.02 s, and the copies of one gradient, whatever is sent of it.
    topk = {"kind": "topk", "density": 0.01}
    assert took(runtime=per_element, sparsifier=topk) - took(sparsifier=topk) == exact(0.5)


def test_calls_of_the_optimiser_are_hidden_on_one_gpu_and_not_after_an_exchange():
    calls, launch = {"optimiser": FIVE_CALLS}, {"update_launch": "0.1 s"}
    assert took(runtime=launch) == exact(3.3)  # momentum: two passes over the momentum, one over the weights
    assert took(workload=calls) == exact(3)
    assert took(workload=calls, runtime=launch) == exact(3.5)
    assert took(workload=calls, runtime=launch, nodes=1) == exact(2)
    two = [("a.weight", 1, 1), ("b.weight", 0, 0)]
    assert took(two, workload=calls, runtime=launch) == exact(3 + 1)  # the second exchange ends at 3, then 10 calls


def test_a_measured_compute_time_has_hidden_the_calls():
    measured = {"optimiser": FIVE_CALLS, "compute_time": "4 s"}
    assert took(workload=measured, runtime={"update_launch": "0.1 s"}) == exact(4 + 1 + 0.5)


@pytest.mark.parametrize(
    ("hook", "seconds"),
    [
        # Backward 2 s, of which b's exchange takes the second half; a's follows, and is done at 3.
        (0, 5),
        # Hooks of a and b return at 3.5 and 4: a computes 3.5-4.5, b 4.5-5.5.
        (0.5, 5.5),
        # Hooks return at 5 and 7: a computes 5-6, b 7-8.
        (2, 8),
    ],
)
def test_hooks_run_one_after_the_other_and_ahead_of_the_gpu(hook, seconds):
    layers = [("a.weight", 1, 1), ("b.weight", 1, 1)]
    assert took(layers, scheduler=SLICES, runtime={"forward_hook": hook}) == exact(seconds)
    assert took(layers, runtime={"forward_hook": hook}) == exact(5)  # not gated: no hook waits


def test_tensors_of_one_module_share_a_hook():
    layers = [("a.weight", 1, 1), ("a.bias", 1, 1)]
    # Both have arrived at 3, the hook returns at 5, and two forward passes follow.
    assert took(layers, scheduler=SLICES, runtime={"forward_hook": 2}) == exact(7)


def test_the_fitted_on_a_workload_takes_the_place_of_the_runtime_s():
    layers = [("a.weight", 0, 1), ("b.weight", 0, 1)]
    # b is exchanged from 1 to 2, so that only half of a's second passes until then: a is ready at 2.5.
    assert took(layers, runtime={"compute_slowdown": 1}) == exact(3.5)
    assert took(layers, workload={"compute_slowdown": 1}) == exact(3.5)
    assert took(layers, workload={"compute_slowdown": 0}, runtime={"compute_slowdown": 1}) == exact(3)


def test_a_runtime_that_fills_buckets_copies_every_gradient_there_and_back_with_one_worker_too():
    """One call takes 0.1 s, elements nothing: copies of two tensors, a division of their bucket, and copies back."""
    call = {"curve": "affine", "intercept": "0.1 s", "slope": "0 s"}
    gpu = {"name": "slow to start", "kernels": {"elementwise": call, "copy": call}}
    fills, layers = {"fills_buckets": True}, [("a.weight", 1, 1), ("b.weight", 0, 0)]
    bucket = {"kind": "bucketed", "first_bucket": "8 MB"}

    def on_gpu(nodes, runtime):
        return took(layers, nodes, runtime, {"update_time": "0.2 s"}, {"gpu": gpu}, scheduler=bucket)

    assert on_gpu(1, {}) == exact(2 + 0.2)
    assert on_gpu(1, fills) == exact(2.2 + 0.3 + 0.2)
    # An all-reduce of both takes 2 s. By itself the method packs them with one call each way, as one kernel.
    assert on_gpu(2, {}) == exact(2.2 + 2 + 0.1 + 0.1)
    assert on_gpu(2, fills) == exact(2.2 + 2 + 0.3 + 0.2)


LAUNCHED = [("a.weight", 1, 1, 2, 2)]
"""One layer of 1 s and 1 s on the GPU, which the host launches in 2 s and 2 s."""


def test_the_gpu_waits_for_launches():
    assert took(LAUNCHED, nodes=1) == exact(4)
    assert took(LAUNCHED) == exact(4 + 1)
    assert took(LAUNCHED, scheduler="priority") == exact(4 + 1)
    # The host has launched the last layer's backward pass before the GPU is done with its forward pass.
    assert took([("a.weight", 1, 1, 0, 0), ("b.weight", 3, 1, 2, 2)], nodes=1) == exact(6)


@pytest.mark.parametrize("scheduler", ["wfbp", "sequential", "priority"])
@pytest.mark.parametrize(("factor", "seconds"), [(0.5, 4), (2, 4), (3, 6)])
def test_another_gpu_computes_at_its_own_pace_what_the_same_host_launches(scheduler, factor, seconds):
    """The other GPU needs `factor` and `factor` s for what the host launches in 2 s and 2 s."""
    cluster = {"other_gpus": [{"nodes": [1], "gpu": {"name": "other", "ideal": True}, "factor": factor}]}
    assert took(LAUNCHED, cluster=cluster, scheduler=scheduler) == exact(seconds + 1)
    # Measured as 8 s, all of it takes twice as long.
    measured = {"compute_time": "8 s"}
    assert took(LAUNCHED, cluster=cluster, scheduler=scheduler, workload=measured) == exact(2 * seconds + 1)


def test_a_measured_update_takes_its_time_and_no_less_than_its_calls_after_an_exchange():
    assert took(workload={"update_time": "0.25 s"}) == exact(3 + 0.25)
    assert took(workload={"update_time": "0.25 s", "compute_time": "4.25 s"}) == exact(4 + 1 + 0.25)
    calls = {"update_time": "0.25 s", "optimiser": FIVE_CALLS}
    assert took(workload=calls, runtime={"update_launch": "0.1 s"}) == exact(3 + 0.5)
    assert took(workload=calls, runtime={"update_launch": "0.1 s"}, nodes=1) == exact(2 + 0.25)
