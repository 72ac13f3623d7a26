"""What the tests of single methods share: blocks of several tensors, one selection, bytes on a ring."""

import numpy as np
from replayed import select

from simulator.models.exchange import Compute, Layout
from simulator.models.gradients import Block
from simulator.topologies.ring import Ring


def block(values, numels, iteration=0):
    d = sum(numels)
    piece = np.repeat(np.arange(len(numels)), numels)
    return Block(np.asarray(values, np.float32), piece, np.arange(d), np.ones(d), numels, iteration)


def once(member, values):
    item = block(values, (values.shape[1],))
    return select(member, member.start(item), item)


def sent_per_worker(steps, workers):
    total = np.zeros(workers)
    for step in steps:
        if not isinstance(step, Compute):
            for item in (item for rounds in Ring().rounds(step, Layout(workers, 1)) for item in rounds):
                np.add.at(total, item.src, item.repeat * item.nbytes[0])
    return total
