"""An embedding of 512 M elements on 8 workers with 10 Gbit/s each: every exchange by hand arithmetic."""

import math
import re

import pytest

from simulator import run
from simulator.component import discover
from simulator.errors import InputError
from simulator.sparsifiers.base import Sparsifier

WORKERS, BANDWIDTH, LATENCY = 8, 1.25e9, 25e-6
NUMEL, WIDTH, LOOKED_UP = 512_000_000, 64, 40_000
RING, SERVERS = "ring", {"kind": "parameter_server", "servers": 0, "colocated": True}
OVERLAP = 30.0
K = NUMEL // 100
"""Elements of 1 %, which every method with a density selects."""


def seconds_of(sparsifier, topology=RING, rows=None):
    """The communication of one iteration in which nothing but the wires takes time."""
    scenario = {
        "workload": {
            "name": "one embedding",
            "batch_size": 1,
            "layers": [{"name": "embedding", "numel": NUMEL, "rows": rows}],
            "optimiser": "sgd",
        },
        "cluster": {
            "nodes": WORKERS,
            "gpu": "gpus/ideal",
            "network": {"kind": "single_switch", "bandwidth": "10 Gbit/s", "latency": "25 us"},
            "runtime": "runtimes/ideal",
        },
        "topology": topology,
        "sparsifier": sparsifier,
        "scheduler": "sequential",
        "overlap_concentration": OVERLAP,
    }
    return run(scenario).communication_total


def gathered(nbytes):
    """An all-gather around a ring: a worker's own bytes pass every other worker."""
    return (WORKERS - 1) * (LATENCY + nbytes / BANDWIDTH)


def union(share):
    """The share that at least one worker has, by the beta-binomial law with a concentration c.

    prod (c (1 - share) + i) / (c + i) over i < n is the share that nobody has.
    """
    return 1 - math.prod((OVERLAP * (1 - share) + i) / (OVERLAP + i) for i in range(WORKERS))


def summed(nbytes):
    """Eighths of the bytes are sent 14 times around a ring."""
    return 2 * (WORKERS - 1) * (LATENCY + nbytes / WORKERS / BANDWIDTH)


def test_dense_is_summed_around_a_ring():
    # 2.048 GB in eight chunks of 256 MB, each sent 14 times: 14 * (0.2048 s + 25 us) = 2.86755 s
    assert 4 * NUMEL / WORKERS == 256e6
    assert seconds_of("dense") == pytest.approx(2.86755, rel=1e-9)


def test_rows_are_gathered_with_their_indices():
    # 40,000 rows of 64 values and one index of 8 bytes: 10.24 MB and 0.32 MB pass 7 workers: 57.344 + 1.792 + 0.35 ms
    found = seconds_of({"kind": "dense", "indexed_slices": True}, rows={"count": LOOKED_UP, "width": WIDTH})
    assert found == pytest.approx(59.486e-3, rel=1e-9)
    assert found == pytest.approx(gathered(LOOKED_UP * WIDTH * 4) + gathered(LOOKED_UP * 8), rel=1e-9)


def test_topk_gathers_values_and_indices():
    # 1 % are 5.12 M pairs of 4 + 4 bytes: 2 * 7 * (20.48 MB / 1.25 GB/s + 25 us) = 229.726 ms
    assert seconds_of({"kind": "topk", "density": 0.01}) == pytest.approx(229.726e-3, rel=1e-9)


UNION = NUMEL * union(0.01)
PEERS = {
    "cltk": gathered(4 * K) + summed(4 * K),  # indices of the leader pass every worker
    "deft": 2 * gathered(32) + gathered(8) + gathered(8 * K / 8) + summed(4 * K),  # bins of 8 workers and 8 pieces
    "demo": gathered(8 * NUMEL / 128) + gathered(4 * NUMEL / 128),  # 32 of 4,096 elements, with int64 indices
    "dense": summed(4 * NUMEL),
    "dgc": 2 * gathered(4 * K),
    "efsignsgd": gathered(NUMEL / 8) + gathered(4),
    "eight_bit": gathered(NUMEL) + gathered(4),
    "exdyna": gathered(8) + gathered(8 * K / 8) + summed(4 * K),
    "gaussiank": 2 * gathered(4 * K),
    "gtopk": 6 * (LATENCY + 8 * K / BANDWIDTH),  # up three levels of a tree and down again
    "inceptionn": gathered(2 * NUMEL) + 2 * gathered(0) + gathered(NUMEL / 4 + 1) + gathered(32),  # all in 16 bits
    "micro": gathered(8) + gathered(8 * K / 8) + summed(4 * K),
    "natural": gathered(NUMEL),
    # sizes, pairs to the owners of regions, counts, pairs of the sums, of which one in 32 times all are gathered
    "oktopk": 2 * gathered(8) + gathered(8 * K / 8) + gathered(K + (UNION - K) / 32),
    "omnireduce": gathered(NUMEL / 2 * (1 - 0.99**256)) + gathered(NUMEL / 2 * union(1 - 0.99**256)),
    "onebit": gathered(NUMEL / 8) + gathered(8),
    "powersgd": summed(4 * 4 * NUMEL // WIDTH) + summed(4 * 4 * WIDTH),  # rank 4
    "qsgd": gathered(NUMEL) + gathered(4 * NUMEL / 128),
    "quantised_all_reduce": summed(NUMEL + 8 * 2 * 256 * 4),  # two codebooks for each part
    "randomk": summed(4 * K),
    "redsync": 2 * gathered(4 * math.sqrt(2) * K),
    "sage": gathered(8) + gathered(8 * K),
    "sidco": 2 * gathered(4 * K),
    "signsgd": gathered(NUMEL / 8),
    "signum": gathered(NUMEL / 8),
    "sketch": gathered(NUMEL) + gathered(4 * 64),
    "skip_reduce": 10 * (LATENCY + 4 * NUMEL / WORKERS / BANDWIDTH),  # 4 of 14 rounds are left out
    "sparseloco": gathered(NUMEL / 128 * (12 + 2) / 8 + 20),  # indices of 12 bits, values of 2, five steps
    "terngrad": gathered(NUMEL) + gathered(4),
    "threshold": gathered(8) + gathered(8 * K),
    "topk": 2 * gathered(4 * K),
    "zen": gathered(8 * K / 8) + gathered((4 * UNION + NUMEL / 8) / 8),
}
"""Seconds of each method around the ring."""
REFUSED = ("deft", "demo", "exdyna", "gtopk", "micro", "oktopk", "skip_reduce", "sparseloco")
"""Methods that only peers can exchange."""
SERVED = {
    "cltk": 4.5 * K + 8 * K,  # only the leader pushes indices: an eighth of 4 K for each
    "dense": 8 * NUMEL,
    **dict.fromkeys(("dgc", "gaussiank", "sage", "sidco", "threshold", "topk"), 8 * (K + UNION)),
    **dict.fromkeys(("efsignsgd", "onebit"), NUMEL / 8 + 4 * NUMEL),
    **dict.fromkeys(("eight_bit", "natural", "sketch", "terngrad"), NUMEL + 4 * NUMEL),
    "inceptionn": 2 * NUMEL + NUMEL / 4 + 4 * NUMEL,
    "omnireduce": 4 * NUMEL * (1 - 0.99**256 + union(1 - 0.99**256)),
    "powersgd": 2 * 4 * 4 * (NUMEL // WIDTH + WIDTH),
    "qsgd": NUMEL + 4 * NUMEL / 128 + 4 * NUMEL,
    "quantised_all_reduce": 2 * (NUMEL + 8 * 2 * 256 * 4),
    "randomk": 8 * K,
    "redsync": 8 * (math.sqrt(2) * K + NUMEL * union(math.sqrt(2) * 0.01)),
    **dict.fromkeys(("signsgd", "signum"), NUMEL / 8 + NUMEL / 8),
    "zen": 8 * K + 4 * UNION + NUMEL / 8,
}
"""Bytes that a worker pushes and pulls; seven eighths of them leave its node."""


def method(kind):
    known = discover(Sparsifier)[kind].model_fields
    given = {"density": 0.01, "k": 32, "matrices": [[NUMEL // WIDTH, WIDTH]] if kind == "powersgd" else []}
    return {"kind": kind, **{key: value for key, value in given.items() if key in known}}


def test_every_method_has_its_rows():
    assert set(PEERS) == set(discover(Sparsifier)) == set(REFUSED) | set(SERVED)


@pytest.mark.parametrize("kind", PEERS)
def test_peers_by_hand(kind):
    assert seconds_of(method(kind)) == pytest.approx(PEERS[kind], rel=1e-6)


@pytest.mark.parametrize("kind", SERVED)
def test_servers_by_hand(kind):
    times = 2 if kind in ("cltk", "powersgd") else 1  # indices before values; two factors
    expected = SERVED[kind] * 7 / 8 / BANDWIDTH + times * 2 * LATENCY
    assert seconds_of(method(kind), SERVERS) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("kind", REFUSED)
def test_servers_are_refused_with_the_reason(kind):
    reason = discover(Sparsifier)[kind].peers_only
    with pytest.raises(InputError, match=f"an exchange that {kind} can use, got push and pull: {re.escape(reason)}"):
        seconds_of(method(kind), SERVERS)
