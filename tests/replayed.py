"""Iterations of a method as tests compare them: with whole arrays, or as the steps of a replay."""

from types import SimpleNamespace

import numpy as np

from simulator.component import build
from simulator.engine.replay import Replay, add_steps, replay_methods
from simulator.models.exchange import Bucket
from simulator.sparsifiers.base import Sparsifier


def select(member, state, block):
    """The next state, the counts, u (n, m), and the choice with arrays (n, m); see `whole_choice`."""
    state = dict(state)
    collected = member.collect(state, block)
    u = collected.copy()
    done = member.send(state, collected, block)
    return state, done.selection, u, whole_choice(done.choice, u)


def choose(member, u, block, state):
    """What a member chooses of u, as arrays."""
    return whole_choice(member.choose(u, block, state), u)


def whole_choice(choice, u):
    """A choice with masks `chosen` (n, m) and `aggregated` (m,), and the values `sent` (n, m), 0 elsewhere."""
    chosen, sent = np.zeros(u.shape, dtype=bool), np.zeros_like(u)
    for mask, places in zip(chosen, choice.chosen, strict=True):
        mask[places] = True
    for out, row, places in zip(sent, u, choice.sent_places, strict=True):
        out[places] = row[places]
    aggregated = None
    if choice.aggregated is not None:
        aggregated = np.zeros(u.shape[1], dtype=bool)
        aggregated[choice.aggregated] = True
    return SimpleNamespace(
        chosen=chosen,
        sent=sent if choice.decoded is None else choice.decoded,
        aggregated=aggregated,
        **{name: getattr(choice, name) for name in ("scanned", "passes", "detail", "counts")},
    )


def replay(method, blocks, feedback=True):
    """The steps of a method on the iterations of one bucket; without `feedback`, what is left is forgotten."""
    one = Replay(method)
    for block in blocks:
        yield from one.advance(block, None if feedback else np.zeros_like(block.values))


def replay_trace(method, buckets, trace, workers):
    """The steps of all buckets, for each recorded iteration of so many workers."""
    (steps,) = replay_methods([(method, range(workers))], buckets, trace)
    return iter(steps)


def rows(trace, method, workers, feedback=True):
    member = build(Sparsifier, method)
    if not feedback:
        return [step.row() for step in replay(member, trace.blocks(workers), feedback)]
    bucket = Bucket(0, trace.numels, 0, tuple(range(len(trace.numels))))
    return [add_steps(steps).row() for steps in replay_trace(member, [bucket], trace, workers)]


def mean(found, key):
    return float(np.mean([row[key] for row in found]))
