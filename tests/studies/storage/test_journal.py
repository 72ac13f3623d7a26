"""The journal of a sweep: damaged and incomplete records."""

import json
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.errors import InputError
from simulator.studies.storage import journal as journals
from simulator.studies.storage.journal import Journal, failed, line_of, succeeded


@given(cut=st.integers(0, 400))
def test_whatever_is_torn_off_the_rest_is_read(tmp_path_factory, cut):
    folder = tmp_path_factory.mktemp("torn")
    data = b"".join(map(line_of, [json.dumps({"digest": f"d{i}", "row": {"x": i}}).encode() for i in range(8)]))
    (folder / "points.jsonl").write_bytes(data[:cut])
    with Journal(folder) as journal:
        whole_lines = data[:cut].count(b"\n")
        assert (list(journal.records), journal.damaged) == ([f"d{i}" for i in range(whole_lines)], 0)
        journal.add([succeeded("d9", {"x": 9})])
    with Journal(folder) as journal:
        assert len(journal.records) == whole_lines + 1 and journal.record("d9").row == {"x": 9} and journal.damaged == 0


ODD_RECORDS = [
    b'["a", "list"]',
    b'{"row": {"x": 1}}',
    b'{"digest": 5, "row": {"x": 1}}',
    b'{"digest": "d"}',
    b'{"digest": "d", "row": {"x": 1}, "more": 1}',
    b'{"digest": "d", "row": [1]}',
    b'{"digest": "d", "row":{"x": 1}}',
    b'{"digest": "d", "row": {"x": NaN}}',
    b'{"digest": "d", "row": {"x": 1e999}}',
    b'{"digest": "d", "row": {"x": 1' + 40 * b"0" + b"}}",
    '{"digest": "d", "error": "lost"}'.encode("utf-16"),
    b'{"digest": "d", "row": {"x": {"y": 1}}}',
    b'{"digest": "d", "error": 5}',
]


@pytest.mark.parametrize("body", ODD_RECORDS)
def test_records_of_another_form_are_left_aside(tmp_path, body):
    (tmp_path / "points.jsonl").write_bytes(line_of(body) + b"\n" + line_of(b'{"digest": "e", "row": {"x": 2}}'))
    with Journal(tmp_path) as journal:
        assert (journal.damaged, list(journal.records)) == (1, ["e"]) and journal.record("e").row == {"x": 2}
        assert "d" not in journal.records


def test_lines_too_long_for_a_record_are_passed_over_whole(tmp_path):
    from simulator.studies.storage.journal import MAX_RECORD

    good = line_of(b'{"digest": "e", "row": {"x": 2}}')
    (tmp_path / "points.jsonl").write_bytes(b"x" * (2 * MAX_RECORD + 5) + b"\n" + good)
    with Journal(tmp_path) as journal:
        assert list(journal.records) == ["e"]
        assert journal.damaged == 3  # as many pieces as it takes to read it
    assert (tmp_path / "points.jsonl").stat().st_size == 2 * MAX_RECORD + 6 + len(good)


def test_a_point_that_came_out_is_not_undone_by_an_error_beside_it(tmp_path):
    row, error = (line_of(b'{"digest": "d", ' + rest) for rest in (b'"row": {"x": 1}}', b'"error": "lost"}'))
    (tmp_path / "points.jsonl").write_bytes(error + row + error)
    with Journal(tmp_path) as journal:
        assert journal.finished("d") and journal.record("d").row == {"x": 1}


def test_records_with_more_columns_than_all_may_have_are_left_aside(tmp_path, monkeypatch):
    monkeypatch.setattr(journals, "MAX_COLUMNS", 3)
    columns = ("ab", "c", "d", "a", "abcd", "bc")
    rows = [succeeded(f"p{place}", dict.fromkeys(names, 1.0)) for place, names in enumerate(columns)]
    (tmp_path / "points.jsonl").write_bytes(b"".join(line_of(row.body) for row in rows))
    with Journal(tmp_path) as journal:
        assert (list(journal.records), journal.damaged) == (["p0", "p1", "p3", "p5"], 2)


def test_shards_that_write_at_the_same_time_read_what_the_others_have(tmp_path):
    with Journal(tmp_path, "-1of2") as one:
        one.add([succeeded("a", {"x": 1}), failed("b", "lost")])
        with Journal(tmp_path, "-2of2") as other:
            assert (other.finished("a"), other.finished("b"), other.finished("c")) == (True, False, False)
            assert other.record("b").error == "lost"


def test_a_link_is_read_and_not_written_to_and_a_pipe_is_not_waited_for(tmp_path):
    (tmp_path / "elsewhere").write_bytes(line_of(succeeded("a", {"x": 1}).body))
    (tmp_path / "points-1of2.jsonl").symlink_to("elsewhere")
    with Journal(tmp_path) as journal:
        assert list(journal.records) == ["a"]
    with pytest.raises(InputError, match="a file of this folder, got a link to elsewhere"):
        Journal(tmp_path, "-1of2")
    os.mkfifo(tmp_path / "points-2of2.jsonl")
    with pytest.raises(InputError, match="a file, got a folder, a device or a pipe"):
        Journal(tmp_path)


def test_a_journal_that_is_changed_under_a_sweep_is_noticed(tmp_path):
    body = b'{"digest": "d", "row": {"x": 1}}'
    (tmp_path / "points.jsonl").write_bytes(line_of(body))
    with Journal(tmp_path) as journal:
        (tmp_path / "points.jsonl").write_bytes(line_of(body).replace(b'"x": 1', b'"x": 2'))
        with pytest.raises(InputError) as caught:
            journal.record("d")
    assert str(caught.value) == (
        f"{tmp_path}: expected the same records as at the start of the sweep, got others: the file was changed "
        "meanwhile; run the same command again to compute what is missing"
    )


def test_a_killed_process_frees_its_folder(tmp_path):
    code = f"import time; from pathlib import Path; from simulator.studies.storage.journal import Journal\n\
j = Journal(Path({str(tmp_path)!r})); print('held', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=f"process {process.pid} "):
            Journal(tmp_path)
        process.kill()
    with Journal(tmp_path) as journal:
        assert journal.records == {}
