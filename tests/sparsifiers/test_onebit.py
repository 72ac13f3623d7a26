"""1-bit SGD against a loop over elements; its means are the best ones for the threshold 0."""

import numpy as np
from common import block

from simulator.models.gradients import Block
from simulator.sparsifiers.onebit import OneBit


def reference(tensor):
    """The published code's two sums and counts."""
    below, rest = [x for x in tensor if x < 0], [x for x in tensor if x >= 0]
    means = [sum(part) / len(part) if part else 0.0 for part in (below, rest)]
    return [means[0] if x < 0 else means[1] for x in tensor]


def test_no_other_pair_of_values_has_a_smaller_squared_error():
    u = (np.random.default_rng(1).standard_normal((1, 300)) + 0.3).astype(np.float32)
    sent = OneBit().quantised(u, block(u, (300,)))
    least = float(np.square(u - sent).sum())
    for below, rest in ((1.01, 1.0), (0.99, 1.0), (1.0, 1.01), (1.0, 0.99)):
        assert float(np.square(u - (sent * np.where(u < 0, below, rest))).sum()) > least


def test_of_a_sample_a_mean_counts_what_its_elements_stand_for():
    values = np.array([[2.0, 6.0, -3.0]], dtype=np.float32)
    sampled = Block(values, np.array([0, 0, 0]), np.array([0, 3, 4]), np.array([3.0, 1.0, 2.0]), (6,))
    assert OneBit().quantised(values, sampled).tolist() == [[3.0, 3.0, -3.0]]
