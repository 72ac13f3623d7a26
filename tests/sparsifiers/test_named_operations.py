"""Framework calls of compressors against the operations of GRACE's code (sands-lab/grace), written down by name."""

import pytest

from examples import example
from simulator.models.exchange import Bucket, Compute
from simulator.models.overlap import INDEPENDENT
from simulator.sparsifiers.base import Sparsifier

PIECES, WORKERS = (1000, 240, 7), 3

DECODED = {
    "efsignsgd": ["cast", "times 2", "less 1", "times mean", "add"],
    "eight_bit": ["cast", "sign", "cast sign", "abs", "cast", "gather", "times largest", "times sign", "add"],
    "natural": ["> 127", "and", "+ 18", "cast", "shift", "negative", "where", ">= 1", "cast", "times", "add"],
    "onebit": ["mask times mean", "not mask", "times other mean", "add both", "add"],
    "qsgd": ["cast", "times norm over levels", "add"],
    "sketch": ["cast", "gather", "add"],
    "terngrad": ["cast", "times scale", "add"],
}
"""What decodes the tensor of one worker and adds it to the sum, in the code that the method's description names."""

_MEAN = ("places", "take", "sum", "> 0", "divide")
_BINS = ("operation of find_bins",) * 11
_SIGNS = ("quantise", [">= 0", "cast"])
_FED_BACK = [("residual_add", ["add"]), ("dequantise", ["decode", "subtract"])]
SELECTED = {
    "efsignsgd": [*_FED_BACK, ("norm", ["abs", "mean"]), _SIGNS],
    "signsgd": [_SIGNS],
    "signum": [("elementwise", ["times 1 - momentum", "old times momentum", "add"]), _SIGNS],
    "onebit": [
        *_FED_BACK,
        ("statistics", [*_MEAN, "count", "cast", "not", *_MEAN, "subtract"]),
        ("quantise", ["< 0", "cast"]),
    ],
    "qsgd": [("norm", ["square", "sum", "root"]), ("quantise", ["operation of rounding"] * 10)],
    "terngrad": [
        ("statistics", ["mean", "subtract", "square", "mean", "root"]),
        ("quantise", ["clamp", "abs", "max", "sign", "times", "uniform", ">=", "set to 0", "sign", "cast"]),
    ],
    "eight_bit": [
        ("norm", ["abs", "max"]),
        ("quantise", [*_BINS, "divide", "sign", "abs", "cast", "cast sign", "times"]),
    ],
    "sketch": [
        ("sort", ["operation of a quantile"] * 11),
        ("quantise", [*_BINS, "cast", "cast"]),
        ("scatter_add", ["ones", "sum"]),
        ("scatter_add", ["sum", "at least 1", "divide"]),
    ],
}
"""What is done to a tensor before it is sent, in order, with signs in whole bytes; error feedback as the memory has it.
Sketches and 8-bit codes search by TensorFlow Probability's find_bins; means of bins are its unsorted_segment_mean."""


def made(kind, changes=()):
    member, bucket = example(Sparsifier, kind, **dict(changes)), Bucket(0, PIECES, 0)
    selection = member.expect(bucket, WORKERS, INDEPENDENT)
    return member, member.compute(selection, bucket, WORKERS), member.exchange(selection, bucket, WORKERS, "collective")


@pytest.mark.parametrize("kind", DECODED)
def test_every_tensor_of_every_worker_is_decoded_by_the_operations_of_the_code(kind):
    _, _, exchange = made(kind)
    (decode,) = [step for step in exchange if isinstance(step, Compute)]
    assert decode.elements == tuple(float(n) for n in PIECES) * WORKERS
    assert (decode.kernel, decode.calls) == ("dequantise", len(DECODED[kind]) * WORKERS * len(PIECES))


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        *((kind, {"bits": 8} if kind in ("efsignsgd", "signsgd", "signum", "onebit") else {}) for kind in SELECTED),
        *((kind, {"error_feedback": True}) for kind in ("qsgd", "terngrad")),
        ("terngrad", {"clip": None}),
    ],
)
def test_every_tensor_is_encoded_by_the_operations_of_the_code(kind, changes):
    """Without clipping no deviation is worked out."""
    expected = [*(_FED_BACK if "error_feedback" in changes else ()), *SELECTED[kind][1 if "clip" in changes else 0 :]]
    _, selection, _ = made(kind, changes)
    assert [(item.kernel, item.elements, item.calls) for item in selection] == [
        (kernel, tuple(map(float, PIECES)), len(names) * len(PIECES)) for kernel, names in expected
    ]


@pytest.mark.parametrize("kind", ["efsignsgd", "signsgd", "signum", "onebit"])
def test_packing_eight_signs_into_a_byte_takes_two_calls_more(kind):
    """A multiplication by powers of two, and a sum."""
    packed, whole = (
        next(item.calls for item in made(kind, {"bits": bits})[1] if item.kernel == "quantise") for bits in (1, 8)
    )
    assert packed - whole == 2 * len(PIECES)


def test_three_classes_of_inceptionn_are_found_counted_and_taken_one_by_one():
    """Classes of 8 and 16 bits take three gathers and ten operations, that of 32 bits one gather.

    The host waits for the number in each class, and so it does of every worker's; the decoding is that of the graph.
    """
    operations = ["take sign", "take exponent", "take mantissa", "cast", "subtract", "cast", "shift sign"]
    operations += ["shift mantissa", "or leading one", "shift by exponent", "or sign", "shift to the width", "cast"]
    member, selection, exchange = made("inceptionn", {"deviation": 0.1})
    (found,) = [item for item in selection if item.kernel == "threshold_scan"]
    assert (found.times, found.calls, found.reads) == (3, 3 * len(PIECES), 3 * len(PIECES))
    taken = [item.calls for item in selection if item.kernel == "gather"]
    assert taken == [len(operations) * len(PIECES), len(operations) * len(PIECES), len(PIECES)]
    (decode,) = [step for step in exchange if isinstance(step, Compute)]
    assert decode.reads == 3 * len(PIECES) * WORKERS
    grace = member.known_implementations()["grace"]
    assert (decode.calls, grace.reads, grace.reads_decode) == (grace.decode * len(PIECES) * WORKERS, 3, 3)


def graph(kind, numel, density):
    member = example(Sparsifier, kind, density=density, implementation="grace")
    bucket = Bucket(0, (numel,), 0)
    return member.carry_out(member.expect(bucket, WORKERS, INDEPENDENT), bucket, WORKERS, "collective")


DGC = ["times momentum", "add", "add", "add 0", "draw", "take", "abs", "top k", "least", "abs", ">", "cast", "sum"]
DGC += ["< 1", "times 0.8", "abs", ">", "places", "take", "cast", "join", "not", "cast", "clear", "clear momentum"]
LOOP = ["> 1.25 k", "times 1.25 or 0.9", "abs", ">", "cast", "sum", "> 1.25 k", "< 0.8 k", "or", "go on"]


def test_dgc_in_grace_without_a_round_of_its_loop():
    """Of a million elements and half of them the sample holds 5,000: 0.8 k to 1.25 k is 14 deviations wide and more."""
    before, after = graph("dgc", 1_000_000, 0.5)
    (item,) = before
    assert (item.kernel, item.elements, item.times, item.reads) == ("elementwise", (1e6,), len(DGC), 0)
    decode = ["values", "indices", "zeros", "scatter"]
    combined, cut = [item for item in after if isinstance(item, Compute)]
    assert combined.times == len(decode) * WORKERS + 1
    assert (cut.elements, cut.times) == ((1.0,), 6 * WORKERS)
    lengths, pairs = [item for item in after if not isinstance(item, Compute)]
    assert (lengths.nbytes, pairs.nbytes) == (4, 8 * 500_000)


def test_rounds_of_the_loop_of_dgc_in_grace_by_the_normal_law():
    """Ten elements: a sample of one, so that the count has a deviation of k, and 20 (1 - P(-0.2 < z < 0.25)) = 16."""
    first, loop = graph("dgc", 10, 0.01)[0]
    assert (first.times, loop.times, loop.reads) == (len(DGC), 16 * len(LOOP), 16 * 2)
