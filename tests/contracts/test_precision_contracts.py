"""Bytes on the wire at every precision: values follow it, indices follow theirs, scales, codes and counts neither."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from long_examples import few_first
from pydantic_core import PydanticCustomError
from test_sparsifier_contracts import SPARSIFIERS, STYLES, buckets, carried, each

from examples import example, mapping
from simulator.component import discover
from simulator.engine.plan.work.exchanges import in_precision, steps_with_casts
from simulator.errors import InputError
from simulator.models.exchange import Bucket, Compute
from simulator.models.overlap import INDEPENDENT
from simulator.models.precision import NUMBER_BYTES, Precision
from simulator.prediction.run import run
from simulator.scenario.scenario import Scenario
from simulator.sparsifiers.base import Sparsifier
from simulator.topologies.base import Topology

formats = st.sampled_from(list(NUMBER_BYTES))
precisions = st.builds(Precision, gradients=formats, indices=st.sampled_from(["auto", "int32", "int64"])) | st.builds(
    Precision, travels=formats, loss_scaling=st.booleans()
)


def pairs(chosen, d, workers):
    return workers * chosen.selected.mean(), workers * chosen.selected.mean(), 0, 0


def padded_pairs(chosen, d, workers):
    return workers * chosen.largest, workers * chosen.largest, 0, 8 * workers


def exclusive(chosen, d, workers):
    return chosen.aggregated, 0, workers * chosen.largest, 8 * workers


SENT = {
    "dense": lambda chosen, d, workers: (d, 0, 0, 0),
    **dict.fromkeys(("topk", "dgc", "gaussiank", "redsync", "sidco"), pairs),
    **dict.fromkeys(("threshold", "sage"), padded_pairs),
    **dict.fromkeys(("micro", "exdyna"), exclusive),
    "randomk": lambda chosen, d, workers: (chosen.largest, 0, 0, 0),
    "cltk": lambda chosen, d, workers: (chosen.largest, chosen.largest, 0, 0),
    "qsgd": lambda chosen, d, workers: (0, 0, 0, workers * (d + 4 * -(-d // 128))),
    "terngrad": lambda chosen, d, workers: (0, 0, 0, workers * (d + 4)),
    "signsgd": lambda chosen, d, workers: (0, 0, 0, workers * -(-d // 8)),
}
"""Values, indices, indices of int64 in released code, and other bytes that are handed over among peers, by formula."""


@pytest.mark.parametrize("kind", SPARSIFIERS)
@given(bucket=buckets, workers=st.sampled_from([2, 4, 16]), style=st.sampled_from(STYLES), precision=precisions)
def test_bytes_of_values_and_indices_follow_the_precision_and_others_do_not(kind, bucket, workers, style, precision):
    """With v-byte values and i-byte indices any exchange carries v V + i I + l L + F bytes; where V, I, L, F are known,
    exactly those."""
    made = each(bucket, kind, workers, style)
    if made is None:
        return
    selection = made[0]

    def nbytes(**changes):
        changed = in_precision(bucket, Precision(**changes))
        return carried(made_with(changed), workers)[0]

    def made_with(changed):
        return each(changed, kind, workers, style)[2]

    fp32, short, wide, narrow = (
        nbytes(**changes) for changes in ({}, {"gradients": "bf16"}, {"indices": "int64"}, {"indices": "int32"})
    )
    values, indices, long = (fp32 - short) / 2, (wide - fp32) / 4, (fp32 - narrow) / 4
    other = fp32 - 4 * values - 4 * indices - 8 * long
    assert min(values, indices, long) >= 0
    assert other >= -1e-9 * fp32
    index = {"auto": (4, 8), "int32": (4, 4), "int64": (8, 8)}[precision.indices]
    expected = precision.value_bytes * values + index[0] * indices + index[1] * long + other
    exact = carried(made_with(in_precision(bucket, precision)), workers)[0]
    assert exact == pytest.approx(expected, rel=1e-12)
    if style == "collective" and len(bucket.pieces) == 1 and kind in SENT:
        known = SENT[kind](selection, bucket.numel, workers)
        assert (values, indices, long, other) == pytest.approx(known, rel=1e-9, abs=1e-9 * fp32)


@pytest.mark.parametrize("kind", SPARSIFIERS)
@given(pieces=st.lists(st.integers(1, 3000), min_size=1, max_size=3).map(tuple), style=st.sampled_from(STYLES))
def test_casts_leave_the_steps_of_every_implementation_as_they_are(kind, pieces, style):
    """Also where a payload has as many bytes as a count."""
    short = Precision(gradients="fp16")
    bucket = in_precision(Bucket(0, pieces, 0), short)
    for name in discover(Sparsifier)[kind].known_implementations():
        member = example(Sparsifier, kind, implementation=name)
        selection = member.expect(bucket, 4, INDEPENDENT)
        try:
            plain = member.carry_out(selection, bucket, 4, style)
        except PydanticCustomError:
            return
        chosen, steps = steps_with_casts(member, selection, bucket, 4, style, precision=short)
        kept = [step for step in steps if not (isinstance(step, Compute) and step.kernel == "cast")]
        assert (chosen, kept) == plain


def traffic(topology, sparsifier, precision):
    """Bytes that all places send in one iteration, in one bucket; None where the parts refuse each other."""
    network = {"kind": "single_switch", "bandwidth": 1e9, "latency": 1e-6, "intra_node": {"bandwidth": 1e10}}
    layer = {"name": "a", "numel": 2**16, "backward": 0.01}
    scenario = {
        "workload": {"batch_size": 1, "layers": [layer], "precision": precision},
        "cluster": {"nodes": 4, "gpus_per_node": 2, "gpu": {"name": "card", "ideal": True}, "network": network},
        "topology": mapping(Topology, topology),
        "sparsifier": mapping(Sparsifier, sparsifier),
        "scheduler": "sequential",
        "iterations": 1,
        "warmup": 0,
    }
    try:
        return run(Scenario.model_validate(scenario)).document["traffic"]["total_bytes"]
    except InputError:
        return None


@pytest.mark.parametrize("topology", list(discover(Topology)))
@pytest.mark.parametrize("precision", ["fp16", "bf16", {"travels": "fp16"}])
def test_dense_gradients_of_16_bits_send_half_over_every_topology(topology, precision):
    whole = traffic(topology, "dense", "fp32")
    assert whole
    assert traffic(topology, "dense", precision) == whole / 2


@pytest.mark.parametrize("topology", few_first(discover(Topology), 3))
@pytest.mark.parametrize("kind", SPARSIFIERS)
def test_no_method_sends_less_than_half_in_16_bits_over_any_topology(topology, kind):
    """And 16-bit values and wide indices change the traffic independently of each other."""
    whole = traffic(topology, kind, "fp32")
    if whole is None:
        return
    short, wide, both = (
        traffic(topology, kind, precision)
        for precision in ("bf16", {"indices": "int64"}, {"gradients": "bf16", "indices": "int64"})
    )
    assert whole / 2 <= short <= whole <= wide
    assert both - short == pytest.approx(wide - whole, rel=1e-9, abs=1e-9 * whole)
