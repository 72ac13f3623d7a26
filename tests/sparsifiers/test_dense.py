"""Dense gradients of embeddings as rows, as Horovod sends TensorFlow's IndexedSlices."""

import pytest
from worked_scenarios import worked

from simulator.models.exchange import AllGather, AllReduce, Bucket, Compute, PushPull, Rows
from simulator.prediction.run import run
from simulator.scenario.scenario import Scenario
from simulator.sparsifiers.dense import Dense

WORDS, WIDTH, LOOKED_UP, NODES = 10_000, 200, 700, 4
BUCKET = Bucket(0, (300, WORDS * WIDTH, 50), 0, (0, 1, 2), rows=(None, Rows(count=LOOKED_UP, width=WIDTH), None))


def test_values_and_long_indices_are_gathered_and_the_rest_is_summed():
    steps = Dense(indexed_slices=True).exchange(Dense().expect(BUCKET, NODES, 1.0), BUCKET, NODES, "collective")
    assert [step for step in steps if isinstance(step, AllGather)] == [
        AllGather(4 * LOOKED_UP * WIDTH),
        AllGather(8 * LOOKED_UP),
    ]
    assert [step for step in steps if isinstance(step, AllReduce)] == [AllReduce(4 * 350)]
    sums = [step for step in steps if isinstance(step, Compute) and step.kernel == "scatter_add"]
    assert [step.elements for step in sums] == [(NODES * LOOKED_UP * WIDTH,)]


@pytest.mark.parametrize(("slices", "style"), [(False, "collective"), (True, "push_pull")])
def test_without_slices_and_for_servers_the_embedding_is_dense(slices, style):
    selection = Dense().expect(BUCKET, NODES, 1.0)
    whole = Dense().exchange(selection, Bucket(0, BUCKET.pieces, 0), NODES, style)
    assert Dense(indexed_slices=slices).exchange(selection, BUCKET, NODES, style) == whole
    nbytes = 4 * BUCKET.numel
    assert whole[1] == (AllReduce(nbytes) if style == "collective" else PushPull(nbytes, nbytes))


def scenario(slices, **scheduler):
    """A word model of one embedding, 70 words per sample at batch size 10, on a ring of 4 nodes at 1 GB/s."""
    embedding = {"name": "words", "numel": WORDS * WIDTH, "rows": {"count": LOOKED_UP, "width": WIDTH}}
    workload = {"batch_size": 10, "layers": [embedding, {"name": "b", "numel": 250}]}
    parts = {"sparsifier": {"kind": "dense", "indexed_slices": slices}, "scheduler": scheduler or "wfbp"}
    return run(Scenario.model_validate(worked((), bandwidth=1e9, nodes=NODES, workload=workload, **parts))).document


def test_an_iteration_takes_the_bytes_of_the_rows():
    """(p-1) r (4 w + 8) bytes by all-gather against 2 (p-1)/p 4 d by all-reduce, at 1 GB/s; the other tensor 1,000."""
    other = 2 * 3 / 4 * 1000
    rows = 3 * LOOKED_UP * (4 * WIDTH + 8) + other
    for slices, nbytes in ((True, rows), (False, 2 * 3 / 4 * 4 * WORDS * WIDTH + other)):
        document = scenario(slices)
        assert document["traffic"]["sent_bytes_per_worker"] == pytest.approx(nbytes)
        assert document["iteration_time_s"] == pytest.approx(nbytes / 1e9)
    fused = scenario(True, kind="bucketed", bucket_size="100 MB")
    assert fused["traffic"]["sent_bytes_per_worker"] == pytest.approx(rows)


def test_an_embedding_that_is_cut_is_dense():
    document = scenario(True, kind="wfbp", partition="1 MB")
    assert document["traffic"]["sent_bytes_per_worker"] == pytest.approx(2 * 3 / 4 * 4 * (WORDS * WIDTH + 250))
