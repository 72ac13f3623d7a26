"""Logs of nccl-tests: every collective, noise, and damage that is named."""

import gzip
import json
from operator import attrgetter

import pytest
from synthetic_logs import nccl_document, nccl_log, write

from simulator.errors import InputError
from simulator.traces.readers.nccl_log import read_nccl_log

ROWS = [(2**i, 20e-6 + 2**i / 5e9, 21e-6 + 2**i / 5e9) for i in range(10, 24)]


def read(tmp_path, text, name="log.txt"):
    return read_nccl_log(write(tmp_path / name, text))


@pytest.mark.parametrize("name", ["log.txt", "log.txt.gz"])
@pytest.mark.parametrize("program", ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "sendrecv"])
def test_every_collective_is_read_with_both_placements(tmp_path, program, name):
    log = read(tmp_path, nccl_log(ROWS, hosts=("a", "b"), each=4, program=program), name)
    assert log.problems == ()
    (test,) = log.parts
    assert test.collective == {"sendrecv": "send_receive"}.get(program, program)
    assert (test.ranks, test.nodes, test.gpus) == (8, 2, ("Test GPU",)) and test.version == "2.20.5+cuda12.4"
    assert test.network == "Socket" and [row.nbytes for row in test.rows] == [size for size, *_ in ROWS]
    assert [row.out_of_place for row in test.rows] == pytest.approx([t for _, t, _ in ROWS], rel=1e-5)
    assert [row.in_place for row in test.rows] == pytest.approx([t for _, _, t in ROWS], rel=1e-5)


def test_several_tests_of_one_file_keep_their_own_rows(tmp_path):
    log = read(tmp_path, nccl_log(ROWS, program="all_reduce") + "\n" + nccl_log(ROWS[:5], program="all_gather", each=4))
    found = [(test.collective, test.ranks, len(test.rows)) for test in log.parts]
    assert (found, log.problems) == ([("all_reduce", 2, len(ROWS)), ("all_gather", 4, 5)], ())


@pytest.mark.parametrize(
    ("program", "root", "found"),
    [
        ("all_reduce", None, "all_reduce"), ("reduce_scatter", None, "reduce_scatter"),
        ("all_gather", None, "all_gather"), ("sendrecv", None, "unknown"), ("broadcast", 0, "broadcast"),
        ("reduce", 3, "reduce"),
    ],
)  # fmt: skip
def test_old_logs_that_do_not_name_the_collective_are_told_by_their_bandwidths(tmp_path, program, root, found):
    assert read(tmp_path, nccl_log(ROWS, program=program, each=8, old=True, root=root)).parts[0].collective == found


def test_nothing_tells_the_collective_of_no_bytes(tmp_path):
    assert read(tmp_path, nccl_log([(0, 1e-5, 1e-5)], each=8, old=True)).parts[0].collective == "unknown"


def test_command_lines_that_were_echoed_name_the_test_that_follows_them(tmp_path):
    programs = ("reduce", "broadcast", "all_gather")
    roots = {"reduce": 0, "broadcast": 0}
    logs = {name: nccl_log(ROWS, program=name, each=4, old=True, root=roots.get(name)) for name in programs}
    text = "\n".join(f"$ ./build/{name}_perf -b 1K\n" + log for name, log in logs.items())
    assert [test.collective for test in read(tmp_path, text).parts] == list(programs)


@pytest.mark.parametrize(("number", "version"), [("22902", "2.29.2"), ("2708", "2.7.8")])
def test_the_library_number_of_newer_logs_is_the_version(tmp_path, number, version):
    text = f"# nccl-tests version 2.17.6 nccl-headers={number} nccl-library={number}\n" + nccl_log(ROWS)
    text = "\n".join(line for line in text.splitlines() if not line.startswith("NCCL version"))
    assert read(tmp_path, text).parts[0].version == version


def test_a_placement_that_was_not_run_has_no_seconds(tmp_path):
    log = read(tmp_path, nccl_log([(size, seconds, None) for size, seconds, _ in ROWS]))
    assert log.problems == () and {row.in_place for row in log.parts[0].rows} == {None}
    assert [row.out_of_place for row in log.parts[0].rows] == pytest.approx([t for _, t, _ in ROWS], rel=1e-5)


def test_a_second_table_of_a_test_keeps_what_the_test_is_of(tmp_path):
    lines = nccl_log(ROWS, program="reduce_scatter", each=4, environment=[("NCCL_ALGO", "Ring")]).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("#  size"))
    first, second = read(tmp_path, "\n".join([*lines[: start + 5], *lines[start:]]) + "\n").parts
    assert (len(first.rows), len(second.rows), second.line) == (3, len(ROWS), start + 6)
    for name in ("collective", "ranks", "gpus", "version", "network", "topology"):
        assert getattr(first, name) == getattr(second, name)
    assert (second.collective, second.topology) == ("reduce_scatter", "ring")


def test_a_heading_without_its_columns_is_named_and_its_rows_are_not_read(tmp_path):
    text = nccl_log(ROWS).replace("time algbw busbw #wrong time algbw busbw #wrong", "time algbw busbw")
    log = read(tmp_path, text)
    assert log.parts == () and log.problems[0].expected == "a heading with time, algbw and busbw, twice"


def test_no_more_than_a_hundred_problems_are_named(tmp_path):
    rows = [line for line in nccl_log(ROWS).splitlines() if line[:1].isdigit() and "NCCL" not in line]
    text = nccl_log(ROWS).replace(rows[0], "\n".join(["1024 many float sum"] * 150))
    assert len(read(tmp_path, text).problems) == 100


@pytest.mark.parametrize(
    ("environment", "topology"),
    [
        ([("NCCL_TREE_THRESHOLD", "0")], "ring"),
        ([("NCCL_TREE_THRESHOLD", "600000000")], "double_binary_tree"),
        ([("NCCL_TREE_THRESHOLD", "4096")], "nccl"),
        ([("NCCL_ALGO", "Ring")], "ring"),
        ([("NCCL_ALGO", "Tree")], "double_binary_tree"),
        ([("NCCL_IB_DISABLE", "1")], "nccl"),
    ],
)
def test_the_environment_says_which_topology_was_forced(tmp_path, environment, topology):
    assert read(tmp_path, nccl_log(ROWS, environment=environment)).parts[0].topology == topology


def plain(log):
    """What a log says, without the lines that it says it on."""
    facts = attrgetter("collective", "ranks", "nodes", "gpus", "version", "network", "setting")
    times = attrgetter("nbytes", "out_of_place", "in_place")
    return [(facts(test), [*map(times, test.rows)]) for test in log.parts]


TWO = nccl_log(ROWS, program="all_gather", hosts=("a", "b"), each=4) + nccl_log(ROWS[4:], program="reduce", root=2)
PREFIXES = {
    "srun": lambda i, line: f"{i % 3 + 9:2d}: {line}",
    "mpirun": lambda i, line: f"[1,{i % 3}]<stdout>:{line}",
    "prterun": lambda i, line: f"[prterun-host-77@1,{i % 3}]<stdout>: {line}",
    "hydra": lambda i, line: f"[{i % 3}] {line}",
    "kubectl": lambda i, line: f"[pod/bench-launcher-x7k2p/mpi] {line}",
    "stern": lambda i, line: f"bench-launcher-x7k2p mpi {line}",
    "time": lambda i, line: f"2025-03-04T10:{i % 60:02d}:07.123456Z {line}",
    "journald": lambda i, line: f"Mar 04 10:{i % 60:02d}:07 host9 run.sh[4312]: {line}",
    "listing": lambda i, line: f"{i:6d}\t{line}",
    "grep": lambda i, line: f"all.log:{i}:{line}",
    "quote": lambda i, line: f"> {line}",
    "colour": lambda i, line: f"\x1b[32m{line}\x1b[0m",
    "both": lambda i, line: f"2025-03-04 10:{i % 60:02d}:07,5 INFO {i % 3}: \x1b[1m{line}\x1b[0m",
    "docker": lambda i, line: json.dumps({"log": line + "\n", "stream": "stdout"}),
    "crlf": lambda i, line: f"{line}\r",
}


@pytest.mark.parametrize("name", PREFIXES)
def test_what_launchers_and_collectors_put_around_lines_does_not_matter(tmp_path, name):
    log = read(tmp_path, "\n".join([PREFIXES[name](i, line) for i, line in enumerate(TWO.splitlines(), 1)]) + "\n")
    assert (plain(log), log.problems) == (plain(read(tmp_path, TWO, "plain.txt")), ())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_texts_of_other_encodings_are_read(tmp_path, encoding):
    (tmp_path / "wide.txt").write_bytes(TWO.encode(encoding))
    assert plain(read_nccl_log(tmp_path / "wide.txt")) == plain(read(tmp_path, TWO))
    (tmp_path / "wide.gz").write_bytes(gzip.compress(TWO.encode(encoding)))
    assert plain(read_nccl_log(tmp_path / "wide.gz")) == plain(read(tmp_path, TWO))


def test_a_text_that_lost_its_signs_of_comments_is_whole(tmp_path):
    log = read(tmp_path, TWO.replace("#", ""))
    assert (plain(log), log.problems) == (plain(read(tmp_path, TWO, "plain.txt")), ())


def test_a_comment_after_a_table_names_the_next_one_and_never_renames(tmp_path):
    programs = ("all_reduce", "all_gather", "sendrecv")
    text = "".join(f"### {name}_perf\n" + nccl_log(ROWS, program=name, each=8, old=True) for name in programs)
    log = read(tmp_path, text + "### bye all_gather_perf\n")
    assert [test.collective for test in log.parts] == ["all_reduce", "all_gather", "send_receive"]
    assert log.problems == ()


def test_settings_of_echoed_commands_belong_to_the_tables_after_them(tmp_path):
    table = nccl_log(ROWS, each=8, old=True)
    runs = ("./all_reduce_perf", "NCCL_ALGO=Tree ./all_reduce_perf", "mpirun -x NCCL_P2P_DISABLE=1 all_reduce_perf")
    log = read(tmp_path, "".join(f"+ {line}\n{table}" for line in runs))
    assert [test.setting for test in log.parts] == ["", "NCCL_ALGO=Tree", "NCCL_P2P_DISABLE=1"]
    exported = "+ export NCCL_NVLS_ENABLE=0\n" + f"+ ./all_reduce_perf\n{table}" * 2
    assert [test.setting for test in read(tmp_path, exported).parts] == ["NCCL_NVLS_ENABLE=0"] * 2


def test_rows_that_contradict_the_name_are_told(tmp_path):
    text = nccl_log(ROWS, program="all_reduce", each=8).replace("starting: all_reduce", "starting: all_gather")
    log = read(tmp_path, text)
    assert [test.collective for test in log.parts] == ["all_reduce"]
    assert "rows of all_gather" in log.problems[0].expected
    assert "its rows are read as all_reduce" in log.problems[0].hint
    odd = nccl_log(ROWS, program="sendrecv", each=8).replace("starting: sendrecv", "starting: reduce_scatter")
    refused = read(tmp_path, odd)
    assert (refused.parts, refused.problems[0].hint) == ((), "its table is left out")


def test_one_row_whose_bandwidths_are_of_another_collective_is_damaged(tmp_path):
    lines = nccl_log(ROWS, program="all_reduce", each=8).splitlines()
    place = next(i for i, line in enumerate(lines) if line.startswith(f"{ROWS[-2][0]}  "))
    other = nccl_log(ROWS, program="all_gather", each=8).splitlines()
    lines[place] = next(line for line in other if line.startswith(f"{ROWS[-2][0]}  "))
    log = read(tmp_path, "\n".join(lines) + "\n")
    assert (len(log.parts[0].rows), len(log.problems)) == (len(ROWS) - 1, 1)
    assert log.problems[0].where.endswith(f":{place + 1}")


@pytest.mark.parametrize(
    ("text", "got"),
    [
        (nccl_log(ROWS, program="alltoallv"), "alltoallv_perf"),
        (nccl_log(ROWS).replace(" time ", " cputime "), "cputime"),
    ],
    ids=["no known collective", "times of the CPU"],
)
def test_tables_of_other_things_are_refused_by_name(tmp_path, text, got):
    log = read(tmp_path, text)
    assert (log.parts, log.problems[0].got) == ((), got)


@pytest.mark.parametrize("label", ["", "{}: "])
def test_processes_that_each_ran_alone_are_told_the_cure(tmp_path, label):
    one = nccl_log(ROWS, each=1, old=True).splitlines()
    for lines in ([f"{label.format(rank)}{line}" for line in one for rank in (0, 1)], one + one):
        log = read(tmp_path, "\n".join(lines) + "\n")
        assert log.parts == () and "MPI=1" in log.problems[0].hint


def test_columns_of_single_iterations_and_of_time_stamps_are_read_by_their_heading(tmp_path):
    text = nccl_log(ROWS)

    def widened(line):
        cells = line.split()
        if "size count" in line:
            return f"# {' '.join(cells[1:10])} i_min i_max {' '.join(cells[10:])} i_min i_max timestamp"
        more = ["2025-03-04", "10:00:00"]
        return " ".join([*cells[:9], "1.0", "9.0", *cells[9:], "1.0", "9.0", *more]) if line[:1].isdigit() else line

    log = read(tmp_path, "\n".join(map(widened, text.splitlines())) + "\n")
    assert (plain(log), log.problems) == (plain(read(tmp_path, text, "plain.txt")), ())


def test_the_json_of_nccl_tests_gives_the_same_rows(tmp_path):
    log = read(tmp_path, json.dumps(nccl_document([*ROWS[:-1], (*ROWS[-1][:2], None)])), "log.json")
    (test,) = log.parts
    facts = (test.collective, test.ranks, test.nodes, test.version, test.topology)
    assert facts == ("all_reduce", 8, 1, "2.28.2", "ring")
    assert [row.out_of_place for row in test.rows] == pytest.approx([t for _, t, _ in ROWS])
    assert (test.rows[-1].in_place, log.problems) == (None, ())
    damaged = nccl_document(ROWS)
    damaged["results"][3]["out_of_place"]["time"] *= 3
    log = read(tmp_path, json.dumps(damaged), "damaged.json")
    assert (len(log.parts[0].rows), len(log.problems)) == (len(ROWS) - 1, 1)


def test_noise_between_the_rows_and_tags_of_mpirun_are_passed_over(tmp_path):
    lines = nccl_log(ROWS).splitlines()
    noise = "[1,3]<stdout>:n006:5120:5377 [3] NCCL INFO Ring 00 : 1[b1] -> 0[3e] via P2P"
    log = read(tmp_path, "".join(f"[1,0]<stdout>:{line}\n{noise}\n" for line in lines))
    assert (len(log.parts[0].rows), log.problems) == (len(ROWS), ())


def row_line(text, number):
    """Line number, from 1, of a row."""
    return 1 + [i for i, line in enumerate(text.splitlines()) if line[:1].isdigit() and "NCCL" not in line][number]


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda line: line[: len(line) // 2], "13 columns"),
        (lambda line: line.replace("float", "12.5 float"), "13 columns"),
        (lambda line: " ".join(["x", *line.split()[1:]]), "a row of 13 columns, or a comment"),
        (lambda line: " ".join([*line.split()[:5], "nan", *line.split()[6:]]), "a time and a bandwidth that agree"),
        (lambda line: " ".join([*line.split()[:5], "0.1", *line.split()[6:]]), "a time and a bandwidth that agree"),
        (lambda line: " ".join([*line.split()[:5], "1.1.1", *line.split()[6:]]), "numbers under time"),
        (lambda line: " ".join([line.split()[0], "many", *line.split()[2:]]), "whole numbers under size and count"),
        (lambda line: line[: line.rindex("0")] + "3", "no wrong results"),
    ],
)
def test_a_damaged_row_is_named_with_its_line_and_the_others_stay(tmp_path, damage, expected):
    text = nccl_log(ROWS)
    number = row_line(text, 10)
    lines = text.splitlines()
    lines[number - 1] = damage(lines[number - 1])
    log = read(tmp_path, "\n".join(lines) + "\n")
    assert len(log.parts[0].rows) == len(ROWS) - 1
    (problem,) = log.problems
    assert problem.where == f"{tmp_path / 'log.txt'}:{number}" and expected in problem.expected


def test_a_log_cut_short_says_where_and_keeps_what_is_whole(tmp_path):
    text = nccl_log(ROWS)
    whole = text[: text.index("\n", text.index(f"\n{ROWS[5][0]}  ") + 1) + 1]
    log = read(tmp_path, whole)
    assert len(log.parts[0].rows) == 6
    assert [problem.expected for problem in log.problems] == ["the line `# Avg bus bandwidth` at the end of a table"]
    assert log.problems[0].where.endswith(f":{len(whole.splitlines())}")


def test_a_packed_log_cut_short_is_a_problem_with_its_line(tmp_path):
    path = write(tmp_path / "log.txt.gz", nccl_log(ROWS))
    path.write_bytes(path.read_bytes()[:-40])
    assert any("the rest of a gzip file" in problem.expected for problem in read_nccl_log(path).problems)


def test_rows_without_a_heading_are_named(tmp_path):
    log = read(tmp_path, "\n".join(line for line in nccl_log(ROWS).splitlines() if "size count" not in line))
    assert log.parts == () and len(log.problems) == len(ROWS)


def test_other_text_is_no_log(tmp_path):
    assert "none of its tables" in read(tmp_path, "hello\n").problems[0].got


def test_a_file_that_is_not_there_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="a readable file"):
        read_nccl_log(tmp_path / "none.txt")
