"""What every sparsifier must hold, in closed form and on gradients; a new kind is tested by being registered."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError
from replayed import select

from examples import example
from simulator.component import discover
from simulator.errors import SparsimError
from simulator.hardware.gpu import Gpu
from simulator.hardware.kernels import KERNEL_TRAFFIC
from simulator.models.exchange import AllGather, Bucket, Compute, Layout, Messages, PushPull
from simulator.models.gradients import ALL, Block, Choice
from simulator.models.overlap import INDEPENDENT
from simulator.sparsifiers.base import Sparsifier

SPARSIFIERS = list(discover(Sparsifier))
STYLES = ("collective", "push_pull")

buckets = st.builds(Bucket, st.just(0), st.lists(st.integers(1, 10**7), min_size=1, max_size=4).map(tuple), st.just(0))
concentrations = st.one_of(st.sampled_from([0.0, INDEPENDENT]), st.floats(1e-3, 1e3))


def each(bucket, kind, workers, style, concentration=INDEPENDENT, **changes):
    """Selection, kernels and steps of one bucket; None where the sparsifier refuses the exchange."""
    member = example(Sparsifier, kind, **changes)
    try:
        selection = member.expect(bucket, workers, concentration)
        return selection, *member.carry_out(selection, bucket, workers, style)
    except PydanticCustomError:
        return None


def carried(steps, workers):
    """Payload bytes of an exchange, and elements of its kernels."""
    nbytes = 0.0
    for step in steps:
        if isinstance(step, PushPull):
            nbytes += step.push_nbytes + step.pull_nbytes
        elif isinstance(step, AllGather):
            nbytes += float(step.sizes(workers).sum())
        elif isinstance(step, Messages):
            nbytes += sum(float(item.nbytes.sum()) * item.repeat for item in step.rounds(Layout(workers, 1)))
        elif not isinstance(step, Compute):
            nbytes += step.nbytes
    return nbytes, sum(sum(step.elements) for step in steps if isinstance(step, Compute))


def possible(selection, workers, d, drops_globally=False):
    """Whether the counts can be those of `workers` choices among d elements."""
    selected, slack = np.broadcast_to(selection.selected, (workers,)), 1e-9 * d
    assert np.isfinite([*selected, selection.aggregated, selection.largest, selection.target]).all()
    assert selected.min() >= 0
    assert drops_globally or selected.max() <= selection.aggregated + slack
    assert selection.aggregated <= min(selected.sum(), d) + slack
    assert selected.max() - slack <= selection.largest <= d + slack


@pytest.mark.parametrize("kind", SPARSIFIERS)
@given(bucket=buckets, workers=st.integers(2, 64), concentration=concentrations, style=st.sampled_from(STYLES))
def test_a_closed_form_selects_and_sends_something_possible(kind, style, bucket, workers, concentration):
    made = each(bucket, kind, workers, style, concentration)
    if made is None:
        return
    selection, kernels, steps = made
    possible(selection, workers, bucket.numel)
    nbytes, elements = carried(steps, workers)
    assert 0 < nbytes < np.inf
    assert 0 <= elements < np.inf
    assert {item.phase for item in kernels} <= {"selection"}
    ideal = Gpu(name="ideal", ideal=True)
    for item in (*kernels, *(step for step in steps if isinstance(step, Compute))):
        assert item.kernel in KERNEL_TRAFFIC
        assert min(item.elements) >= 0
        assert item.calls >= 0
        assert not ideal.kernel_time(item.kernel, item.elements).any()


@pytest.mark.parametrize("kind", SPARSIFIERS)
def test_a_sparsifier_can_be_exchanged(kind):
    assert any(each(Bucket(0, (1000, 24), 0), kind, 4, style) for style in STYLES)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("kind", [k for k in SPARSIFIERS if "density" in discover(Sparsifier)[k].model_fields])
def test_a_higher_density_never_sends_less(kind, style):
    bucket = Bucket(0, (100_000, 512), 0)
    rows = []
    for density in (1e-4, 1e-3, 1e-2, 0.1, 0.5, 1.0):
        made = each(bucket, kind, 8, style, 30.0, density=density)
        if made is not None:
            selection, _, steps = made
            rows.append((float(selection.selected.max()), selection.aggregated, *carried(steps, 8)))
    assert all((np.subtract(after, before) >= -1e-6).all() for before, after in pairwise(rows))


@pytest.mark.parametrize("kind", SPARSIFIERS)
def test_what_is_selected_on_gradients_is_possible_and_repeats(kind):
    """Four workers, three tensors, four iterations; zeros, tiny and huge gradients too."""
    for scale in (0.0, 1e-30, 1.0, 1e15):
        assert_possible(kind, scale)


def assert_possible(kind, scale):
    member, numels, workers = example(Sparsifier, kind), (1200, 300, 7), 4
    d, draws = sum(numels), np.random.default_rng(7)
    values = (scale * draws.standard_normal((4, workers, d)) ** 3).astype(np.float32)
    outcomes = []
    for _ in range(2):
        state, counts = None, []
        for iteration in range(4):
            piece = np.repeat(np.arange(3), numels)
            shapes = ((40, 30), (300,), (7,))
            block = Block(values[iteration], piece, np.arange(d), np.ones(d), numels, iteration, shapes)
            state = member.start(block) if state is None else state
            state, selection, u, choice = select(member, state, block)
            possible(selection, workers, d, member.drops_globally)
            assert u.shape == choice.sent.shape == (workers, d)
            assert np.isfinite(state["residual"]).all()
            counts.append((selection.selected.tolist(), selection.aggregated))
        outcomes.append(counts)
    assert outcomes[0] == outcomes[1]


LOSSY = {"skip_reduce"}
"""Methods that lose what they do not send, as published."""


@pytest.mark.parametrize("kind", SPARSIFIERS)
def test_gradient_mass_is_conserved(kind):
    """Residual + sent = u, over iterations; what is sent was chosen by someone, what is summed is what was sent."""
    member, numels, workers = example(Sparsifier, kind), (1200, 300, 7), 4
    d, draws = sum(numels), np.random.default_rng(11)
    state = None
    for iteration in range(5):
        values = draws.standard_normal((workers, d)).astype(np.float32)
        piece = np.repeat(np.arange(3), numels)
        block = Block(values, piece, np.arange(d), np.ones(d), numels, iteration, ((40, 30), (300,), (7,)))
        state, _, u, choice = select(member, member.start(block) if state is None else state, block)
        touched = (choice.sent != 0).any(axis=0)
        assert not (touched & ~choice.chosen.any(axis=0)).any()
        if choice.aggregated is not None:
            assert not (touched & ~choice.aggregated).any()
        if kind not in LOSSY:
            assert np.allclose(state["residual"] + choice.sent, u, rtol=1e-5, atol=1e-6)


def test_without_a_shared_seed_random_coordinates_travel_with_their_indices():
    """Pairs of a value and an index from everyone; with a shared seed the values alone are summed."""
    bucket = Bucket(0, (1000, 24), 0)
    _, _, together = each(bucket, "randomk", 4, "collective", density=0.1, shared_seed=True)
    selection, _, apart = each(bucket, "randomk", 4, "collective", density=0.1, shared_seed=False)
    assert carried(together, 4)[0] == pytest.approx(4 * selection.largest)
    assert carried(apart, 4)[0] == pytest.approx(4 * 8 * selection.largest)


WRONG = {
    "a worker less": Choice([ALL]),
    "beyond the end": Choice([np.array([3])] * 2),
    "from the end": Choice([np.array([-1])] * 2),
    "twice": Choice([np.array([1, 1])] * 2),
    "a mask": Choice([np.ones(3, dtype=bool)] * 2),
    "a slice": Choice([slice(1)] * 2),
    "sent beyond the end": Choice([ALL] * 2, [np.array([3])] * 2),
    "summed beyond the end": Choice([ALL] * 2, aggregated=np.array([3])),
    "a column less": Choice([ALL] * 2, decoded=np.ones((2, 2), dtype=np.float32)),
    "not finite": Choice([ALL] * 2, decoded=np.full((2, 3), np.inf, dtype=np.float32)),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_member_that_returns_what_cannot_be_sent_is_named(wrong):
    class Broken(type(example(Sparsifier, "topk"))):
        def choose(self, u, block, state):
            return WRONG[wrong]

    member, values = Broken(density=0.5), np.ones((2, 3), dtype=np.float32)
    item = Block(values, np.zeros(3, int), np.arange(3), np.ones(3), (3,))
    with pytest.raises(SparsimError, match="topk: choose must return increasing coordinates below 3 of 2 workers, and"):
        member.select(member.start(item), item)
