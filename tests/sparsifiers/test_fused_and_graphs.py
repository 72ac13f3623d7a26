"""What a good implementation joins and what it leaves apart; bytes and host work of GRACE's graphs by tensor."""

import numpy as np
import pytest

from simulator.component import build
from simulator.models.exchange import AllGather, AllReduce, Bucket, Compute, PushPull, Rows, Selection
from simulator.models.overlap import INDEPENDENT
from simulator.sparsifiers.base import Sparsifier

BUCKET, WORKERS = Bucket(0, (1000, 240), 0), 4
SELECTION = Selection(np.array([100.0, 110, 120, 150]), 400.0, 150.0, 124.0)
COUNT = AllGather(8.0, counts=True)


def carried_out(given, implementation, selection=SELECTION, bucket=BUCKET, style="collective"):
    member = build(Sparsifier, given | {"implementation": implementation})
    selection = selection or member.expect(bucket, WORKERS, INDEPENDENT)
    before, after = member.carry_out(selection, bucket, WORKERS, style)
    return before, after, [step for step in after if not isinstance(step, Compute)]


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"kind": "topk"}, [AllGather((8 * 150.0,) * 4)]),
        ({"kind": "threshold"}, [COUNT, AllGather(8 * 150.0)]),
        ({"kind": "micro"}, [COUNT, AllGather(8 * 150.0), AllReduce(1600.0)]),
    ],
)
def test_gathers_that_follow_each_other_become_one_but_for_counts(given, sent):
    """A count says how much comes next, and cannot travel with it; unequal payloads are padded to the largest."""
    assert carried_out(given | {"density": 0.1}, "good")[2] == sent


def test_a_gather_without_padding_is_not_joined_to_one_with_it():
    _, _, sent = carried_out({"kind": "oktopk", "density": 0.1}, "good")
    assert [(step.nbytes, step.padded) for step in sent[2:]] == [(4.0, True), ((800.0,) * 4, False)]


def test_a_fused_kernel_holds_the_elements_of_all_tensors_and_all_times():
    before, after, _ = carried_out({"kind": "topk", "density": 0.1}, "good")
    assert [(item.kernel, item.elements, item.calls) for item in before] == [
        ("residual_add", (1240.0,), 1),
        ("topk", (1240.0,), 1),
        ("residual_clear", (124.0,), 1),
    ]
    (add,) = [step for step in after if isinstance(step, Compute)]
    assert (add.elements, add.calls, add.times, add.phase) == ((WORKERS * 150.0,), 1, 1, "combine")


def test_an_operation_of_the_host_on_bytes_counts_as_a_quarter():
    """GRACE's natural compression compares and masks int32 on the host; of the codes, which are bytes, it masks one."""
    before, after, _ = carried_out({"kind": "natural"}, "grace", None)
    host = [
        [(i.elements, i.times, i.calls) for i in made if getattr(i, "kernel", "") == "host_op"]
        for made in (before, after)
    ]
    whole, quarter = (1000.0, 240.0), (250.0, 60.0)
    assert host == [[(whole, 5, 10), (quarter, 1, 2)], [(quarter, WORKERS, 2 * WORKERS)]]


def test_a_graph_gathers_the_arrays_of_every_tensor_by_themselves():
    """Codes of a byte and a scale; what the member sends for both tensors is divided by their sizes."""
    _, after, sent = carried_out({"kind": "eight_bit"}, "grace", None)
    assert [step.nbytes for step in sent] == pytest.approx([1000.0, 8 * 1000 / 1240, 240.0, 8 * 240 / 1240])
    cut = [item for item in after if isinstance(item, Compute) and item.elements == (1.0, 1.0)]
    assert [(item.kernel, item.times, item.phase) for item in cut] == [("elementwise", 2 * 2 * WORKERS, "combine")]


def test_a_graph_joins_arrays_that_the_member_gathers_apart():
    """Values and indices of Top-k are one array in GRACE; before what a threshold has found travels its length."""
    _, _, sent = carried_out({"kind": "topk", "density": 0.1}, "grace")
    assert [step.nbytes for step in sent] == [pytest.approx((1200 * n / 1240,) * 4) for n in (1000, 240)]
    _, _, sent = carried_out({"kind": "threshold", "density": 0.1}, "grace")
    assert [step.nbytes for step in sent[::2]] == [4.0, 4.0]
    assert [step.nbytes for step in sent[1::2]] == pytest.approx([1200 * 1000 / 1240, 1200 * 240 / 1240], abs=8)


def test_what_a_graph_sums_stays_fused_and_rows_are_left_out():
    """1,000 of 1,240 elements are an embedding with 30 rows of 10; only the other tensor's share is summed."""
    bucket = Bucket(0, (1000, 240), 0, rows=(Rows(count=30, width=10), None))
    _, _, sent = carried_out({"kind": "randomk", "density": 0.1}, "grace", None, bucket)
    rows, indices, summed = sent
    assert (rows.nbytes, indices.nbytes) == (4 * 300, 8 * 30)
    assert summed == AllReduce(pytest.approx(4 * 124 * 240 / 1240))
    _, _, sent = carried_out({"kind": "randomk", "density": 0.1}, "grace", style="push_pull")
    assert sent == [PushPull(600.0, 600.0)]
