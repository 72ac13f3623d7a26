"""Trace folders: what is written is read, whatever the row groups, and every kind of damage is named."""

import os
import shutil
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import ROOT

from simulator.errors import InputError, SparsimError
from simulator.models.gradients import Block
from simulator.models.layers import Layer
from simulator.records import replace
from simulator.traces.format.trace import Trace, TraceSpec, UnionPoint
from simulator.traces.format.writer import TraceWriter

SHIPPED = ROOT / "configs" / "traces"
LAYERS = (Layer(name="conv", numel=24, forward=1e-3, backward=2e-3), Layer(name="bias", numel=5))
HELD = np.array([1, 3, 8, 9, 20, 23, 24, 25, 26, 27, 28])
WEIGHT = np.where(HELD < 24, 4.0, 1.0)
ITERATIONS = (3, 4, 5, 9, 10)
SHAPES = ((4, 6), (5,))


def gradients(number, workers=3):
    return np.random.default_rng(number).standard_normal((workers, len(HELD))).astype(np.float32)


def write(folder, dtype="float32", iterations=ITERATIONS, **fields):
    fields = {"format": 1, "workers": 3, "iterations": (0,), "model": "small", "gradient_scale": 8.0, **fields}
    spec = TraceSpec(**fields)
    piece = (HELD >= 24).astype(np.int64)
    with TraceWriter(folder, spec, LAYERS, dtype) as out:
        for number in iterations:
            out.append(Block(gradients(number), piece, HELD, WEIGHT, (24, 5), number, SHAPES))
        out.residuals(0, gradients(100))
        out.residuals(1, gradients(101))
    heading = "iteration,granularity,error_feedback,density,workers,union_density,se"
    (folder / "union.csv").write_text(f"{heading}\n3,layer,true,0.01,2,0.0196,1e-05\n")
    return folder


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "trace")


def problems(folder):
    with pytest.raises(InputError) as caught:
        Trace.open(folder)
    return [str(problem).replace(str(folder) + "/", "") for problem in caught.value.problems]


def rewrite(folder, change, name="gradients.parquet", **options):
    pq.write_table(change(pq.read_table(folder / name)), folder / name, **options)


def column(table, name, change, cast=None):
    """The table with one column changed as an array."""
    place = table.schema.names.index(name)
    values = change(table[name].to_numpy().copy())
    array = pa.array(values, cast or (table.schema.field(name).type if isinstance(values, np.ndarray) else None))
    return table.set_column(place, name, array)


def put(at, value):
    def change(values):
        values[at] = value
        return values

    return change


@pytest.mark.parametrize(("dtype", "error"), [("float32", 0.0), ("float16", 1e-3)])
def test_what_is_written_is_read(tmp_path, dtype, error):
    trace = Trace.open(write(tmp_path / "t", dtype))
    assert (trace.spec.model, trace.spec.iterations, trace.spec.runs()) == ("small", ITERATIONS, ((3, 5), (9, 10)))
    assert trace.layers == tuple(replace(a, shape=b) for a, b in zip(LAYERS, SHAPES, strict=True))
    assert trace.unions == (UnionPoint(3, "layer", True, 0.01, 2, 0.0196, 1e-5),)
    assert trace.union_points("layer", True, 0.01) == {3: {2: trace.unions[0]}}
    assert trace.union_points("model", True, 0.01) == {}
    blocks = list(trace.blocks())
    assert tuple(block.iteration for block in blocks) == ITERATIONS
    for number, block in zip(ITERATIONS, blocks, strict=True):
        np.testing.assert_allclose(block.values, gradients(number), rtol=error, atol=error * 1e-2)
        assert block.values.dtype == np.float32 and block.numels == (24, 5) and block.shapes == SHAPES
        np.testing.assert_array_equal(block.coordinate, HELD)
        np.testing.assert_array_equal(block.piece, HELD >= 24)
        np.testing.assert_array_equal(block.weight, WEIGHT)
    np.testing.assert_allclose(trace.residuals(1), gradients(101), rtol=error, atol=error * 1e-2)
    np.testing.assert_allclose(trace.residuals(0, workers=[2]), gradients(100)[2:], rtol=error, atol=error * 1e-2)


def test_blocks_of_some_workers(folder):
    trace = Trace.open(folder)
    for number, block in zip(ITERATIONS, trace.blocks(workers=2), strict=True):
        np.testing.assert_array_equal(block.values, gradients(number)[:2])
    np.testing.assert_array_equal(next(trace.blocks(workers=[2, 0])).values, gradients(3)[[2, 0]])
    for wrong in (0, 4, [3], []):
        with pytest.raises(InputError, match="expected 1 to 3 workers, those of the trace"):
            next(trace.blocks(workers=wrong))
    with pytest.raises(InputError, match="expected a block from 0 to 1, got 2"):
        trace.residuals(2)
    (folder / "residuals.parquet").unlink()
    assert Trace.open(folder).residuals(0) is None


@given(rows=st.integers(1, 60), batch=st.integers(1, 70))
def test_row_groups_need_not_be_iterations(folder, monkeypatch, rows, batch):
    """Row groups and read batches of any size give the same blocks."""
    monkeypatch.setattr("simulator.traces.format.tables.BATCH_ROWS", batch)
    rewrite(folder, lambda table: table, row_group_size=rows)
    for number, block in zip(ITERATIONS, Trace.open(folder).blocks(), strict=True):
        np.testing.assert_array_equal(block.values, gradients(number))


@pytest.mark.parametrize("name", ["resnet-digits", "transformer-generated"])
def test_the_shipped_traces_are_whole(name):
    trace = Trace.open(SHIPPED / name)
    assert trace.spec.workers == 16 and [end - first + 1 for first, end in trace.spec.runs()] == [16, 16]
    assert trace.keys.weight.sum() == pytest.approx(sum(trace.numels), rel=1e-6)
    assert str(sum(trace.numels)) in trace.spec.model and len(trace.unions) == 7 * 60
    largest = {}
    for block in trace.blocks():
        assert np.isfinite(block.values).all() and 1e-6 < np.abs(block.values).mean() < 0.1
        largest[block.iteration] = np.abs(block.values).max()
    assert len(largest) == 32
    for run, (first, _) in enumerate(trace.spec.runs()):
        assert np.abs(trace.residuals(run)).max() > largest[first] / 100


@pytest.mark.parametrize(("name", "coordinates"), [("resnet14-digits", 2056), ("transformer-text", 2216)])
def test_the_long_shipped_traces_resolve_what_they_are_for(name, coordinates):
    """500 iterations in a row, a density of 0.001 of model and layers, and 64 pieces for each of 16 workers."""
    trace = Trace.open(SHIPPED / name)
    assert trace.spec.workers == 16 and trace.spec.runs() == ((20, 519),) and 1e6 < sum(trace.numels) < 1e7
    assert str(sum(trace.numels)) in trace.spec.model and len(trace.keys.weight) == coordinates
    assert trace.floor("model") <= 0.001 and trace.floor("layer") <= 0.001 and trace.pieces() >= 1024
    assert sum(path.stat().st_size for path in (SHIPPED / name).iterdir()) < 15e6


def rows(change, file="gradients.parquet"):
    return lambda folder: rewrite(folder, change, file)


def cells(name, change, cast=None, file="gradients.parquet"):
    return rows(lambda table: column(table, name, change, cast), file)


def emptied(place):
    return lambda values: [*values[:place].tolist(), None, *values[place + 1 :].tolist()]


def without(name):
    return rows(lambda table: table.drop_columns([name]))


RESIDUALS = "residuals.parquet"
SAME = "the coordinates of the first iteration in every"
DAMAGE = {
    "fewer workers": (without("w2"), "column w2: expected one such column, got 0: trace.yaml says 3"),
    "no weight": (without("weight"), "column weight: expected one such column"),
    "text values": (
        cells("w1", lambda v: v.astype(str), pa.string()),
        "column w1: expected floating-point numbers, got string",
    ),
    "float layers": (cells("layer", lambda v: v, pa.float32()), "column layer: expected whole numbers, got float"),
    "NaN": (cells("w1", put(12, np.nan)), "row 13, column w1: expected a finite number, got nan"),
    "infinite": (cells("w0", put(30, -np.inf)), "row 31, column w0: expected a finite number, got -inf"),
    "null": (cells("w0", emptied(0), pa.float32()), "row 1, column w0: expected a finite number, got None"),
    "null iteration": (
        cells("iteration", emptied(0), pa.int32()),
        "column iteration: expected a whole number in every row, got 1 empty",
    ),
    "null layer": (cells("layer", emptied(14), pa.int32()), "row 15, column layer: expected a finite number, got None"),
    "outside": (
        cells("coordinate", put(5, 24)),
        "row 6, column coordinate: expected a coordinate inside its layer, got 24",
    ),
    "no such layer": (cells("layer", put(10, 2)), "row 11, column layer: expected a layer from 0 to 1, got 2"),
    "unsorted": (
        cells("coordinate", put([1, 2], [8, 3])),
        "row 3, column coordinate: expected rows sorted by layer and coordinate, got 3",
    ),
    "duplicate": (
        cells("coordinate", put(2, 3)),
        "row 3, column coordinate: expected each coordinate once per iteration, got 3",
    ),
    "weights": (
        cells("weight", put(0, 5.0)),
        "column weight: expected weights that sum to the 24 elements of layer 0, got 25",
    ),
    "weight below 1": (cells("weight", put(0, 0.0)), "row 1, column weight: expected a weight of at least 1, got 0.0"),
    "other coordinates": (
        cells("coordinate", put(11, 2)),
        f"row 12: expected {SAME} iteration, got layer 0, coordinate 2",
    ),
    "fewer coordinates": (rows(lambda t: t.slice(0, 54)), f"row 45: expected {SAME} iteration, got 10 of them, not 11"),
    "unsorted iterations": (
        rows(lambda t: pa.concat_tables([t.slice(11, 11), t.slice(0, 11), t.slice(22)])),
        "row 12, column iteration: expected rows sorted by iteration, got 3 after 4",
    ),
    "missing iteration": (
        rows(lambda t: t.slice(0, 44)),
        "expected the 5 iterations of trace.yaml, got 4 of them, without 10",
    ),
}
DAMAGE = {name: (damage, f"gradients.parquet: {message}") for name, (damage, message) in DAMAGE.items()} | {
    "no gradients": (lambda folder: (folder / "gradients.parquet").unlink(), "got no gradients.parquet"),
    "nothing at all": (shutil.rmtree, "got no trace.yaml, layers.csv, gradients.parquet"),
    "residuals of another sample": (
        cells("coordinate", put(0, 0), file=RESIDUALS),
        f"{RESIDUALS}: row 1: expected {SAME} block, got layer 0, coordinate 0",
    ),
    "residuals of one block": (
        rows(lambda t: t.slice(0, 11), RESIDUALS),
        f"{RESIDUALS}: expected the 2 blocks of trace.yaml, got 1 of them, without 1",
    ),
    "residual NaN": (
        cells("w2", put(21, np.nan), file=RESIDUALS),
        f"{RESIDUALS}: row 22, column w2: expected a finite number, got nan",
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_named_with_file_row_and_column(folder, kind):
    damage, message = DAMAGE[kind]
    damage(folder)
    assert any(message in found for found in problems(folder)), problems(folder)


@given(cut=st.floats(0, 0.999))
def test_a_truncated_file_is_an_input_error(folder, cut):
    write(folder)
    path = folder / "gradients.parquet"
    content = path.read_bytes()
    path.write_bytes(content[: int(cut * len(content))])
    assert "gradients.parquet: expected a readable Parquet file" in problems(folder)[0]


@given(at=st.floats(0, 0.9), byte=st.integers(0, 255))
def test_a_damaged_byte_is_an_input_error_or_harmless(folder, at, byte):
    write(folder)
    path = folder / "gradients.parquet"
    content = bytearray(path.read_bytes())
    content[int(at * len(content))] = byte
    path.write_bytes(bytes(content))
    with suppress(InputError):
        assert len(list(Trace.open(folder).blocks())) == 5


def test_residuals_of_a_trace_without_rows_are_not_compared_with_any(folder):
    rewrite(folder, lambda table: table.slice(0, 0))
    expected = "gradients.parquet: expected the 5 iterations of trace.yaml, got 0 of them, without 3"
    assert problems(folder) == [expected]


TEXTS = {
    "trace.yaml": [
        ("workers: 3", "workers: 0", "trace.yaml:6:1: workers: expected at least 1, got 0"),
        ("workers: 3", "", "trace.yaml:1:1: workers: expected this key, got nothing"),
        ("workers: 3", "workerz: 3", "did you mean 'workers'?"),
        ("gradient_scale: 8.0", "gradient_scale: .nan", ": gradient_scale: expected a finite number, got nan"),
        ("gradient_scale: 8.0", "gradient_scale: 0", ": gradient_scale: expected above 0.0, got 0"),
        ("format: 1", "format: 2", "trace.yaml:1:1: format: expected one of 1, got 2"),
        ("gradient_scale: 8.0", "gradient_scale: 1e-31", "expected scales of at least 1e-30, got a smaller one"),
        ("[3, 4, 5, 9, 10]", "[3, 4, 4, 9, 10]", "expected increasing iterations from 0 up"),
        ("- [9, 10]", "- [9, 11]", "expected blocks of recorded iterations, got [9, 11]"),
        ("- [9, 10]", "- [9, 999999999999]", "expected blocks of recorded iterations"),
        ("format: 1", "format: [", "trace.yaml:"),
        ("model: small", "model: !!str x", "expected plain YAML without tags"),
        ("model: small", f"model: {'[' * 5000}", "expected at most 40 levels of nesting, got more"),
        ("model: small", "date: 2026-13-45", ": date: expected a valid date"),
    ],
    "layers.csv": [
        ("name,numel", "nome,numel", "layers.csv:1: expected the columns name, numel"),
        ("bias,5", "bias,0", "layers.csv:3: numel: expected a whole number from 1 up, got '0'"),
        ("bias,5", "bias,5.5", "layers.csv:3: numel: expected a whole number from 1 up, got '5.5'"),
        ("bias,5", "conv,5", "layers.csv:3: name: expected a name of its own, got 'conv'"),
        (
            "bias,5,float32,0.0,0.0,5",
            "bias,6,float32,0.0,0.0,6",
            "expected weights that sum to the 6 elements of layer 1, got 5",
        ),
        ("0.001", "-0.001", "layers.csv:2: forward_s: expected seconds, 0 or more, got '-0.001'"),
        ("4x6", "4x7", "layers.csv:2: shape: expected a shape of 24 elements, got 4x7"),
        ("bias,5", "bias", "layers.csv:3: expected 6 cells, got 5"),
    ],
    "union.csv": [
        ("layer,true", "tensor,true", "union.csv:2: granularity: expected layer, bucket or model, got 'tensor'"),
        ("layer,true", "layer,yes", "union.csv:2: error_feedback: expected true or false, got 'yes'"),
        ("0.0196", "nan", "union.csv:2: union_density: expected from 0 to 1, got 'nan'"),
    ],
}


@pytest.mark.parametrize(
    ("name", "old", "new", "message"), [(n, *case) for n, cases in TEXTS.items() for case in cases]
)
def test_bad_text_is_named_with_its_place(folder, name, old, new, message):
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1))
    assert any(message in found for found in problems(folder)), problems(folder)


def test_everything_that_is_wrong_is_said_at_once(folder):
    rewrite(folder, lambda t: column(column(t, "w0", put(40, np.nan)), "w2", put(50, np.inf)))
    (folder / "union.csv").write_text("iteration\n1\n")
    assert len(problems(folder)) == 3
    (folder / "layers.csv").write_bytes(b"name,numel\nb\xff,3\n")
    (folder / "trace.yaml").write_text("format: 3\nworkers: many\n")
    found = problems(folder)
    assert {line.split(":")[0] for line in found} == {"trace.yaml", "layers.csv", "union.csv"} and len(found) == 5


def test_a_writer_refuses_what_could_not_be_read_and_leaves_no_trace_behind(tmp_path):
    piece, zeros = (HELD >= 24).astype(np.int64), np.zeros((3, len(HELD)), dtype=np.float32)
    spec = TraceSpec(format=1, workers=3, iterations=(0,))

    def block(values, number=0, weight=WEIGHT):
        return Block(values, piece, HELD, weight, (24, 5), number)

    cases = [
        ([block(zeros, 1), block(zeros, 1)], "does not follow"),
        ([block(zeros[:2])], "expected values of 3 workers"),
        ([block(zeros), block(zeros, 1, 2 * WEIGHT)], "other coordinates"),
        ([block(zeros + np.float32(1e6))], "must be finite as float16"),
        ([Block(zeros, piece, HELD, WEIGHT, (24, 6))], "whole model"),
        ([], "at least one iteration"),
    ]
    for blocks, message in cases:
        with pytest.raises(SparsimError, match=message), TraceWriter(tmp_path / "t", spec, LAYERS, "float16") as out:
            for item in blocks:
                out.append(item)
        assert "trace.yaml" in problems(tmp_path / "t")[0]


def test_iterations_outside_the_stated_blocks_are_passed_over(folder):
    (folder / "trace.yaml").write_text((folder / "trace.yaml").read_text().replace("- [3, 5]", "- [3, 4]"))
    blocks = list(Trace.open(folder).blocks())
    assert [block.iteration for block in blocks] == [3, 4, 9, 10]
    for number, block in zip((3, 4, 9, 10), blocks, strict=True):
        np.testing.assert_array_equal(block.values, gradients(number))


@pytest.mark.parametrize("kept", [0, 11, 15])
def test_residuals_replaced_after_they_were_checked_are_an_input_error(folder, kept):
    trace = Trace.open(folder)
    rewrite(folder, lambda table: table.slice(0, kept), "residuals.parquet")
    with pytest.raises(InputError, match="expected the rows that were checked, got other rows: was the file replaced"):
        trace.residuals(1)


def test_values_that_overflow_when_they_are_scaled_back_are_an_input_error(folder):
    text = (folder / "trace.yaml").read_text()
    (folder / "trace.yaml").write_text(text.replace("gradient_scale: 8.0", "gradient_scale: 1.0e-30"))
    rewrite(folder, lambda table: column(table, "w0", put(0, 1e30)))
    with pytest.raises(InputError, match="expected values that float32 holds when divided by the scale, got 1e-30"):
        next(Trace.open(folder).blocks())


def test_tables_beyond_their_limits_are_named(folder, monkeypatch):
    monkeypatch.setattr("simulator.loading.csv_tables.MAX_LAYERS", 1)
    assert problems(folder) == ["layers.csv:3: expected at most 1 layers, got more"]
    os.truncate(folder / "layers.csv", 2**26 + 1)
    assert "layers.csv: expected at most 67108864 bytes, got 67108865 bytes" in problems(folder)


@pytest.mark.parametrize("row", ["t{n},0", "t{n}"])
def test_no_more_than_twenty_problems_of_a_table_are_named(folder, row):
    rows = "\n".join(row.format(n=n) for n in range(30))
    (folder / "layers.csv").write_text(f"name,numel\n{rows}\n")
    assert len(problems(folder)) == 20
