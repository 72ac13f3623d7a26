"""One iteration of a method with whole arrays, as tests compare them: masks of coordinates, and what was sent."""

from types import SimpleNamespace

import numpy as np


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
