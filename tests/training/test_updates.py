"""The updates of a training against PyTorch's own optimiser, and against the definition of what is in the loop."""

from importlib.util import find_spec

import numpy as np
import pytest

from simulator.trainings.options import read_options

pytestmark = [pytest.mark.torch, pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")]


def loop_of(**keys):
    from simulator.training.loop import _Loop
    from simulator.training.task import load_task

    options = read_options({"task": "mlp-digits", "workers": 3, "parameters": {"width": 8}, **keys})
    return _Loop(load_task(options))


def weights_after(iterations, **keys):
    loop = loop_of(**keys)
    before = loop.workers.weights.numpy().copy()
    for _ in range(iterations):
        assert loop.step() == ""
    return before, loop.workers.weights.numpy().copy()


def reference(iterations, learning_rate, momentum):
    """Dense training with PyTorch's SGD, worker after worker."""
    import torch

    loop = loop_of()
    model, parameters = loop.task.model, list(loop.task.model.parameters())
    optimiser = torch.optim.SGD(parameters, learning_rate, momentum)
    for _ in range(iterations):
        rows = []
        for batches in loop.task.batches:
            rows.append(torch.autograd.grad(loop.task.loss(model, next(batches)), parameters))
        for parameter, found in zip(parameters, zip(*rows, strict=True), strict=True):
            parameter.grad = torch.stack(found).mean(0)
        optimiser.step()
    return loop.workers.weights.numpy()


def test_dense_training_is_that_of_pytorch():
    np.testing.assert_allclose(
        weights_after(8, learning_rate=0.1, momentum=0.8)[1], reference(8, 0.1, 0.8), rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize(("precision", "bits"), [("fp32", 24), ("fp16", 11), ("bf16", 8)])
def test_gradients_are_rounded_before_the_exchange(precision, bits):
    """A number with so many significant bits is within 2^-bits of the exact one."""
    import torch

    exact, _ = loop_of().workers.gradients()
    rounded, _ = loop_of(precision=precision).workers.gradients()
    dtype = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[precision]
    assert torch.equal(rounded, exact.to(dtype).float())
    error = ((rounded - exact).abs() / exact.abs())[(exact.abs() > 1e-3)].max()
    assert error <= 2.0**-bits and (error > 0) == (precision != "fp32")


def test_a_momentum_of_the_method_replaces_that_of_sgd():
    """DGC that sends everything: momentum correction is then SGD with momentum (Lin et al. 2018, section 3.2)."""
    method = {"kind": "dgc", "density": 1.0, "momentum": 0.8, "masking": False, "sample_ratio": 1.0}
    both = [weights_after(6, learning_rate=0.1, momentum=m, method=method)[1] for m in (0.0, 0.9)]
    np.testing.assert_array_equal(*both)
    np.testing.assert_allclose(both[0], reference(6, 0.1, 0.8), rtol=1e-4, atol=1e-6)


def test_one_worker_with_local_steps_is_sgd():
    """The mean difference of one worker, applied with learning rate 1, are its own weights."""
    keys = {"workers": 1, "learning_rate": 0.1, "momentum": 0.8}
    apart = weights_after(2, **keys, local_steps=3)[1]
    np.testing.assert_allclose(apart, weights_after(6, **keys)[1], rtol=1e-4, atol=1e-6)


def test_local_steps_are_averaged_and_scaled_by_the_outer_learning_rate():
    before, whole = weights_after(1, learning_rate=0.1, local_steps=4)
    _, half = weights_after(1, learning_rate=0.1, local_steps=4, outer_learning_rate=0.5)
    np.testing.assert_allclose(half - before, 0.5 * (whole - before), atol=1e-6)
    assert np.abs(whole - before).max() > 0.01


def test_workers_get_different_batches_of_one_epoch():
    from simulator.training.tasks.digits import batches, samples

    counts = np.zeros(10)
    size = (len(samples()[0]) - len(range(0, len(samples()[0]), 5))) // 4
    for worker in range(4):
        images, digits = next(batches(worker, 4, size, seed=7))
        assert images.shape == (size, 1, 8, 8)
        counts += np.bincount(digits.numpy(), minlength=10)
    assert np.abs(counts - np.bincount(samples()[1][(np.arange(len(samples()[1])) % 5 != 0)], minlength=10)).sum() <= 4
