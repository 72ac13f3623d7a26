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
WIDE = """
# OSU MPI Allreduce Latency Test v7.4
# Datatype: MPI_CHAR.
# Size    Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations  P50 Tail Lat(us)  Validation
64                   5.00              4.00              6.00        1000              4.90        Pass
128                  6.00              5.00              7.00        1000              5.90        Fail
"""


def read(tmp_path, text):
    return read_osu(write(tmp_path / "osu.txt", text))


def test_several_tables_of_one_file(tmp_path):
    file = read(tmp_path, PLAIN + FULL + POINT)
    assert file.problems == ()
    assert [table.primitive for table in file.parts] == ["all_reduce", "all_gather", "point_to_point"]
    assert [table.version for table in file.parts] == ["5.6.2", "", "7.0"]
    assert [row.seconds for row in file.parts[0].rows] == pytest.approx([10.21e-6, 20.5e-6, 1.1e-3])
    assert [row.seconds for row in file.parts[1].rows] == pytest.approx([3e-6, 5e-6])
    assert [row.nbytes for row in file.parts[2].rows] == [0, 8]


def test_a_gathers_payload_is_that_of_all_ranks(tmp_path):
    gather, reduce = read(tmp_path, FULL + PLAIN).parts
    assert (gather.payload(64, 16), reduce.payload(1024, 16)) == (1024, 1024)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("2048", "a size and 1 more columns"), ("2048 1.0 2.0", "a size and 1 more columns"),
        ("many 1.0", "a size and 1 more columns"), ("2048 fast", "microseconds above 0"),
        ("2048 -1.0", "microseconds above 0"), ("2048 nan", "microseconds above 0"),
    ],
)  # fmt: skip
def test_a_damaged_row_is_named_with_its_line(tmp_path, row, expected):
    file = read(tmp_path, PLAIN + row + "\n")
    (problem,) = file.problems
    assert problem.where.endswith("osu.txt:7") and expected in problem.expected
    assert len(file.parts[0].rows) == 3


def test_bandwidths_give_no_seconds(tmp_path):
    file = read(tmp_path, "# OSU MPI Bandwidth Test v5.3\n# Size      Bandwidth (MB/s)\n1   2.0\n")
    assert file.parts == () and file.problems[0].got == "MPI Bandwidth Test"


def test_other_text_has_no_tables(tmp_path):
    assert "none of its tables" in read(tmp_path, "hello\n").problems[0].got


def test_after_a_hundred_problems_the_rest_is_not_looked_at(tmp_path):
    file = read(tmp_path, PLAIN + "2048 fast\n" * 150 + FULL)
    assert (len(file.problems), [table.test for table in file.parts]) == (100, ["MPI Allreduce Latency Test"])


@pytest.mark.parametrize(
    ("title", "primitive", "payload"),
    [
        ("MPI All-to-All Personalized Exchange Latency Test", "all_to_all", 4096),
        ("MPI-CUDA Broadcast Latency Test", "broadcast", 512),
        ("NCCL Allgather Latency Test", "all_gather", 4096),
        ("MPI Scatter Latency Test", "scatter", 4096),
        ("MPI Reduce Latency Test", "reduce", 512),
        ("MPI Reduce_scatter Latency Test", "reduce_scatter", 512),
        ("MPI Latency Test", "point_to_point", 512),
    ],
)
def test_a_benchmark_is_known_by_its_whole_title(tmp_path, title, primitive, payload):
    (table,) = read(tmp_path, f"# OSU {title} v7.4\n# Datatype: MPI_CHAR.\n# Size  Avg Latency(us)\n512  9.5\n").parts
    assert (table.primitive, table.payload(512, 8)) == (primitive, payload)


@pytest.mark.parametrize(
    "title",
    [
        "MPI All-to-Allv Personalized Exchange Latency Test",
        "MPI Neighborhood Allgather Latency Test",
        "MPI_Put Latency Test",
        "MPI Multi Latency Test",
        "MPI Non-blocking Allreduce Latency Test",
        "MPI Tea Time Latency Test",
    ],
)
def test_other_benchmarks_are_refused_by_name_and_the_next_table_is_read(tmp_path, title):
    file = read(tmp_path, f"# OSU {title} v7.4\n# Size  Avg Latency(us)\n512  9.5\n" + PLAIN)
    assert [table.primitive for table in file.parts] == ["all_reduce"]
    assert [problem.got for problem in file.problems] == [title]


def test_percentiles_are_passed_over_and_failed_validations_named(tmp_path):
    file = read(tmp_path, WIDE)
    assert [(row.nbytes, row.seconds) for row in file.parts[0].rows] == [(64, pytest.approx(5e-6))]
    assert file.problems[0].expected == "a result that passed its validation"


def test_prefixes_and_lost_signs_do_not_matter(tmp_path):
    bare = "".join(f"12: {line.replace('# ', '')}\n" for line in FULL.splitlines())
    assert read(tmp_path, bare).parts[0].rows == read(tmp_path, FULL).parts[0].rows
