"""PowerSGD against power iteration by Gram-Schmidt, matrix by matrix; exact ranks, energy, bytes."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from replayed import select
from sharded_scenarios import sharded

from simulator.models.exchange import AllReduce, Bucket, Compute, PushPull
from simulator.models.gradients import Block
from simulator.prediction.run import plan_of
from simulator.scenario.named_parts import read_workload
from simulator.schedulers.base import buckets_of, partition, singles
from simulator.sparsifiers.powersgd import PowerSGD


def block(values, shapes, iteration=0, known=True):
    numels = tuple(int(np.prod(shape)) for shape in shapes)
    d, piece = sum(numels), np.repeat(np.arange(len(numels)), numels)
    values = np.asarray(values, dtype=np.float32)
    return Block(values, piece, np.arange(d), np.ones(d), numels, iteration, tuple(shapes) if known else ())


def orthogonal(p):
    """Gram-Schmidt, column by column."""
    columns = []
    for column in p.T:
        rest = column - sum(((other @ column) * other for other in columns), np.zeros_like(column))
        columns.append(rest / np.sqrt(rest @ rest))
    return np.array(columns).T


def low_rank(rng, a, b, rank):
    return rng.standard_normal((a, rank)) @ rng.standard_normal((rank, b))


def run(member, values, shapes, iterations=1):
    state = member.start(block(values, shapes))
    for iteration in range(iterations):
        state, _, u, choice = select(member, state, block(values, shapes, iteration))
    return state, u, choice


@pytest.mark.parametrize("warm_start", [True, False])
def test_it_is_power_iteration_with_two_all_reduces_and_error_feedback(warm_start):
    """Three workers, two matrices and a vector, five iterations: each worker multiplies its own matrix."""
    shapes, workers, rank = [(12, 9), (15,), (10, 2, 4)], 3, 2
    matrices = {0: (12, 9, slice(0, 108)), 2: (10, 8, slice(123, 203))}
    rng = np.random.default_rng(11)
    member = PowerSGD(rank=rank, warm_start=warm_start, seed=4)
    state, residual, known = None, np.zeros((workers, 203)), {}
    for iteration in range(5):
        values = rng.standard_normal((workers, 203)).astype(np.float32)
        state = member.start(block(values, shapes)) if state is None else state
        state, selection, _, choice = select(member, state, block(values, shapes, iteration))
        draws, own = np.random.default_rng([4, iteration, 0]), residual + values
        expected = own.copy()
        for tensor, (a, b, at) in matrices.items():
            q = known[tensor] if warm_start and known.get(tensor) is not None else draws.standard_normal((b, rank))
            each = [row[at].reshape(a, b) for row in own]
            p = orthogonal(sum(m @ q for m in each) / workers)
            known[tensor] = sum(m.T @ p for m in each) / workers
            expected[:, at] = (p @ known[tensor].T).ravel()
        np.testing.assert_allclose(choice.sent, expected, atol=2e-5)
        residual = own - expected
        np.testing.assert_allclose(state["residual"], residual, atol=5e-5)
        assert np.abs(state["residual"][:, 108:123]).max() == 0
        assert selection.aggregated == 203
        assert selection.detail == {"p": 2.0 * (12 + 10), "q": 2.0 * (9 + 8), "dense": 15.0}


@given(rank=st.integers(1, 6), true=st.integers(1, 6), seed=st.integers(0, 500), workers=st.integers(1, 4))
def test_it_is_exact_from_the_matrix_rank_upwards_and_only_then(rank, true, seed, workers):
    values = np.tile(low_rank(np.random.default_rng(seed), 30, 40, true).ravel(), (workers, 1))
    _, u, choice = run(PowerSGD(rank=rank), values, [(30, 40)])
    lost = np.square(u - choice.sent).sum() / np.square(u).sum()
    if rank >= true:
        assert lost < 1e-8
    else:
        assert lost > 1e-4


def test_more_rank_keeps_more_energy_and_warm_starts_find_the_best():
    rng = np.random.default_rng(3)
    matrix = low_rank(rng, 64, 48, 48) * 0.2 + 5 * low_rank(rng, 64, 48, 3)
    singular, kept, best = np.linalg.svd(matrix, compute_uv=False), [], []
    for rank in (1, 2, 3, 6, 12, 20):
        _, u, choice = run(PowerSGD(rank=rank, error_feedback=False), [matrix.ravel()], [(64, 48)], iterations=12)
        kept.append(1 - float(np.square(u - choice.sent).sum() / np.square(u).sum()))
        best.append(float((singular[:rank] ** 2).sum() / (singular**2).sum()))
    assert all(after > before for before, after in pairwise(kept))
    assert all(0.97 * limit <= share <= limit + 1e-6 for share, limit in zip(kept, best, strict=True))


def test_only_what_the_sum_lacks_stays_behind():
    """The mean of the residuals is the mean gradient minus what is decoded, so the sum loses nothing for long."""
    values = np.random.default_rng(5).standard_normal((4, 600)).astype(np.float32)
    member, total = PowerSGD(rank=2), np.zeros(600)
    state = member.start(block(values, [(30, 20)]))
    for iteration in range(200):
        state, _, _, choice = select(member, state, block(values, [(30, 20)], iteration))
        total += choice.sent.mean(axis=0)
    mean = values.mean(axis=0)
    assert np.linalg.norm(total / 200 - mean) / np.linalg.norm(mean) < 0.1
    np.testing.assert_allclose(total + state["residual"].mean(axis=0), 200 * mean, atol=0.02)


def test_a_whole_block_ignores_how_it_is_held():
    values = np.random.default_rng(9).standard_normal((1, 400)).astype(np.float32)
    sents = [
        select(PowerSGD(), PowerSGD().start(item), item)[3].sent
        for item in (block(values, [(20, 20)]), block(values, [(20, 20)], known=False))
    ]
    np.testing.assert_array_equal(*sents)


@pytest.mark.parametrize("workers", [2, 8, 16])
def test_two_dependent_sums_of_all_factors_travel_and_vectors_densely(workers):
    member = PowerSGD(rank=4, matrices=((512, 4608),))
    bucket = Bucket(0, (512 * 4608, 512, 7, 64 * 100), 0)
    selection = member.expect(bucket, workers, 10.0)
    steps = member.exchange(selection, bucket, workers, "collective")
    sums = [step.nbytes for step in steps if isinstance(step, AllReduce)]
    # 512 = 16 * 32 has smaller factors at rank 4 (192), 7 has none; 64 * 100 = 80 * 80
    assert sums == [4 * 7, 4 * 4 * (512 + 16 + 80), 4 * 4 * (4608 + 32 + 80)]
    assert sum(sums) == 4 * (4 * (512 + 4608 + 16 + 32 + 160) + 7)
    assert [type(step) for step in steps if not isinstance(step, Compute)] == [AllReduce] * 3
    assert isinstance(steps[2], Compute)
    assert isinstance(steps[3], Compute)
    servers = member.exchange(selection, bucket, workers, "push_pull")
    assert [step.push_nbytes for step in servers if isinstance(step, PushPull)] == sums
    dense = Bucket(0, (7, 11), 0)
    assert member.exchange(member.expect(dense, workers, 1.0), dense, workers, "collective") == [AllReduce(72)]
    assert member.compute(selection, dense, workers) == []


def test_alternating_factors_travel_in_one_sum_of_their_mean_size():
    """A product, a sum and a product instead of two products, two sums and a product; half of the bytes of both."""
    bucket, workers = Bucket(0, (512 * 4608, 512 * 7, 7), 0), 8
    member = PowerSGD(implementation="alternating", matrices=((512, 4608), (512, 7)))
    kernels, steps = member.carry_out(member.expect(bucket, workers, 10.0), bucket, workers, "collective")
    assert [step.nbytes for step in steps if isinstance(step, AllReduce)] == [4 * 7, 4 * 4 * (512 + 4608 + 512 + 7) / 2]
    assert [item.kernel for item in kernels] == ["residual_add", "elementwise", "matmul"]
    assert kernels[1].elements == (*(2560.0 * n for n in (4, 3, 2, 1)), *(259.5 * n for n in (4, 3, 2, 1)))
    assert [item.kernel for item in steps if isinstance(item, Compute)] == ["matmul", "residual_clear"]
    # The residuals, and both factors of either matrix.
    assert member.state_values(bucket.pieces) == 512 * 4608 + 512 * 7 + 4 * (512 + 4608 + 512 + 7)


def test_replayed_shapes_set_the_traffic():
    shapes = [(16, 1000)]
    values = np.random.default_rng(0).standard_normal((2, 16_000))
    member, item = PowerSGD(rank=2), block(values, shapes)
    _, selection, _, _ = select(member, member.start(item), item)
    bucket = Bucket(0, (16_000,), 0)
    replayed = member.exchange(selection, bucket, 2, "collective")
    closed = member.exchange(member.expect(bucket, 2, 1.0), bucket, 2, "collective")
    assert sum(step.nbytes for step in replayed if isinstance(step, AllReduce)) == 4 * 2 * (16 + 1000)
    assert sum(step.nbytes for step in closed if isinstance(step, AllReduce)) == 4 * 2 * (125 + 128)


def test_the_shapes_of_a_trace_are_those_of_the_matrices():
    """The first side of a tensor, and all others together; a vector is one row."""
    shapes = PowerSGD()._shapes((600, 2400), ((20, 30), (20, 30, 4)))
    assert shapes == PowerSGD()._shapes((600, 2400), ((20, 30), (20, 120)))
    assert shapes[0] != PowerSGD()._shapes((600,), ((600,),))[0]
    assert shapes[0] != PowerSGD()._shapes((600,), ((30, 20),))[0]


RESNET50 = (64, 3, 7), [(256, 64, 3), (512, 128, 4), (1024, 256, 6), (2048, 512, 3)]
"""First convolution, and of each stage the channels that leave it, those inside, and its blocks (He et al. 2015)."""


def elements_of_resnet50(rank):
    """P, Q and vectors of ResNet-50, from its convolutions of 1 x 1, 3 x 3 and 7 x 7, layer by layer."""
    (outputs, inputs, side), stages = RESNET50
    matrices, vectors, inputs = [(outputs, inputs * side**2)], 1000 + 2 * outputs, outputs
    for outputs, width, blocks in stages:
        for number in range(blocks):
            shapes = [(width, inputs), (width, 9 * width), (outputs, width), *([] if number else [(outputs, inputs)])]
            matrices += shapes
            vectors += 2 * sum(a for a, _ in shapes)
            inputs = outputs
    matrices.append((1000, inputs))
    return {"p": sum(rank * a for a, _ in matrices), "q": sum(rank * b for _, b in matrices), "dense": vectors}


@pytest.mark.parametrize("workload", ["workloads/resnet50", "workloads/resnet50-v100"])
def test_shapes_of_layers_set_the_traffic(workload):
    """Each of the 53 convolutions and the decoder is a matrix, and norms are vectors, fused or not."""
    layers = read_workload(workload).layers
    for buckets in (singles(layers), buckets_of([range(len(layers))], layers), partition(layers, 2.0**40)):
        parts = [PowerSGD(rank=4).expect(bucket, 8, 1.0).detail for bucket in buckets]
        assert {name: sum(part[name] for part in parts) for name in parts[0]} == elements_of_resnet50(4)
    cut = [bucket for bucket in partition(layers, 4 * 10_000) if len(bucket.pieces) == 1]
    assert any(bucket.shapes == ((64, 64, 1, 1),) for bucket in cut)
    assert all(not bucket.shapes for bucket in cut if bucket.numel == 10_000)  # parts of a tensor


def test_tensorflow_makes_matrices_of_the_height_of_a_kernel():
    """sands-lab/grace: `tf.reshape(tensor, [tensor_shape[0], -1])` of height x width x inputs x outputs."""
    bucket = Bucket(0, (64 * 32 * 9, 128 * 64), 0, shapes=((64, 32, 3, 3), (128, 64, 1, 1)))
    members = [PowerSGD(rank=1, implementation=name) for name in ("released", "grace")]
    released, grace = (member.expect(bucket, 8, 1.0).detail for member in members)
    assert released == {"p": 64 + 128, "q": 32 * 9 + 64, "dense": 0}
    assert grace == {"p": 3, "q": 64 * 32 * 3, "dense": 128 * 64}


def test_a_part_of_a_sharded_tensor_is_cut_along_its_first_dimension():
    """Eight GPUs have 128 of 1,024 rows each, and 128 elements of the bias."""
    layers = [{"name": "w", "numel": 1024 * 512, "shape": [1024, 512]}, {"name": "b", "numel": 1024, "shape": [1024]}]
    method = {"kind": "powersgd", "rank": 2}
    plan = plan_of(sharded({"kind": "fsdp", "shard": 8}, workload={"layers": layers}, sparsifier=method))
    parts = [bucket.shapes for bucket in plan.work.buckets]
    assert sorted(shape for shapes in parts for shape in shapes) == [(128,), (128, 512)]


def test_grace_returns_vectors_as_they_are():
    """Twenty operations on each matrix before the exchange, and none on vectors, which are summed with the factors."""
    bucket = Bucket(0, (64 * 32 * 9, 64), 0, shapes=((64, 32, 3, 3), (64,)))
    member = PowerSGD(rank=1, implementation="grace")
    kernels, steps = member.carry_out(member.expect(bucket, 2, 1.0), bucket, 2, "collective")
    assert [(item.kernel, item.elements, item.times) for item in kernels] == [("elementwise", (64.0 * 32 * 9,), 20)]
    assert math.fsum(step.nbytes for step in steps if isinstance(step, AllReduce)) == 4 * (3 + 64 * 32 * 3 + 64)
