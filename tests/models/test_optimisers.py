"""Optimisers: bytes, calls and kernels of a step against sums by hand, a loop over chunks, and traces of real steps."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from simulator.models.optimisers import NamedOptimiser, Optimiser, kernels_of_lists

READ, WRITE = 4, 4


@pytest.mark.parametrize(
    ("optimiser", "nbytes", "calls"),
    [
        # w -= s g
        ("sgd", 2 * READ + WRITE, 1),
        # g += d w; m *= b; m += g; w -= s m
        ({"kind": "momentum", "weight_decay": True}, 7 * READ + 4 * WRITE, 4),
        # The same with g + b m before the update.
        ({"kind": "momentum", "weight_decay": True, "nesterov": True}, 9 * READ + 5 * WRITE, 5),
        # m *= b; m += g; v *= b; v += g g; t = sqrt v; t /= c; t += e; w -= s m / t
        ("adam", 12 * READ + 8 * WRITE, 8),
        # Hugging Face's: without the division; torch's own decays first.
        ({"kind": "adamw", "folds_bias": True}, 11 * READ + 7 * WRITE, 7),
        ({"kind": "adamw", "weight_decay": True}, 13 * READ + 9 * WRITE, 9),
        # m *= b; m += g; v *= b; v += g g; t = sqrt v; t += e; t = m / t; t += d w; |w|; |t|; w -= r t; 5 single values
        ({"kind": "lamb", "weight_decay": True}, 16 * READ + 9 * WRITE, 16),
    ],
)
def test_a_step_per_tensor_by_hand(optimiser, nbytes, calls):
    made = TypeAdapter(NamedOptimiser).validate_python(optimiser)
    assert (made.bytes_per_element(), made.calls([10.0, 20.0])) == (nbytes, 2 * calls)
    assert made.nbytes([10.0, 20.0]) == 30 * nbytes


@pytest.mark.parametrize(("kind", "states"), [("sgd", 0), ("momentum", 1), ("adam", 2), ("adamw", 2)])
def test_a_fused_step_reads_and_writes_all_once(kind, states):
    fused = Optimiser(kind=kind, implementation="fused", weight_decay=True)
    assert fused.bytes_per_element() == READ + (states + 1) * (READ + WRITE)
    each = fused.model_copy(update={"implementation": "fused_per_tensor"})
    assert (each.bytes_per_element(), each.calls([1.0] * 161)) == (fused.bytes_per_element(), 161)


def kernels_chunk_by_chunk(numels, lists):
    """The loop of PyTorch's multi_tensor_apply: one chunk at a time."""
    tensors_at_once = {1: 110, 2: 64, 3: 48, 4: 36, 5: 30}[lists]
    kernels = blocks = tensors = 0
    for i, numel in enumerate(numels):
        tensors += 1
        chunks = -(-int(numel) // 65_536)
        for chunk in range(chunks):
            blocks += 1
            ends_tensor = chunk == chunks - 1
            full = (tensors == tensors_at_once and ends_tensor) or blocks == 320
            if full or (i == len(numels) - 1 and ends_tensor):
                kernels, blocks = kernels + 1, 0
                tensors = 0 if ends_tensor else 1
    return kernels


@given(st.lists(st.integers(1, 30_000_000), min_size=1, max_size=150), st.integers(1, 5))
def test_kernels_of_lists_are_those_of_a_loop_over_chunks(numels, lists):
    assert kernels_of_lists(numels, lists) == kernels_chunk_by_chunk(numels, lists)


def test_kernels_of_261_tensors_as_in_a_trace_of_fused_adam():
    """apex FusedAdam in a trace of DLRM on a V100 (facebookresearch/HolisticTraceAnalysis): eight kernels."""
    assert Optimiser(kind="adam", implementation="fused").calls([1000.0] * 261) == 8


def test_a_running_average_is_over_its_own_tensors():
    plain = Optimiser(kind="sgd")
    made = Optimiser(kind="sgd", average={"tensors": 3, "numel": 50})
    assert made.nbytes([10.0, 20.0]) == plain.nbytes([10.0, 20.0]) + 50 * (3 * READ + 2 * WRITE)
    assert made.calls([10.0, 20.0]) == 2 + 2 * 3


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"kind": "lamb", "implementation": "foreach"}, "no released LAMB works on lists of tensors"),
        ({"kind": "adam", "nesterov": True}, "expected nesterov with kind momentum, got kind adam"),
        ("adamx", "'sgd', 'momentum', 'adam', 'adamw' or 'lamb'"),
    ],
)
def test_optimisers_that_do_not_exist_are_refused(wrong, said):
    with pytest.raises(ValidationError, match=re.escape(said)):
        TypeAdapter(NamedOptimiser).validate_python(wrong)


def test_lamb_per_tensor_waits_for_three_values_of_each():
    assert Optimiser(kind="lamb").reads(206) == 3 * 206
    assert not Optimiser(kind="lamb", implementation="fused").reads(206)
    # Norm of g; g, m, v, w to m, v and the step; norms of weight and step; weight and step to weight.
    assert Optimiser(kind="lamb", implementation="fused").bytes_per_element() == 9 * READ + 4 * WRITE


@pytest.mark.parametrize("lists", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("before", [0, 1, 29, 30, 109])
def test_a_tensor_that_is_cut_goes_on_as_the_first_of_the_next_kernel(lists, before):
    """One of 322 chunks among tensors of one chunk, as many as fit into a kernel and some more."""
    for after in (0, 1, 28, 29, 30, 36, 48, 64, 110, 111):
        numels = [1] * before + [322 * 65_536] + [1] * after
        assert kernels_of_lists(numels, lists) == kernels_chunk_by_chunk(numels, lists)
