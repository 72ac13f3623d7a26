"""DeMo against a transform by matrices, against its published sizes, and in a training step."""

import numpy as np
import pytest
from common import block, sent_per_worker

from simulator.engine.replay import Replay
from simulator.models.exchange import AllGather, Bucket
from simulator.models.gradients import Block
from simulator.models.overlap import INDEPENDENT
from simulator.sparsifiers.demo import DeMo

OLMO_1B = ((6144, 2048), (2048, 2048), (16384, 2048), (2048, 8192)) * 16 + ((50304, 2048),)
"""Tensors of OLMo-1B (allenai/OLMo, configs/official/OLMo-1B.yaml): no norm has weights, input and output are tied."""


def cosines(n):
    """The orthonormal DCT-II as a matrix: row i holds cos(pi (2 j + 1) i / 2n), scaled to norm 1."""
    j = np.arange(n)
    matrix = np.sqrt(2 / n) * np.cos(np.pi * (2 * j + 1) * j[:, None] / (2 * n))
    matrix[0] /= np.sqrt(2)
    return matrix


@pytest.mark.parametrize("n", [1, 2, 29, 60, 64])
def test_the_matrix_of_cosines_is_orthonormal(n):
    np.testing.assert_allclose(cosines(n).T @ cosines(n), np.eye(n), atol=1e-12)


@pytest.mark.parametrize(("k", "published"), [(32, 110.32), (1, 3.44)])
def test_olmo_1b_sends_what_was_published(k, published):
    """2411.19870: megabytes (1e6 B) of a step, cut off after two decimals: 287,296 chunks, k of 12 bytes each."""
    bucket, method = Bucket(0, tuple(a * b for a, b in OLMO_1B), 0), DeMo(k=k)
    assert bucket.numel == 1_176_764_416
    steps = method.exchange(method.expect(bucket, 2, INDEPENDENT), bucket, 2, "collective")
    nbytes = sum(step.nbytes for step in steps if isinstance(step, AllGather))
    assert nbytes == 287_296 * k * 12
    assert np.floor(nbytes / 1e4) / 100 == published
    assert sent_per_worker(steps, 2).tolist() == [nbytes] * 2


def transformed(tensor, shape, side, inverse=False):
    """Both sides of every block of side x side, by matrices of cosines."""
    made = tensor.reshape(shape).copy()
    for y in range(0, shape[0], side):
        for x in range(0, shape[1], side):
            part = made[y : y + side, x : x + side]
            down, across = (cosines(n).T if inverse else cosines(n) for n in part.shape)
            part[:] = down @ part @ across.T
    return made


def largest(coefficients, side, k):
    """Only the k largest of every block."""
    kept = np.zeros_like(coefficients)
    for y in range(0, coefficients.shape[0], side):
        for x in range(0, coefficients.shape[1], side):
            part = coefficients[y : y + side, x : x + side].ravel()
            order, flat = np.argsort(-np.abs(part), kind="stable")[:k], np.zeros(side * side)
            flat[order] = part[order]
            kept[y : y + side, x : x + side] = flat.reshape(side, side)
    return kept


def test_every_step_is_the_published_one():
    """The momentum less what was sent, and the sign of the mean of each coefficient over those who sent it."""
    shape, side, k, draws = (16, 24), 8, 3, np.random.default_rng(4)
    method, momentum, state = DeMo(chunk=side, k=k, momentum=0.9), np.zeros((3, *shape)), None
    for iteration in range(4):
        values = draws.standard_normal((3, 384)).astype(np.float32)
        whole = block(values, (384,), iteration)
        item = Block(values, whole.piece, whole.coordinate, whole.weight, (384,), iteration, (shape,))
        state = method.start(item) if state is None else state
        done, momentum = method.select(state, item), 0.9 * momentum + values.reshape(3, *shape)
        sent = [largest(transformed(own, shape, side), side, k) for own in momentum]
        momentum -= [transformed(own, shape, side, inverse=True) for own in sent]
        kept = [transformed(own, shape, side).ravel() for own in momentum]
        np.testing.assert_allclose(state["residual"], kept, atol=1e-4)
        energy = float(np.square(momentum).sum())
        assert done.losses.sum() == pytest.approx(energy, rel=1e-5)  # the transform keeps norms
        senders = np.maximum(1, np.sum([own != 0 for own in sent], axis=0))
        update = transformed(np.sum(sent, axis=0) / senders, shape, side, inverse=True).ravel()
        clear = np.abs(update) > 1e-4
        np.testing.assert_array_equal(method.combine(done, item)[clear], np.sign(update)[clear])
        assert done.selection.selected.tolist() == [6 * k] * 3
        assert done.selection.aggregated == np.count_nonzero(np.sum([own != 0 for own in sent], axis=0))


def test_a_smooth_gradient_is_one_coefficient():
    """A cosine along the rows of a chunk: all of it is sent, and its sign is the step."""
    wave = np.cos(np.pi * (2 * np.arange(64) + 1) * 5 / 128)
    gradient = np.repeat(wave[None], 64, axis=0).ravel().astype(np.float32)[None]
    method, item = DeMo(k=1), block(gradient, (4096,))
    done = method.select(method.start(item), item)
    assert done.losses.sum() / done.energies.sum() < 1e-10
    np.testing.assert_array_equal(method.combine(done, item), np.sign(gradient[0]))


def test_recorded_residuals_are_transformed_before_they_are_selected_from():
    """A replay that is given half of the gradient as momentum sends what one without it sends of one and a half."""
    gradient = np.random.default_rng(13).standard_normal((2, 4096)).astype(np.float32)
    method = DeMo(momentum=0.5)
    (begun,) = Replay(method).advance(block(gradient, (4096,)), gradient)
    (fresh,) = Replay(method).advance(block(1.5 * gradient, (4096,)))
    assert (begun.energy, begun.lost) == pytest.approx((fresh.energy, fresh.lost), rel=1e-5)
    assert begun.selection.aggregated == fresh.selection.aggregated
