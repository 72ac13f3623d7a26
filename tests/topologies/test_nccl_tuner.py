"""Rows of NCCL's tuner plug-in exactly at their limits."""

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.models.exchange import Layout
from simulator.topologies.nccl import MAX_ROWS, MOST_BYTES, TunerRow, read_tuner


def test_a_row_fits_sizes_up_to_both_of_its_limits_and_the_job_that_it_names():
    def fits(primitive="all_reduce", layout=(4, 8), algorithm="ring", collective="allreduce", **fields):
        row = TunerRow(collective=collective, min_bytes=10, max_bytes=20, algorithm=algorithm, protocol="ll", **fields)
        return row.matches(primitive, np.array([9.9, 10, 15, 20, 20.1]), Layout(*layout)).tolist()

    inside, never = [False, True, True, True, False], [False] * 5
    for named in ({}, {"nodes": 4}, {"ranks": 32}, {"pipe_ops": 1}, {"registered": 0}, {"channels": 3}):
        assert fits(**named) == inside
    for named in ({"nodes": 0}, {"nodes": 8}, {"ranks": 4}, {"pipe_ops": 0}, {"pipe_ops": 2}, {"registered": 1}):
        assert fits(**named) == never
    assert fits(algorithm="tree") == inside
    assert fits("reduce_scatter", collective="reducescatter") == inside
    assert fits("reduce_scatter") == fits("reduce_scatter", collective="reducescatter", algorithm="tree") == never


def test_a_file_of_a_tuner_has_as_many_rows_and_digits_as_are_allowed(tmp_path):
    path, row = tmp_path / "rows.csv", "allreduce,0,1,ring,ll\n"
    path.write_text(row * MAX_ROWS)
    assert len(read_tuner(path)) == 10_000
    path.write_text(f"\n# more\n{row * MAX_ROWS}{row}")
    with pytest.raises(InputError, match=r"rows\.csv:10003: expected at most 10000 rows, got more"):
        read_tuner(path)
    # Written with a byte order mark, as spreadsheets do.
    text = f"\ufeffALLREDUCE,0,{'9' * 30},Ring,LL,-1,{'9' * 30},{10**12},-1,1\n\nallreduce,7,7,tree,ll128\n"
    path.write_text(text, encoding="utf-8")
    first, second = read_tuner(path)
    assert (first.min_bytes, first.max_bytes, first.registered) == (0, MOST_BYTES, 1)
    assert first.nodes == first.ranks == 10**12  # no job has more
    assert (second.min_bytes, second.max_bytes) == (7, 7)
    for wrong in (f"allreduce,0,{'9' * 31},ring,ll", "allreduce,0,1,ring,ll,-1,-1,-1,-1,-2", "allreduce,-1,1,ring,ll"):
        path.write_text(f"{wrong}\n")
        with pytest.raises(InputError, match=r"rows\.csv:1: "):
            read_tuner(path)
