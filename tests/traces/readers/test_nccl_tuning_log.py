"""What NCCL writes about its own tuning."""

import pytest
from synthetic_logs import write

from simulator.traces.readers.nccl_tuning_log import TuningCell, read_nccl_tuning

NEW = """\
n1:1:2 [0] NCCL INFO   Algorithm | Tree | Ring |
n1:1:2 [0] NCCL INFO   Protocol | LL | LL128 | Simple | LL | LL128 | Simple |
n1:1:2 [0] NCCL INFO   Max NThreads | 512 | 640 | 512 | 512 | 640 | 512 |
n1:1:2 [0] NCCL INFO   AllGather | 0.0/   0.0 | 0.0/   0.0 | 0.0/   0.0 | 23.3/   5.3 | 44.6/   0.0 | 70.0/  21.3 |
n1:1:2 [0] NCCL INFO   AllReduce | 25.2/   1.5 | 48.5/   2.5 | 448.0/   9.0 | 43.4/   2.7 | 79.4/   0.0 | 120.0/  11.0 |
"""
OLD = """\
n1:1:2 [0] NCCL INFO Latency/AlgBw |    Tree/    LL |    Tree/ LL128 |    Tree/Simple | CollNet/Simple |
n1:1:2 [0] NCCL INFO  Max NThreads |            512 |            640 |            512 |            512 |
n1:1:2 [0] NCCL INFO     AllReduce |     6.3/   0.8 |    14.0/   0.0 |    18.0/   3.0 |     1.0/   2.0 |
"""
CHOICES = """\
n1:1:2 [0] NCCL INFO 4096 Bytes -> Algo 1 proto 0 time 23.400000
n1:1:2 [0] NCCL INFO AllReduce: 8388608 Bytes -> Algo NVLS_TREE proto SIMPLE channel{Lo..Hi}={0..15}
n1:1:2 [0] NCCL INFO AllGather: 64 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={2..3}
"""


def read(tmp_path, text):
    return read_nccl_tuning(write(tmp_path / "nccl.txt", text))


def test_a_table_with_two_headings(tmp_path):
    log = read(tmp_path, NEW)
    assert log.problems == () and len(log.parts) == 12
    cell = log.parts[-1]
    assert (cell.primitive, cell.algorithm, cell.protocol) == ("all_reduce", "ring", "simple")
    assert (cell.latency, cell.bandwidth) == pytest.approx((120e-6, 11e9))


def test_a_table_with_one_heading(tmp_path):
    log = read(tmp_path, OLD)
    assert [(cell.algorithm, cell.protocol) for cell in log.parts] == [
        ("tree", "ll"),
        ("tree", "ll128"),
        ("tree", "simple"),
        ("collnet_direct", "simple"),
    ]


def test_choices_by_number_and_by_name(tmp_path):
    first, second, third = read(tmp_path, CHOICES).parts
    assert (first.primitive, first.nbytes, first.algorithm, first.protocol) == ("", 4096, "ring", "ll")
    assert first.seconds == pytest.approx(23.4e-6)
    assert (second.algorithm, second.protocol, second.channels) == ("nvls_tree", "simple", 16)
    assert (third.primitive, third.algorithm, third.protocol, third.channels) == ("all_gather", "ring", "ll128", 2)


@pytest.mark.parametrize("damage", [("23.3/   5.3 |", ""), ("23.3/", "2x.3/"), ("44.6/", "-4.6/")])
def test_a_damaged_row_is_named_with_its_line(tmp_path, damage):
    log = read(tmp_path, NEW.replace(*damage))
    (problem,) = log.problems
    assert problem.where.endswith("nccl.txt:4")
    assert len(log.parts) == 6


def test_a_log_without_tables_says_what_to_set(tmp_path):
    assert "NCCL_DEBUG_SUBSYS" in read(tmp_path, "n1:1:2 [0] NCCL INFO Bootstrap\n").problems[0].hint


def test_after_a_hundred_problems_the_rest_is_not_looked_at(tmp_path):
    log = read(tmp_path, NEW + "n1:1:2 [0] NCCL INFO   AllReduce | 25.2/   1.5 |\n" * 150 + CHOICES)
    assert (len(log.problems), len(log.parts)) == (100, 12)
    assert {type(part) for part in log.parts} == {TuningCell}
