"""Inputs made to fill memory or time: small on disk, huge once read. Each is refused in words, at once."""

import gzip
import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_inputs import SCENARIO
from traces.format import test_format

from simulator.errors import InputError, Problem, format_value
from simulator.loading.documents import parse_document
from simulator.loading.replacing import replace_key
from simulator.prediction.run import run
from simulator.scenario.reading import load
from simulator.studies.start.training_files import read_blocks
from simulator.studies.storage.journal import Journal
from simulator.studies.sweep.grid import read_grid
from simulator.traces.format.trace import Trace
from simulator.traces.readers.chakra import read_chakra
from simulator.traces.readers.imports import import_npz
from simulator.traces.readers.kineto.reader import read_kineto
from simulator.traces.readers.nccl_log import read_nccl_log
from simulator.traces.readers.osu import read_osu
from simulator.units import parse

FULL = "SPARSIM_FUZZING" in os.environ
"""Whether bombs are as large as the limits ask for, in a process whose memory is measured; or limits are lowered."""
NUMBERS = {"descr": "<f8", "fortran_order": False}
MEGABYTES, ROWS = (40, 20_000_000) if FULL else (2, 1_000_000)


@pytest.fixture(autouse=True)
def _limits(monkeypatch):
    if not FULL:
        for reader in ("readers.streams", "readers.imports", "format.tables"):
            monkeypatch.setattr(f"simulator.traces.{reader}.FREE", 2**20)


def refused(call, *arguments):
    with pytest.raises(InputError) as caught:
        call(*arguments)
    return str(caught.value)


def packed(path, unit, megabytes):
    """A gzip file of so many MB of one text."""
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(megabytes):
            file.write(unit * (10**6 // len(unit)))
    return path


@pytest.mark.parametrize("read", [read_nccl_log, read_osu])
def test_packed_lines_without_end_are_refused(tmp_path, read):
    said = refused(read, packed(tmp_path / "log.gz", b"#" + b" " * 998 + b"\n", MEGABYTES))
    assert "expected at most 50 times its bytes when unpacked, got more: is it a decompression bomb" in said


def test_a_line_without_end_is_refused(tmp_path):
    path = packed(tmp_path / "log.gz", b"1", 3)
    assert "expected lines of at most 1048576 characters" in refused(read_nccl_log, path)


def test_packed_events_without_end_are_a_problem(tmp_path):
    path = packed(tmp_path / "trace.json.gz", b"[[],[]],", MEGABYTES)
    assert "decompression bomb" in str(read_kineto(path).problems[-1])
    with gzip.open(tmp_path / "two.gz", "wb") as file:
        file.write(b'{"nodes": [' + b'{"a": 1},' * (MEGABYTES * 10**5))
    (*_, problem) = read_chakra(tmp_path / "two.gz").problems
    assert "decompression bomb" in str(problem)


def test_json_values_are_bounded(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents": [' + "[" * 10**6)
    assert "expected a JSON value" in refused(read_kineto, path)


def test_an_archive_that_unpacks_to_far_more_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, NUMBERS | {"shape": (1, 1, MEGABYTES * 10**6)})
        for _ in range(MEGABYTES):
            file.write(bytes(8_000_000))
    assert "expected at most 8 times its bytes when unpacked" in refused(import_npz, tmp_path / "a.npz", tmp_path / "t")


def test_an_archive_that_promises_more_than_it_holds_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive, archive.open("a.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, NUMBERS | {"shape": (10**6, 10**6, 10**5)})
    assert "a numpy .npz archive without objects" in refused(import_npz, tmp_path / "a.npz", tmp_path / "t")


def test_objects_in_an_archive_are_never_made(tmp_path):
    """Unpickling this one would make a file."""

    class Evil:
        def __reduce__(self):
            return open, (str(tmp_path / "made"), "w")

    np.savez(tmp_path / "a.npz", a=np.array([[[Evil()]]], dtype=object))
    assert "without objects" in refused(import_npz, tmp_path / "a.npz", tmp_path / "t")
    assert not (tmp_path / "made").exists()


def test_names_in_an_archive_name_tensors_and_no_files(tmp_path):
    buffer = io.BytesIO()
    np.savez(buffer, **{"../../evil": np.ones((1, 2, 3)), "/etc/evil": np.ones((1, 2, 3))})
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.npz").write_bytes(buffer.getvalue())
    import_npz(tmp_path / "in" / "a.npz", tmp_path / "in" / "trace")
    assert [layer.name for layer in Trace.open(tmp_path / "in" / "trace").layers] == ["../../evil", "/etc/evil"]
    assert sorted(path.name for path in tmp_path.rglob("*evil*")) == []


def test_a_parquet_file_that_unpacks_to_far_more_is_refused(tmp_path):
    folder = test_format.write(tmp_path / "trace")
    columns = {"iteration": pa.int32(), "layer": pa.int32(), "coordinate": pa.int64(), "weight": pa.float64()}
    columns |= {f"w{i}": pa.float32() for i in range(3)}
    table = pa.table({name: pa.nulls(ROWS, kind).fill_null(0) for name, kind in columns.items()})
    pq.write_table(table, folder / "gradients.parquet", compression="zstd")
    assert "expected at most 100 times its bytes when unpacked" in refused(Trace.open, folder)


def test_a_table_of_nothing_but_line_ends_is_refused_with_few_words(tmp_path):
    folder = test_format.write(tmp_path / "trace")
    (folder / "layers.csv").write_text("name,numel\n" + "\n" * 10**6)
    assert len(refused(Trace.open, folder)) < 10_000


def test_aliases_of_long_text_are_counted():
    text = "a: &a " + "x" * 10**5 + "\nb: [" + "*a, " * 10**4 + "*a]\n"
    assert "expected at most 200000 values, aliases counted" in refused(parse_document, text)


def test_what_is_shown_of_a_value_is_never_longer_than_it_may_be():
    nested = [1]
    for _ in range(5000):
        nested = [nested]
    for value in (["x" * 10**6] * 10**5, nested, 10**9000, {i: i for i in range(10**5)}):
        assert len(format_value(value)) <= 60
    assert len(str(Problem("a", "b" * 10**6, "c\n" * 10**6, "\x1b[2J"))) < 1100
    assert str(Problem("a", "b", "c\nd", "\x1b[2J\ud800")) == "a: expected b, got c\\nd: \\x1b[2J\\ud800"
    assert str(InputError([Problem("a", "b", "c")] * 10**5)).endswith("and 99950 more problems")


def test_long_numbers_are_read_in_no_time():
    with pytest.raises(ValueError, match="a time such as"):
        parse("1" * 10**6 + "a\nb", "time")


def test_deep_keys_and_long_indices_are_refused():
    assert "at most 40 parts" in refused(replace_key, {}, "a" + ".a" * 10**5, 1, Path())
    assert "an index below 1" in refused(replace_key, {"a": [1]}, "a." + "9" * 500, 1, Path())


def test_many_ranges_are_refused_before_they_are_spread():
    ranges = "".join(f"  k{i}: {{from: 0, to: 1, points: 250000}}\n" for i in range(500))
    assert "values of all ranges together" in refused(read_grid, parse_document(f"base: x\nvary:\n{ranges}"), Path())


SIZES = {
    "messages": ("topology: ring", "topology: all_to_all", "at most 4,194,304 messages, got 17,179,738,112"),
    "servers": ("topology: ring", "topology: {kind: parameter_server, servers: 100000}", "got 13,107,200,000"),
    "draws": ("nodes: 4", "nodes: 4\n  stragglers: {jitter: 0.1}", "131,072 workers times 100,002 iterations"),
    "workers": ("nodes: 4", "nodes: 4\n  gpus_per_node: 2", "at most 131072 workers, got 262144"),
    "nodes": ("nodes: 4", f"nodes: {10**30}\n#", "at most 131072"),
    "no number": ("nodes: 4", "nodes: 1e308\n#", "a whole number"),
    "layers": ("numel: 1000", f"numel: {10**18}", "at most 1000000000000"),
}


@pytest.mark.parametrize("size", SIZES)
def test_absurd_sizes_are_refused_in_words(tmp_path, size):
    old, new, message = SIZES[size]
    text = SCENARIO.replace(old, new, 1).replace("nodes: 4", "nodes: 131072", 1) + "iterations: 100000\n"
    (tmp_path / "run.yaml").write_text(text)
    assert message in refused(lambda: run(load(tmp_path / "run.yaml")))


@pytest.mark.parametrize("name", ["points.jsonl", "sweep.lock"])
def test_a_link_in_a_sweeps_folder_is_not_written_through(tmp_path, name):
    (tmp_path / "precious").write_text("not a line")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).symlink_to(tmp_path / "precious")
    assert f"{name}: expected a file of this folder, got a link" in refused(Journal, tmp_path / "out")
    assert (tmp_path / "precious").read_text() == "not a line"


def test_links_in_a_folder_are_replaced_and_not_written_through(tmp_path):
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "out").mkdir()
    for name in ("trace.yaml", "layers.csv", "gradients.parquet", "union.csv"):
        (tmp_path / "out" / name).symlink_to(tmp_path / "precious")
    test_format.write(tmp_path / "out")
    assert Trace.open(tmp_path / "out").spec.workers == 3
    assert (tmp_path / "precious").read_text() == "mine"


@pytest.mark.parametrize("read", [read_nccl_log, read_osu, read_kineto, read_chakra, lambda p: import_npz(p, p)])
@pytest.mark.parametrize("what", ["folder", "device", "pipe"])
def test_what_is_no_file_is_refused(tmp_path, read, what):
    path = {"folder": tmp_path, "device": Path("/dev/zero"), "pipe": tmp_path / "pipe"}[what]
    if what == "pipe":
        os.mkfifo(path)
    try:
        found = read(path)
    except InputError as error:
        assert "expected" in str(error)
    else:
        assert found.problems


def test_a_trace_replaced_while_it_is_read_is_said_so(tmp_path):
    folder = test_format.write(tmp_path / "trace")
    trace = Trace.open(folder)
    test_format.rewrite(folder, lambda table: table.slice(0, 25))
    assert "was the file replaced while it was read?" in refused(lambda: list(trace.blocks()))
    test_format.rewrite(folder, lambda table: table.drop_columns(["w1"]))
    assert "was the file replaced" in refused(lambda: list(trace.blocks()))


@pytest.mark.long
def test_everything_stays_below_2_gib_and_60_s():
    """All of the above in a process of its own; peak and seconds of the processor include what makes the bombs."""
    if FULL:
        pytest.skip("this is that process")
    code = "import resource, sys, pytest; code = pytest.main(sys.argv[1:]); "
    code += "used = resource.getrusage(resource.RUSAGE_SELF); "
    code += "print('used', used.ru_maxrss, used.ru_utime); sys.exit(code)"
    command = [sys.executable, "-c", code, "-q", "-p", "no:cacheprovider", __file__]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=600, env=os.environ | {"SPARSIM_FUZZING": "1"}
    )
    assert done.returncode == 0, done.stdout[-3000:]
    peak, seconds = done.stdout.rpartition("used ")[2].split()
    assert int(peak) * 1024 < 2 * 2**30
    assert float(seconds) < 60


CALLING = "".join(f"def f{i}():\n" + f"    x = f{i + 1}()\n" * 20 + "    return x\n" for i in range(50))
LEVELS = 60_000
TRAININGS = {
    "f.py": (CALLING + "def f50():\n    return f50()\n", "a file that is not a configuration"),
    **{
        f"levels{number}.toml": (f"[training]\nlocal_batch_size = 8\n{text}b = 1\n", "a name of more than 200 levels")
        for number, text in enumerate(("a." * LEVELS, '"=\\" ".' * 15_000, "x = {" + "'a b' . " * 15_000))
    },
    "long.json": ('{"train_batch_size": 1, "a": 1' + " " * 2**17 + "}", "expected at most 131072 bytes"),
}


@pytest.mark.parametrize("name", TRAININGS)
def test_a_training_configuration_takes_no_more_time_than_its_size(tmp_path, name):
    """Each function is read once, however many call it; each of these would take hours, or the square of the levels."""
    text, said = TRAININGS[name]
    (tmp_path / name).write_text(text)
    assert said in refused(read_blocks, tmp_path / name)


def test_numbers_of_a_list_are_no_levels_of_a_name(tmp_path):
    text = f"[training]\nlocal_batch_size = 8\nshares = [{'0.1, ' * 5000}]\n"
    (tmp_path / "numbers.toml").write_text(text)
    assert "batch_size: 8" in read_blocks(tmp_path / "numbers.toml").text()


def test_names_of_many_levels_stay_short(tmp_path):
    levels, long = 300, "k" * 200
    text = '{"train_batch_size": 1, ' + f'"{long}": {{"x": 1, ' * levels + '"y": 1' + "}" * (levels + 1)
    (tmp_path / "deep.json").write_text(text)
    assert len(read_blocks(tmp_path / "deep.json").text()) < 10_000
