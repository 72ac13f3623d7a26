"""Embeddings whose gradients are rows: what travels by hand, and that rows never change nothing without a word."""

import pytest
from worked_scenarios import worked

from examples import mapping
from simulator import load
from simulator.component import discover
from simulator.errors import InputError
from simulator.prediction.run import run
from simulator.scenario.scenario import Scenario
from simulator.schedulers.base import Scheduler
from simulator.sparsifiers.base import Sparsifier
from simulator.topologies.base import Topology

STYLES = ("ring", "parameter_server")
IGNORED = "the gradients of words are exchanged as dense tensors, and their `rows` change nothing"


def document(embedding, nodes, bandwidth, **parts):
    """A prediction for one embedding on nodes of one ideal GPU, on a ring if nothing else is said."""
    workload = {"batch_size": 10, "layers": [{"name": "words", **embedding}]}
    made = worked((), bandwidth=bandwidth, nodes=nodes, workload=workload, **parts)
    return run(Scenario.model_validate(made), intervals=False).document


def words_on_rows(**parts):
    """Whether rows change the exchange of an embedding, and what is said of them; None where the parts are refused."""
    rows = {"count": 700, "width": 200}
    try:
        with_rows, whole = (document({"numel": 2_000_000} | given, 4, 1e9, **parts) for given in ({"rows": rows}, {}))
    except InputError:
        return None
    changed = any(with_rows[name] != whole[name] for name in ("traffic", "iteration_time_s", "breakdown_s"))
    return changed, [text for text in (*with_rows["warnings"], *with_rows["notes"]) if IGNORED in text]


def assert_told(used, **parts):
    """Rows change the exchange, or are said to change nothing, never both; `used` counts the first."""
    if (found := words_on_rows(**parts)) is not None:
        changed, said = found
        assert len(said) == (not changed), (parts, found)
        used.append(changed)


@pytest.mark.parametrize("kind", discover(Sparsifier))
def test_rows_change_the_exchange_of_a_method_or_are_said_to_change_nothing(kind):
    used = []
    for implementation in discover(Sparsifier)[kind].known_implementations():
        for topology in STYLES:
            method = mapping(Sparsifier, kind, implementation=implementation)
            assert_told(used, sparsifier=method, topology=topology, scheduler="wfbp")
    assert used
    assert any(used) == ("grace" in discover(Sparsifier)[kind].known_implementations())


SLICES = {"kind": "dense", "indexed_slices": True}


def test_rows_are_gathered_under_every_scheduler_and_topology_or_are_said_to_change_nothing():
    used = []
    for kind in discover(Scheduler):
        for topology in STYLES:
            assert_told(used, sparsifier=SLICES, topology=topology, scheduler=mapping(Scheduler, kind))
    for kind in discover(Topology):
        assert_told(used, sparsifier=SLICES, topology=mapping(Topology, kind), scheduler="wfbp")
    sharded = {"kind": "fsdp", "shard": 2}, {"kind": "zero", "stage": 1}
    for scheduler in ({"kind": "wfbp", "partition": "1 MB"}, *sharded):
        assert_told(used, sparsifier=SLICES, topology="ring", scheduler=scheduler)
    assert 15 < sum(used) < len(used) - 15


def test_after_local_steps_the_whole_embedding_travels():
    """What three steps have changed is not the rows of one of them."""
    parts = {"sparsifier": SLICES, "scheduler": {"kind": "diloco", "inner_steps": 3}}
    made = document({"numel": 2_000_000, "rows": {"count": 700, "width": 200}}, 4, 1e9, **parts)
    assert made["traffic"]["sent_bytes_per_worker"] == pytest.approx(2 * 3 / 4 * 4 * 2_000_000 / 3)
    assert any("several local steps change many rows" in text for text in made["warnings"])


@pytest.mark.parametrize("slices", [False, True])
def test_rows_of_a_described_model_are_asked_for_by_indexed_slices(slices):
    """A transformer has rows without a word of its author; only who wants them gathered hears that they are not."""
    given = "sparsifier={kind: dense, indexed_slices: " + str(slices).lower() + "}"
    warnings = run(load("slow_links", [given]), intervals=False).document["warnings"]
    assert any("the gradients of model.embed_tokens.weight are exchanged as" in text for text in warnings) == slices


D, K, NIC = 512_000_000, 5_120_000, 1.25e9
BLOCKS = 1 - 0.99**256
"""The share of blocks of 256 elements in which 1 % of all elements, scattered, leave something."""


@pytest.mark.parametrize(
    ("sparsifier", "topology", "nbytes"),
    [
        ("dense", "ring", 2 * 7 / 8 * 4 * D),
        (SLICES, "ring", 7 * 10_000 * (4 * 128 + 8)),
        ({"kind": "topk", "density": 0.01}, "ring", 7 * K * (4 + 4)),
        ({"kind": "omnireduce", "density": 0.01}, "ring", 7 / 8 * 4 * D * (BLOCKS + 1 - (1 - BLOCKS) ** 8)),
        ("dense", "parameter_server", 8 * (4 + 4) * D),
        ({"kind": "topk", "density": 0.01}, "parameter_server", 8 * 8 * (K + D * (1 - 0.99**8))),
        ({"kind": "omnireduce", "density": 0.01}, "parameter_server", 8 * 4 * D * (BLOCKS + 1 - (1 - BLOCKS) ** 8)),
    ],
)
def test_an_embedding_of_512_million_elements_on_eight_nodes_with_10_gigabit_ethernet(sparsifier, topology, nbytes):
    """4,000,000 words of 128 elements, 10,000 looked up. One server sends and receives what all eight workers do."""
    parts = {"sparsifier": sparsifier, "topology": topology, "overlap_concentration": 1e12}  # independent selections
    made = document({"numel": D, "rows": {"count": 10_000, "width": 128}}, 8, NIC, **parts)
    assert made["iteration_time_s"] == pytest.approx(nbytes / NIC, rel=1e-9)
