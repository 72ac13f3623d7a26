"""What of recording needs no PyTorch: the error that says so, merging, and a command line that stays quick."""

import importlib.util

import numpy as np
import pytest
from command_line import invoke, refused, run_python

from simulator.errors import InputError
from simulator.models.gradients import Block
from simulator.models.layers import Layer
from simulator.record.merging import merge, rank_folder
from simulator.record.rows import RowFile
from simulator.traces.format.trace import Trace, TraceSpec
from simulator.traces.format.writer import TraceWriter

LAYERS = (
    Layer(name="weight", numel=6, forward=1e-3, backward=2e-3, shape=(2, 3)),
    Layer(name="bias", numel=2, shape=(2,)),
)


def gradients(rank, iteration, workers=1):
    return np.random.default_rng((rank, iteration)).standard_normal((workers, 8)).astype(np.float32)


def write(folder, rank, iterations=(0, 1, 4), workers=1, scale=1.0, **changes):
    layers = changes.get("layers", LAYERS)
    loss = {number: rank + 1.0 for number in iterations}
    spec = TraceSpec(format=1, workers=workers, iterations=(0,), model="m", loss=loss, gradient_scale=scale)
    piece, weight = np.repeat([0, 1], [6, 2]), changes.get("weight", np.ones(8))
    with TraceWriter(rank_folder(folder, rank), spec, layers) as out:
        for number in iterations:
            values = gradients(rank, number, workers)
            out.append(
                Block(values, piece, np.arange(8), weight, (6, 2), number, tuple(layer.shape for layer in LAYERS))
            )


@pytest.mark.parametrize(
    "arguments",
    [
        ("kernels", "--out", "k.csv"),
        ("layers", "mlp", "--out", "w"),
        ("gradients", "mlp", "--out", "t"),
        ("collectives", "--out", "c.csv"),
    ],
)
def test_a_missing_torch_is_an_input_error_that_says_how_to_install_it(arguments, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "torch" else real(name, *rest))
    said = refused("record", *arguments)
    assert f"sparsim record {arguments[0]}: expected PyTorch, got no module named torch" in said
    assert 'pip install "sparsim[torch]"' in said
    assert not list(tmp_path.iterdir())


def test_the_command_line_imports_no_torch():
    every_command = "from simulator.cli import main; [*main.commands.values()]; import simulator.record.merging"
    result = run_python("-c", f"{every_command}; import sys; print('torch' in sys.modules)")
    assert result.stdout.strip() == "False"


def test_merged_ranks_are_their_concatenation(tmp_path):
    write(tmp_path, 0)
    write(tmp_path, 1, workers=2, scale=4.0)
    result = invoke("record", "merge", tmp_path)
    assert (result.exit_code, result.output) == (0, f"{tmp_path}: 3 workers, 3 iterations\n")
    trace = Trace.open(tmp_path)
    assert trace.spec.iterations == (0, 1, 4) and trace.spec.runs() == ((0, 1), (4, 4))
    assert trace.spec.loss == {0: 1.5, 1: 1.5, 4: 1.5} and trace.layers == LAYERS
    for number, block in zip(trace.spec.iterations, trace.blocks(), strict=True):
        np.testing.assert_array_equal(block.values, np.concatenate([gradients(0, number), gradients(1, number, 2)]))


def test_iterations_that_a_rank_lacks_are_left_out(tmp_path):
    write(tmp_path, 0)
    write(tmp_path, 1, iterations=(0, 4, 5))
    assert merge(tmp_path, tmp_path / "merged") == (2, 2)
    trace = Trace.open(tmp_path / "merged")
    assert trace.spec.iterations == (0, 4)
    values = [block.values for block in trace.blocks()]
    np.testing.assert_array_equal(values[1], np.concatenate([gradients(0, 4), gradients(1, 4)]))


def test_what_cannot_be_merged_is_said(tmp_path):
    with pytest.raises(InputError, match=r"folders rank-00000, .*, got none of them"):
        merge(tmp_path)
    write(tmp_path, 1)
    with pytest.raises(InputError, match="without a gap, got rank-00001"):
        merge(tmp_path)
    write(tmp_path, 0, layers=(LAYERS[0], Layer(name="other", numel=2)))
    with pytest.raises(InputError, match="expected the tensors of rank-00000"):
        merge(tmp_path)
    write(tmp_path, 0, iterations=(7,))
    with pytest.raises(InputError, match="an iteration that every rank recorded"):
        merge(tmp_path)
    (rank_folder(tmp_path, 1) / "trace.yaml").unlink()
    with pytest.raises(InputError, match=r"no trace\.yaml"):
        merge(tmp_path)


def test_a_table_keeps_every_whole_row_and_drops_the_last_one_where_it_was_cut(tmp_path):
    path = tmp_path / "new" / "table.csv"
    with pytest.raises(KeyboardInterrupt), RowFile(path, ("a", "b")) as table:
        table.append({"a": "1", "b": "x, y"})
        table.append({"a": "2", "b": "z"})
        raise KeyboardInterrupt
    whole = path.read_text()
    assert whole == 'a,b\n1,"x, y"\n2,z\n'
    path.write_text(whole + "3,cu")
    with RowFile(path, ("a", "b"), resume=True) as table:
        assert table.done == [{"a": "1", "b": "x, y"}, {"a": "2", "b": "z"}]
        table.append({"a": "4", "b": ""})
    assert path.read_text() == whole + "4,\n"


@pytest.mark.parametrize(
    ("text", "columns", "resume", "message"),
    [
        ("a,b\n", ("a", "b"), False, "expected a new file, got one that exists: continue it with --resume"),
        ("a,c\n", ("a", "b"), True, r"table\.csv:1: expected the columns a, b, got 'a, c'"),
        ("a,b\n1\n", ("a", "b"), True, r"table\.csv:2: expected 2 cells, got 1"),
    ],
)
def test_a_table_that_cannot_be_gone_on_with_is_left_alone(tmp_path, text, columns, resume, message):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        RowFile(path, columns, resume)
    assert path.read_text() == text
