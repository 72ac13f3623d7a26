"""Tables of the OSU micro-benchmarks."""

import pytest
from synthetic_logs import write

from simulator.traces.readers.osu import read_osu

PLAIN = """
# OSU MPI Allreduce Latency Test v5.6.2
# Size       Avg Latency(us)
4                      10.21
1024                   20.50
1048576              1100.00
"""
FULL = """
# OSU MPI Allgather Latency Test
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
1                       3.00              2.00              4.00         1000
64                      5.00              4.00              6.00         1000
"""
POINT = """
# OSU MPI Latency Test v7.0
# Size          Latency (us)
0                       1.10
8                       1.20
"""


def read(tmp_path, text):
    return read_osu(write(tmp_path / "osu.txt", text))


def test_several_tables_of_one_file(tmp_path):
    file = read(tmp_path, PLAIN + FULL + POINT)
    assert file.problems == ()
    assert [table.primitive for table in file.tables] == ["all_reduce", "all_gather", "point_to_point"]
    assert [table.version for table in file.tables] == ["5.6.2", "", "7.0"]
    assert [row.seconds for row in file.tables[0].rows] == pytest.approx([10.21e-6, 20.5e-6, 1.1e-3])
    assert [row.seconds for row in file.tables[1].rows] == pytest.approx([3e-6, 5e-6])
    assert [row.nbytes for row in file.tables[2].rows] == [0, 8]


def test_a_gathers_payload_is_that_of_all_ranks(tmp_path):
    gather, reduce = read(tmp_path, FULL + PLAIN).tables
    assert (gather.payload(64, 16), reduce.payload(1024, 16)) == (1024, 1024)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("2048", "a size and 1 more columns"),
        ("2048 1.0 2.0", "a size and 1 more columns"),
        ("many 1.0", "a size and 1 more columns"),
        ("2048 fast", "microseconds above 0"),
        ("2048 -1.0", "microseconds above 0"),
        ("2048 nan", "microseconds above 0"),
    ],
)
def test_a_damaged_row_is_named_with_its_line(tmp_path, row, expected):
    file = read(tmp_path, PLAIN + row + "\n")
    (problem,) = file.problems
    assert problem.where.endswith("osu.txt:7")
    assert expected in problem.expected
    assert len(file.tables[0].rows) == 3


def test_bandwidths_give_no_seconds(tmp_path):
    file = read(tmp_path, "# OSU MPI Bandwidth Test v5.3\n# Size      Bandwidth (MB/s)\n1   2.0\n")
    assert file.tables == ()
    assert "latencies" in file.problems[0].expected


def test_other_text_has_no_tables(tmp_path):
    assert "none of its tables" in read(tmp_path, "hello\n").problems[0].got


def test_after_a_hundred_problems_the_rest_is_not_looked_at(tmp_path):
    file = read(tmp_path, PLAIN + "2048 fast\n" * 150 + FULL)
    assert (len(file.problems), [table.test for table in file.tables]) == (100, ["MPI Allreduce Latency Test"])
