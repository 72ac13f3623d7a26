"""What the tests of single methods share: blocks of several tensors, one selection, bytes on a ring."""

from itertools import pairwise

import numpy as np
import pytest
from replayed import select

from simulator.models.exchange import Compute, Layout
from simulator.models.gradients import Block
from simulator.topologies.ring import Ring


def block(values, numels=None, iteration=0):
    """A block that holds every coordinate, values (n, d); of one tensor unless `numels` says otherwise."""
    d = np.shape(values)[1]
    numels = tuple(numels or (d,))
    piece = np.repeat(np.arange(len(numels)), numels)
    return Block(np.asarray(values, np.float32), piece, np.arange(d), np.ones(d), numels, iteration)


def once(member, values, iteration=0):
    item = block(values, None, iteration)
    return select(member, member.start(item), item)


def run(member, gradients, numels=None):
    """Select on gradients (iterations, n, d); yields the state, the selection, u and the choice."""
    state = member.start(block(gradients[0], numels))
    for t, values in enumerate(gradients):
        state, selection, u, choice = select(member, state, block(values, numels, t))
        yield state, selection, u, choice


def follow(member, gradients, numels, search):
    """Replay a method whose workers search units by themselves, beside `search` of a list of one unit.

    `search` gives the indices that are selected, the passes, and whether the search converged. Yields the choices.
    """
    residual, ends = np.zeros(gradients.shape[1:], np.float32), np.cumsum([0, *numels]).tolist()
    for values, (state, selection, u, choice) in zip(gradients, run(member, gradients, numels), strict=True):
        residual += np.float32(values)
        np.testing.assert_array_equal(u, residual)
        looked, stopped = np.zeros(len(u)), []
        for worker, row in enumerate(u):
            for start, stop in pairwise(ends):
                indices, passes, converged = search(row[start:stop].tolist())
                assert np.flatnonzero(choice.chosen[worker, start:stop]).tolist() == indices
                residual[worker, [start + j for j in indices]] = 0
                looked[worker] += passes * (stop - start)
                stopped.append(converged)
        np.testing.assert_array_equal(state["residual"], residual)
        assert selection.passes == pytest.approx(looked.max() / ends[-1])
        assert choice.detail.get("converged", 1) == pytest.approx(np.mean(stopped))
        yield choice


def sent_per_worker(steps, workers):
    total = np.zeros(workers)
    for step in steps:
        if not isinstance(step, Compute):
            for item in (item for rounds in Ring().rounds(step, Layout(workers, 1)) for item in rounds):
                np.add.at(total, item.src, item.repeat * item.nbytes[0])
    return total
