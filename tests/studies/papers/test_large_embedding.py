"""An embedding of 512 M elements on 8 workers with 10 Gbit/s each: every exchange by hand arithmetic."""

import math

import pytest

from simulator import run

WORKERS, BANDWIDTH, LATENCY = 8, 1.25e9, 25e-6
NUMEL, WIDTH, LOOKED_UP = 512_000_000, 64, 40_000
RING, SERVERS = "ring", {"kind": "parameter_server", "servers": 0, "colocated": True}
OVERLAP = 30.0


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


def test_omnireduce_sends_blocks_and_returns_their_union():
    # 0.1 % of scattered elements are in 1 - 0.999^256 = 22.6 % of the blocks of 256; a worker sums up one part of 8
    sent = 1 - 0.999**256
    assert sent == pytest.approx(0.22597, rel=1e-4)
    part = 4 * NUMEL / WORKERS
    pushed, pulled = part * sent, part * union(sent)
    expected = (WORKERS - 1) * ((pushed + pulled) / BANDWIDTH + 2 * LATENCY)
    assert seconds_of({"kind": "omnireduce", "density": 0.001}) == pytest.approx(expected, rel=1e-3)


def test_servers_on_the_nodes_take_and_give_everything():
    # each node's server takes 7 eighths of 256 MB from others, and gives as much: dense as fast as around the ring
    assert seconds_of("dense", SERVERS) == pytest.approx(2 * 7 * 256e6 / BANDWIDTH, rel=1e-3)


def test_servers_take_pairs_and_give_their_union():
    # push 8 bytes for 1 %, pull 8 bytes for the union; seven eighths of both leave the node
    pairs = 8 * NUMEL * (0.01 + union(0.01)) * 7 / 8
    assert seconds_of({"kind": "topk", "density": 0.01}, SERVERS) == pytest.approx(pairs / BANDWIDTH, rel=1e-3)
