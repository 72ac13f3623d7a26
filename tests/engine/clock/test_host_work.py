"""Work of the host around an exchange: copies, the optimiser's calls, and hooks of modules, by hand.

Two workers on a switch of 4 MB/s without start-up: an all-reduce of a million elements takes 1 s; kernels are free.
"""

import pytest

from simulator.prediction.run import run
from simulator.scenario.scenario import Scenario

M = 1_000_000
SLICES = {"kind": "priority", "partition": "4 MB"}
FIVE_CALLS = {"kind": "momentum", "weight_decay": True, "nesterov": True}


IDEAL = {"name": "ideal", "ideal": True}


def took(layers=(("a.weight", 1, 1),), nodes=2, runtime=None, workload=None, gpu=IDEAL, **parts):
    """Seconds of an iteration from (name, forward, backward) of each layer, a million elements each."""
    tensors = [
        {"name": name, "numel": M, "forward": float(forward), "backward": float(backward)}
        for name, forward, backward in layers
    ]
    made = {
        "workload": {"batch_size": 1, "layers": tensors, **(workload or {})},
        "cluster": {
            "nodes": nodes,
            "gpu": gpu,
            "network": {"kind": "single_switch", "bandwidth": 4e6},
            "runtime": {"name": "host", **(runtime or {})},
        },
        **{"topology": "ring", "sparsifier": "dense", "scheduler": "wfbp", **parts},
    }
    return run(Scenario.model_validate(made)).document["iteration_time_s"]


def exact(seconds):
    return pytest.approx(seconds, rel=1e-9)


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


def test_the_slowdown_of_a_workload_takes_the_place_of_the_runtime_s():
    layers = [("a.weight", 0, 1), ("b.weight", 0, 1)]
    # b is exchanged from 1 to 2, so that only half of a's second passes until then: a is ready at 2.5.
    assert took(layers, runtime={"compute_slowdown": 1}) == exact(3.5)
    assert took(layers, workload={"compute_slowdown": 1}) == exact(3.5)
    assert took(layers, workload={"compute_slowdown": 0}, runtime={"compute_slowdown": 1}) == exact(3)


def test_a_runtime_that_fills_buckets_copies_every_gradient_there_and_back_with_one_worker_too():
    """One call takes 0.1 s, elements nothing: copies of two tensors, a division of their bucket, and copies back."""
    gpu = {
        "name": "slow to start",
        "kernels": {"elementwise": {"curve": "affine", "intercept": "0.1 s", "slope": "0 s"}},
    }
    fills, layers = {"fills_buckets": True}, [("a.weight", 1, 1), ("b.weight", 0, 0)]
    bucket = {"kind": "bucketed", "first_bucket": "8 MB"}

    def on_gpu(nodes, runtime):
        return took(layers, nodes, runtime, gpu=gpu, scheduler=bucket)

    assert on_gpu(1, {}) == exact(2 + 0.2)  # the update's own calls
    assert on_gpu(1, fills) == exact(2.2 + 0.3 + 0.2)
    # An all-reduce of both takes 2 s. By itself the method packs them with one call each way, as one kernel.
    assert on_gpu(2, {}) == exact(2.2 + 2 + 0.1 + 0.1)
    assert on_gpu(2, fills) == exact(2.2 + 2 + 0.3 + 0.2)
