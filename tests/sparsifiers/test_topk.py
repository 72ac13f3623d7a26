"""Top-k by a sum at the union of all choices: everyone's values travel there, and leave the residual."""

import numpy as np
from replayed import select

from simulator.models.gradients import Block
from simulator.sparsifiers.topk import TopK


def test_by_union_all_reduce_everyone_sends_where_anyone_chose():
    values = np.array([[9, 1, 2, 3], [1, 2, 8, 3], [7, 1, 2, 3]], dtype=np.float32)
    block = Block(values, np.zeros(4, dtype=np.int64), np.arange(4), np.ones(4), (4,))
    for exchange_by, sent in {
        "union_all_reduce": values * [1, 0, 1, 0],
        "all_gather": values * [[1, 0, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0]],
    }.items():
        member = TopK(density=0.25, exchange_by=exchange_by)
        state, selection, _, choice = select(member, member.start(block), block)
        np.testing.assert_array_equal(choice.sent, sent)
        np.testing.assert_array_equal(state["residual"], values - sent)
        assert (selection.selected.tolist(), selection.aggregated) == ([1, 1, 1], 2)
