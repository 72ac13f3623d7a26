"""Kernels and bytes of what a method has besides its usual form: other exchanges, servers, more passes, a baseline."""

import numpy as np
import pytest
from pydantic_core import PydanticCustomError
from test_kernel_table import told

from examples import example
from simulator.component import build, discover
from simulator.models.exchange import AllGather, AllReduce, Bucket, Compute, Messages, PushPull, Selection
from simulator.models.overlap import INDEPENDENT
from simulator.records import replace
from simulator.sparsifiers.base import Sparsifier
from simulator.sparsifiers.dgc import Dgc
from simulator.sparsifiers.sage import Sage
from simulator.sparsifiers.sidco import Sidco

BUCKET, WORKERS = Bucket(0, (1000, 240), 0), 4
COUNTS, MEAN, LARGEST, UNION = (100.0, 110.0, 120.0, 150.0), 120.0, 150.0, 400.0
SELECTION = Selection(np.array(COUNTS), UNION, LARGEST, 124.0)
D, HALVES, UNION_HALVES, ALL = (1000.0, 240.0), (75.0, 75.0), (200.0, 200.0), (UNION,)
WRITE = "zeros, put, divide"

QUARTER = 310 * 4 // 8 + 4
"""Bytes of a quarter of the elements in int4, and its scale."""
ROWS = 310 * 4 // 8 + 4 * 4
"""The same with four scales, in rows of 100 elements, of which the last has ten."""
OWNERS = {"kind": "quantised_all_reduce", "exchange_by": "all_to_all", "format": "int4"}
ADDED = ("scatter_add", UNION_HALVES, WRITE)

PAIRS = ("topk", "dgc", "gaussiank", "redsync", "sidco")
GATHERED = [("scatter_add", HALVES, ", ".join([WRITE] * WORKERS))]
"""The pairs of every worker are added tensor by tensor."""
VARIANTS = [
    (
        {"kind": "topk", "exchange_by": "union_all_reduce"},
        "collective",
        [AllGather(tuple(8 * count for count in COUNTS)), AllReduce(4 * UNION)],
        [("unique", (sum(COUNTS),), "unique"), ("gather", ALL, "take"), ADDED],
    ),
    *(({"kind": kind}, "push_pull", [PushPull(8 * MEAN, 8 * UNION)], [ADDED]) for kind in PAIRS),
    *(
        ({"kind": kind}, "collective", [AllGather(tuple(4 * count for count in COUNTS))] * 2, GATHERED)
        for kind in PAIRS
    ),
    ({"kind": "threshold"}, "push_pull", [PushPull(8 * MEAN, 8 * UNION)], [ADDED]),
    (
        {"kind": "zen", "pull": "coo"},
        "collective",
        [(8 * MEAN / 4,), AllGather(8 * UNION / 4)],
        [("scatter_add", (MEAN,), "add"), ("scatter_add", ALL, WRITE)],
    ),
    (
        {"kind": "zen"},
        "push_pull",
        [PushPull(8 * MEAN, 4 * UNION + 1240 / 8)],
        [("norm", (1240 / 32,), "bitmap"), ("scatter_add", ALL, WRITE)],
    ),
    ({"kind": "omnireduce"}, "push_pull", [PushPull(4 * MEAN, 4 * UNION)], [("copy", ALL, "write")]),
    (
        {"kind": "cltk"},
        "push_pull",
        [PushPull(4 * UNION / 4, 4 * UNION), PushPull(4 * UNION, 4 * UNION)],
        [("gather", UNION_HALVES, "take"), ("scatter_add", UNION_HALVES, "put")],
    ),
    ({"kind": "randomk"}, "push_pull", [PushPull(4 * LARGEST, 4 * LARGEST)], [("scatter_add", (100.0, 24.0), "put")]),
    ({"kind": "randomk", "shared_seed": False}, "push_pull", [PushPull(8 * MEAN, 8 * UNION)], [ADDED]),
    ({"kind": "eight_bit"}, "push_pull", [PushPull(1240 + 2 * 4, 4 * 1240)], [("copy", D, "copy")]),
    ({"kind": "signsgd"}, "push_pull", [PushPull(1240 / 8, 1240 / 8)], [("copy", D, "copy")]),
    ({"kind": "efsignsgd"}, "push_pull", [PushPull(1240 / 8 + 2 * 4, 4 * 1240)], [("copy", D, "copy")]),
    (
        OWNERS,
        "collective",
        [(float(QUARTER),), AllGather(float(QUARTER))],
        [*[("dequantise", (1240.0,), "decode")] * 2, ("norm", (310.0,), "scale"), ("quantise", (310.0,), "round")],
    ),
    (
        OWNERS | {"on_host": True, "row": 100},
        "collective",
        [(float(ROWS),), AllGather(float(ROWS))],
        [*[("host_merge", (1240.0,), "decode")] * 2, ("host_merge", (310.0,), "round")],
    ),
    (OWNERS, "push_pull", [PushPull(4.0 * QUARTER, 4.0 * QUARTER)], [("dequantise", (1240.0,), "decode")]),
    (
        {"kind": "dense"},
        "collective",
        [AllReduce(4.0 * 1240)],
        [("copy", (1240.0,), "pack"), ("copy", (1240.0,), "unpack one, unpack the other")],
    ),
]


def table(rows):
    return sorted((name, sizes, len(sizes) * len(calls.split(", "))) for name, sizes, calls in rows)


@pytest.mark.parametrize(("given", "style", "sent", "kernels"), VARIANTS)
def test_bytes_and_kernels_of_other_exchanges(given, style, sent, kernels):
    density = {"density": 0.1} if "density" in discover(Sparsifier)[given["kind"]].model_fields else {}
    steps = build(Sparsifier, given | density).exchange(SELECTION, BUCKET, WORKERS, style)
    travelled = [step for step in steps if not isinstance(step, Compute)]
    assert [step.nbytes if isinstance(step, Messages) else step for step in travelled] == sent
    assert told(steps) == table(kernels)
    assert {step.phase for step in steps if isinstance(step, Compute)} == {"combine"}


@pytest.mark.parametrize(
    ("density", "share", "kept"), [(0.001, 0.1, (1, 1)), (0.005, 0.5, (5, 1)), (0.05, 1, (50, 12))]
)
def test_dgc_as_a_baseline_call_by_call(density, share, kept):
    """GaussianK-SGD's compression.py: 1 % are drawn, of which density n are taken, so that a share of all are found."""
    sampled, found = (10.0, 0.01 * 240), (share * 1000.0, share * 240.0)
    member = Dgc(density=density, implementation="baseline")
    kernels, exchange = member.carry_out(SELECTION, BUCKET, WORKERS, "collective")
    assert told(kernels) == table(
        [
            *[("residual_add", D, "add"), ("elementwise", D, "abs"), ("sort", D, "permute")],
            *[("gather", sampled, "take"), ("topk", sampled, "top k")],
            *[("threshold_scan", D, "compare, places"), ("gather", found, "take"), ("topk", found, "top k")],
            *[("gather", kept, "take indices, take values"), ("copy", D, "copy")],
            ("residual_clear", kept, "set to 0"),
        ]
    )
    assert {item.kernel: item.reads for item in kernels if item.reads} == {"threshold_scan": 2}
    assert exchange == Dgc(density=density).exchange(SELECTION, BUCKET, WORKERS, "collective")


@pytest.mark.parametrize(("passes", "sizes"), [(1.0, []), (1.5, [(500.0, 120.0)]), (2.0, [D]), (3.0, [D + D])])
def test_further_scans_of_sage_take_three_calls(passes, sizes):
    """Absolute value, comparison and places; only the last scan takes values and indices, too."""
    made = Sage(density=0.1).compute(replace(SELECTION, passes=passes), BUCKET, WORKERS)
    scans = [item for item in made if item.kernel == "threshold_scan"]
    assert [item.elements for item in scans] == [D, *sizes]
    assert [item.calls for item in scans] == [2 * 5, *(round(2 * 3 * (passes - 1)) for _ in sizes)]


@pytest.mark.parametrize(
    ("passes", "scanned", "staged"),
    [
        (1.0, D, []),
        (1.5, (*D, 500.0, 120.0), [(125.0, 30.0)]),
        (2.0, D + D, [(250.0, 60.0)]),
        (3.0, D * 3, [(250, 60)]),
    ],
)
def test_stages_of_sidco_scan_again_and_fit_a_quarter(passes, scanned, staged):
    """Minimum, difference and fit of what the first stage leaves; later stages leave too little to be counted."""
    made = Sidco(density=0.1).compute(replace(SELECTION, passes=passes), BUCKET, WORKERS)
    (scan,) = [item for item in made if item.kernel == "threshold_scan"]
    assert (scan.elements, scan.calls) == (scanned, 2 * 3 * passes)
    fits = [(item.elements, item.calls) for item in made if item.kernel == "statistics"]
    assert fits == [(D, 2 * 2), *((sizes, 2 * 3) for sizes in staged)]


READS = {"gaussiank": 2 * 2, "oktopk": 1 + WORKERS, "onebit": 2 * 4, "inceptionn": 2 * 3, "sparseloco": 2 * (1 + 4)}
READ_AFTER = {"oktopk": 1, "inceptionn": 2 * 3 * WORKERS, **dict.fromkeys(("micro", "exdyna", "deft"), 3 * WORKERS + 1)}
"""Mean and deviation; a check of the threshold, and the count of every region; two masks and two counts; the number of
each class; whether indices fit, and the deviation. After the exchange the count of the owner's region; the number of
each class of every worker, or every worker's count three times, and the largest."""


@pytest.mark.parametrize("kind", discover(Sparsifier))
def test_the_host_waits_for_no_more_than_the_released_code_asks(kind):
    member = example(Sparsifier, kind)
    selection = member.expect(BUCKET, WORKERS, INDEPENDENT)
    steps = member.compute(selection, BUCKET, WORKERS), member.exchange(selection, BUCKET, WORKERS, "collective")
    reads = [sum(step.reads for step in made if isinstance(step, Compute)) for made in steps]
    assert reads == [READS.get(kind, 0), READ_AFTER.get(kind, 0)]


@pytest.mark.parametrize("kind", discover(Sparsifier))
def test_who_drops_sums_and_who_selects_in_parts(kind):
    """Only gTop-k and Ok-Topk select among the sums again; only MiCRO, ExDyna and DEFT give every worker its part."""
    member = discover(Sparsifier)[kind]
    assert member.drops_globally == (kind in ("gtopk", "oktopk"))
    assert member.exclusive == (kind in ("micro", "exdyna", "deft"))


@pytest.mark.parametrize("kind", [kind for kind, member in discover(Sparsifier).items() if member.peers_only])
def test_servers_are_refused_with_what_the_method_can_use(kind):
    peers = {
        **dict.fromkeys(("micro", "exdyna", "deft"), "all workers must know all K indices.*topology of peers"),
        "demo": "every worker takes the mean",
        "gtopk": "gTop-k merges among peers",
        "oktopk": "every worker owns a region",
        "skip_reduce": "SkipReduce is a ring",
        "sparseloco": "object store",
    }
    with pytest.raises(PydanticCustomError, match=f"{kind} can use.*push and pull.*{peers[kind]}"):
        example(Sparsifier, kind).carry_out(SELECTION, BUCKET, WORKERS, "push_pull")
