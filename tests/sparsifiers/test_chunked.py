"""Chunks of tensors: their sizes, their elements against plain loops, and the k largest of each."""

import numpy as np
import pytest
from common import block

from simulator.engine.replay import Replay
from simulator.errors import InputError
from simulator.models.exchange import Bucket
from simulator.models.gradients import Block
from simulator.models.overlap import INDEPENDENT
from simulator.sparsifiers.chunked import join_chunks, split_chunks
from simulator.sparsifiers.demo import DeMo
from simulator.sparsifiers.sparseloco import SparseLoCo


def sizes(chunks):
    return [(c.number, c.rows, c.columns) for c in chunks]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((2048, 8192), (4096, 64, 64)),
        ((50257, 256), (1733 * 4, 29, 64)),
        ((2048,), (32, 1, 64)),
        ((300,), (5, 1, 60)),
        ((67,), (67, 1, 1)),
        ((128, 3, 3, 3), (2, 64, 27)),
    ],
)
def test_sides_are_the_largest_divisors(shape, expected):
    numel = int(np.prod(shape))
    assert sizes(SparseLoCo().chunks_of(numel, shape)) == [expected]
    stated = (1, *shape) if len(shape) == 1 else (shape[0], numel // shape[0])
    assert sizes(SparseLoCo(matrices=(stated,)).chunks_of(numel)) == [expected]


def test_without_a_shape_chunks_are_elements_in_a_row_and_the_rest():
    method = SparseLoCo()
    assert sizes(method.chunks_of(3 * 4096)) == [(3, 64, 64)]
    assert sizes(method.chunks_of(3 * 4096 + 5)) == [(3, 64, 64), (1, 1, 5)]
    assert sizes(method.chunks_of(100)) == [(1, 1, 100)]
    assert method.counts(Bucket(0, (3 * 4096 + 5, 100), 0)).tolist() == [197, 64]
    # A slice of a tensor does not have its shape.
    assert sizes(method.chunks_of(4096, (128, 64))) == [(1, 64, 64)]


def test_a_chunk_is_a_block_of_the_matrix():
    matrix = np.arange(8 * 6, dtype=np.float32).reshape(8, 6)
    chunks = SparseLoCo(chunk=4).chunks_of(48, (8, 6))
    ((_, parts),) = split_chunks(matrix.ravel(), chunks)
    np.testing.assert_array_equal(parts, [matrix[y : y + 4, x : x + 3] for y in (0, 4) for x in (0, 3)])
    np.testing.assert_array_equal(join_chunks([parts], chunks), matrix.ravel())


def test_the_largest_of_every_chunk_against_sorted_lists():
    draws, method = np.random.default_rng(3), SparseLoCo(chunk=4, k=5)
    values = draws.integers(-6, 7, 8 * 6 + 20).astype(np.float32)  # with many equal magnitudes
    for shape, numel in (((8, 6), 48), (None, 20)):
        tensor, chunks = values[:numel], method.chunks_of(numel, shape)
        mask = method.largest_of_chunks(tensor, chunks)
        for _, parts in split_chunks(np.arange(numel, dtype=np.float32), chunks):
            for part in parts.reshape(len(parts), -1).astype(int):
                order = sorted(part.tolist(), key=lambda i: (-abs(tensor[i]), i))
                assert set(part[mask[part]].tolist()) == set(order[:5])


def test_the_closed_form_is_that_of_a_replay_of_independent_gradients():
    shapes, workers = ((128, 192), (64,), (100, 64)), 6
    numels = tuple(int(np.prod(shape)) for shape in shapes)
    values = np.random.default_rng(5).standard_normal((workers, sum(numels))).astype(np.float32)
    whole = block(values, numels)
    known = Block(values, whole.piece, whole.coordinate, whole.weight, numels, shapes=shapes)
    for method in (SparseLoCo(matrices=((1, 64), (100, 64))), DeMo(matrices=((1, 64), (100, 64)))):
        expected = method.expect(Bucket(0, numels, 0), workers, INDEPENDENT)
        found = method.select(method.start(known), known).selection
        assert found.selected.tolist() == expected.selected.tolist()
        assert (found.largest, found.target) == (expected.largest, expected.target)
        assert found.aggregated == pytest.approx(expected.aggregated, rel=0.02)


def test_a_sample_of_coordinates_is_refused():
    values = np.ones((2, 50), dtype=np.float32)
    sampled = Block(values, np.zeros(50, int), np.arange(50) * 2, np.full(50, 2.0), (100,))
    for method in (DeMo(), SparseLoCo()):
        for residual in (None, values):
            with pytest.raises(InputError, match="elements that lie together"):
                Replay(method).advance(sampled, residual)
