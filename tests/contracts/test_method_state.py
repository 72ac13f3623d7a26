"""What every method keeps in memory: `state_values` against the state that `select` really keeps."""

import numpy as np
import pytest
from replayed import select

from examples import example
from simulator.component import discover
from simulator.models.gradients import Block
from simulator.sparsifiers.base import Sparsifier

PIECES = (48 * 40, 331, 30 * 30)
WORKERS, ITERATIONS = 4, 4
ERROR_FEEDBACK = [kind for kind, member in discover(Sparsifier).items() if "error_feedback" in member.model_fields]
MEMBERS = [(kind, {}) for kind in discover(Sparsifier)]
MEMBERS += [(kind, {"error_feedback": wanted}) for kind in ERROR_FEEDBACK for wanted in (True, False)]
MEMBERS += [("dgc", {"momentum": 0.0}), ("powersgd", {"warm_start": False}), ("cltk", {"beta": 0.3})]


def blocks():
    rng, d = np.random.default_rng(1), sum(PIECES)
    piece = np.repeat(np.arange(len(PIECES)), PIECES)
    for iteration in range(ITERATIONS):
        values = rng.standard_normal((WORKERS, d)).astype(np.float32)
        yield Block(values, piece, np.arange(d), np.ones(d), PIECES, iteration)


def kept_values(member):
    """Values of a worker, tensor by tensor where any was not 0 after some iteration, and values of factors of matrices.

    The residual counts only where the method adds it to the next gradients.
    """
    used, state = set(), None
    for block in blocks():
        state = member.start(block) if state is None else state
        state, *_ = select(member, state, block)
        for name, value in state.items():
            if np.shape(value) == block.values.shape:
                held = set(block.piece[(np.asarray(value) != 0).any(axis=0)].tolist())
                used |= {(name, tensor) for tensor in held if name != "residual" or member.has_residual}
    return sum(PIECES[tensor] for _, tensor in used), sum(item.size for item in state.get("q", {}).values())


@pytest.mark.parametrize(("kind", "changes"), MEMBERS)
def test_a_method_states_what_it_keeps(kind, changes):
    member = example(Sparsifier, kind, **changes)
    values, factors = kept_values(member)
    assert member.state_values(PIECES) == pytest.approx(values + (factors if changes.get("warm_start", True) else 0))


def test_the_numbers_of_known_methods():
    """By element: none of dense, a residual of Top-k, velocity and momentum of DGC, the momentum of Signum."""
    per_element = {"dense": 0, "topk": 1, "dgc": 2, "signum": 1, "onebit": 1, "qsgd": 0, "skip_reduce": 0}
    for kind, count in per_element.items():
        assert example(Sparsifier, kind).state_values((1000, 10)) == 1010 * count, kind
    # A matrix of 40 x 50 at rank 4: its residual, and Q of 50 x 4; a vector of 7 keeps nothing.
    assert example(Sparsifier, "powersgd").state_values((2000, 7)) == 2000 + 200
