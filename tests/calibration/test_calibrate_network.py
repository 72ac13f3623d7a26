"""`sparsim calibrate network`: from logs to a config that scenarios can use."""

import gzip

import numpy as np
import pytest
import yaml
from command_line import answered, invoke, printed, refused
from synthetic_logs import kineto_trace, nccl_document, nccl_log, ring_log, ring_seconds, write, write_json

from simulator.calibration.collectives import Reading, read_collectives
from simulator.scenario.reading import load

SIZES = [2**i for i in range(12, 29, 2)]
BANDWIDTH, LATENCY = 2e11, 6e-6
SCENARIO = """
name: uses a calibrated network
workload: {{batch_size: 1, layers: [{{name: all, numel: 25000000, forward: 0 s, backward: 0 s}}]}}
cluster: {{nodes: {nodes}, gpus_per_node: {each}, gpu: gpus/ideal, network: {network}, runtime: runtimes/ideal}}
topology: {topology}
sparsifier: dense
scheduler: {{kind: sequential}}
"""


def attempt(*arguments, figure="--no-figure"):
    return invoke("calibrate", "network", *arguments, figure)


def calibrate(*arguments):
    return answered("calibrate", "network", *arguments, "--no-figure")


def refuse(*arguments):
    return refused("calibrate", "network", *arguments, "--no-figure")


def logs(tmp_path, counts=(2, 4, 8), **more):
    return [write(tmp_path / f"{p}.log", ring_log(p, BANDWIDTH, LATENCY, SIZES, **more)) for p in counts]


def test_a_damaged_gzip_file_is_an_input_error(tmp_path):
    path, packed = tmp_path / "log.txt.gz", bytearray(gzip.compress(b"# nThread 1\n" * 100))
    packed[-8] ^= 255  # of the checksum
    path.write_bytes(packed)
    assert "expected a whole gzip file, got a damaged one" in refuse(path, "--out", tmp_path / "net.yaml")


def test_the_json_of_nccl_tests_is_told_from_a_trace(tmp_path):
    rows = [(size, ring_seconds(size, 8, BANDWIDTH, LATENCY), None) for size in SIZES]
    found = read_collectives([write_json(tmp_path / "log.json", nccl_document(rows))], Reading())
    assert {item.key.text for item in found.samples} == {"all_reduce/ring/8x8"}
    assert [item.seconds for item in found.samples] == pytest.approx([seconds for _, seconds, _ in rows])


@pytest.mark.long
@pytest.mark.parametrize("counts", [(2, 4), (2, 4, 8)])
def test_logs_of_a_known_law_give_it_back_with_curves_of_every_worker_count(tmp_path, counts):
    out = tmp_path / "net.yaml"
    document = calibrate(*logs(tmp_path, counts), "--out", out)
    (law,) = document["laws"]
    assert law["links"]["terms"]["bandwidth"] == pytest.approx(BANDWIDTH, rel=0.01)
    assert law["links"]["terms"]["latency"] == pytest.approx(LATENCY, rel=0.02)
    assert set(law["links"]["worker_extrapolation"]) == set(map(str, counts))
    assert document["worker_extrapolation"]["mape"] < 0.01 and document["interpolation"]["mape"] < 0.01
    assert document["size_extrapolation"]["mape"] < 0.01
    assert [curve["id"] for curve in document["curves"]] == [f"all_reduce/nccl/{p}x{p}" for p in counts]
    text = out.read_text()
    assert text.startswith("# yaml-language-server: $schema=../schema/network.json\n")
    assert all(digest in text for digest in document["digests"].values())
    assert yaml.safe_load(text)["measured"][0]["workers"] == 2


@pytest.mark.long
def test_the_fit_in_words_names_each_count_left_out_and_what_was_left_out_of_the_logs(tmp_path):
    other = write(tmp_path / "other.log", nccl_log([(size, 1e-3, 1e-3) for size in SIZES], program="sendrecv"))
    result = attempt(*logs(tmp_path), other, "--out", tmp_path / "net.yaml")
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    for count in (2, 4, 8):
        assert f"all_reduce/nccl/{count}x{count}" in " ".join(lines)
        alone, beside = (line for line in lines if line.startswith(f"{count} workers left out "))
        assert alone.startswith(f"{count} workers left out 5 0.00 % 0.00 %")  # the law that made them is of links alone
        assert float(beside.split()[5]) < 1
    assert "law: ring, links only, chosen" in lines and "bandwidth 200 GB/s, latency 6 us" in lines
    (note,) = [line for line in lines if line.startswith("note: other.log:")]
    assert note == "note: other.log:1: a test of send_receive is left out"
    assert not [line for line in lines if "damaged lines" in line]


@pytest.mark.parametrize("topology", ["ring", "nccl"])
def test_the_config_works_in_a_scenario(tmp_path, topology):
    out = tmp_path / "net.yaml"
    calibrate(*logs(tmp_path, (4,)), "--out", out)
    scenario = tmp_path / "s.yaml"
    scenario.write_text(SCENARIO.format(nodes=1, each=4, network=out, topology=topology))
    printed("check", scenario)
    seconds = answered("run", scenario)["iteration_time_s"]
    assert seconds == pytest.approx(ring_seconds(1e8, 4, BANDWIDTH, LATENCY), rel=0.01)


def test_damaged_lines_are_named_counted_and_left_out(tmp_path):
    (path,) = logs(tmp_path, counts=(4,))
    lines = path.read_text().splitlines()
    rows = [i for i, line in enumerate(lines) if line[:1].isdigit() and "NCCL" not in line]
    lines[rows[3]] = lines[rows[3]][:20]
    lines[rows[6]] = lines[rows[6]].replace("float", "")
    path.write_text("\n".join(lines[: rows[-1]]) + "\n")
    result = attempt(path, "--out", tmp_path / "net.yaml")
    assert result.exit_code == 0
    for number in (rows[3] + 1, rows[6] + 1, rows[-1]):
        assert f"{path}:{number}: expected " in result.stderr
    assert "3 damaged lines were left out" in result.stdout


@pytest.mark.long
def test_forced_rings_carry_the_law_and_the_others_their_curves(tmp_path):
    ring = write(tmp_path / "ring.log", ring_log(4, 1e9, 50e-6, SIZES, environment=[("NCCL_ALGO", "Ring")]))
    other = write(tmp_path / "nccl.log", ring_log(4, 9e9, 5e-6, SIZES))
    document = calibrate(ring, other, "--out", tmp_path / "net.yaml")
    assert document["laws"][0]["links"]["terms"]["bandwidth"] == pytest.approx(1e9, rel=0.01)
    assert [curve["id"] for curve in document["curves"]] == ["all_reduce/nccl/4x4", "all_reduce/ring/4x4"]


@pytest.mark.long
def test_a_base_keeps_what_is_known_of_the_network(tmp_path):
    base = tmp_path / "base.yaml"
    base.write_text(
        "kind: single_switch\nbandwidth: 1 GB/s\nlatency: 40 us\nincast: [[8, 0.5]]\n"
        "intra_node: {bandwidth: 10 GB/s, latency: 2 us}\n"
    )
    times = [(s, t := ring_seconds(s, 4, 1.2e9, 45e-6), t) for s in SIZES]
    log = write(tmp_path / "x.log", nccl_log(times, hosts=("a", "b", "c", "d"), each=1))
    out = tmp_path / "net.yaml"
    document = calibrate(log, "--out", out, "--fabric", base)
    assert document["laws"][0]["links"]["terms"]["bandwidth"] == pytest.approx(1.2e9, rel=0.01)
    written = yaml.safe_load(out.read_text())
    assert written["incast"] == [[8, 0.5]] and written["intra_node"] == {"bandwidth": "10 GB/s", "latency": "2 us"}


def test_tables_in_csv_are_read_by_setting(tmp_path):
    rows = ["collective,num_ranks,num_nodes,message_bytes,time_us,nccl_setting"]
    for setting, factor in (("fast", 1), ("slow", 3)):
        rows += [f"all_reduce,8,2,{s},{1e6 * factor * ring_seconds(s, 8, 1e10, 1e-5)},{setting}" for s in SIZES]
    path = write(tmp_path / "table.csv.gz", "\n".join(rows))
    assert "2: fast; slow: choose one with --where" in refuse(path, "--out", tmp_path / "net.yaml")
    document = calibrate(path, "--where", "nccl_setting=fast", "--out", tmp_path / "net.yaml")
    assert document["curves"][0]["id"] == "all_reduce/nccl/8x4"
    said = refuse(path, "--where", "setting=fast", "--out", tmp_path / "net.yaml")
    assert said == f"--where setting: expected a column of {path}, got 'setting': did you mean 'nccl_setting'?\n"


def two_runs(tmp_path, slower, first=(), second=()):
    """A log with two tables of one shape, of which the second takes `slower` times as long."""
    rows = [(s, t := 1e-5 + s / 1e11, t) for s in SIZES]
    other = [(s, slower * t, slower * t) for s, t, _ in rows]
    settings = [[("NCCL_DEBUG", str(i)), *more] for i, more in enumerate((first, second))]
    text = "".join(nccl_log(r, each=8, environment=e) for r, e in zip((rows, other), settings, strict=True))
    return write(tmp_path / "log.txt", text)


@pytest.mark.long
def test_tables_under_different_settings_are_kept_apart_and_what_differs_is_named(tmp_path):
    path = two_runs(tmp_path, 1.05, [("NCCL_NVLS_ENABLE", "1")], [("NCCL_NVLS_ENABLE", "0")])
    assert "got 2: NCCL_NVLS_ENABLE=1; NCCL_NVLS_ENABLE=0" in refuse(path, "--out", tmp_path / "net.yaml")
    made = calibrate(path, "--out", tmp_path / "net.yaml", "--where", "NCCL_NVLS_ENABLE=0")
    assert made["curves"][0]["repeat_spread"] == pytest.approx(0)
    assert calibrate(two_runs(tmp_path, 1.05), "--out", tmp_path / "net.yaml")["curves"][0]["repeat_spread"] > 0.02


def test_repeats_that_disagree_are_named_and_one_can_be_chosen(tmp_path):
    path = two_runs(tmp_path, 1.3)
    said = refuse(path, "--out", tmp_path / "net.yaml")
    line = nccl_log([(s, 1.0, 1.0) for s in SIZES], each=8, environment=[("NCCL_DEBUG", "1")]).count("\n") + 1
    assert f"got 30 % between the tables of log.txt:1 and log.txt:{line}" in said
    assert len(calibrate(path, "--out", tmp_path / "net.yaml", "--where", f"line={line}")["curves"]) == 1


def log_of(tmp_path, share, *, port=400e9, environment=(), program="all_reduce", sizes=SIZES):
    """A log of 8 H100 of one node, whose sums move S (1 + 1/8) over each port at a share of its rate."""
    rows = [(s, t := 20e-6 + s * 1.125 / (share * port), t) for s in sizes]
    text = nccl_log(rows, each=8, environment=environment, program=program).replace("Test GPU", "NVIDIA H100 80GB HBM3")
    return write(tmp_path / "h100.log", text)


@pytest.mark.parametrize("base", [(), ("--fabric",)])
def test_sums_in_the_switch_leave_the_links_at_their_prior_with_its_width(tmp_path, base):
    out = tmp_path / "net.yaml"
    start = write(tmp_path / "base.yaml", "kind: nvswitch\nbandwidth: 400 GB/s\n")
    # Sizes beside which what fills the pipeline of the switch is small.
    log = log_of(tmp_path, 0.8, sizes=[2**power for power in range(31, 38)])
    made = calibrate(log, "--out", out, *base, *([start] if base else []))
    (law,) = made["laws"]
    assert (law["algorithm"], law["links"]["unseen"]) == ("nccl", ["bandwidth", "latency"])
    assert "made in the switch" in made["warnings"][0]
    written = yaml.safe_load(out.read_text())
    assert not {"fitted_for", "held_out_mape"} & written.keys()
    share = float(written["nccl"]["efficiency"]["nvls Simple"].split()[0]) / 100
    rate = float(written["bandwidth"].split()[0])
    # Whatever the rate is held to be, the sums take as long as measured: NCCL moves S (p + 1) / p through a port.
    assert share * rate == pytest.approx(0.8 * 400, rel=0.06)
    assert rate == pytest.approx(400 if base else 0.8 * 400 / 0.85, rel=0.06)


def test_rings_and_gathers_still_show_the_links(tmp_path):
    out = tmp_path / "net.yaml"
    off = calibrate(log_of(tmp_path, 0.8, environment=[("NCCL_NVLS_ENABLE", "0")]), "--out", out)
    assert [law["algorithm"] for law in off["laws"]] == ["ring"]
    assert yaml.safe_load(out.read_text())["fitted_for"]["nodes"] == 1


def test_osu_tables_need_the_number_of_ranks(tmp_path):
    lines = ["# OSU MPI Allreduce Latency Test v5.6", "# Size       Avg Latency(us)"]
    lines += [f"{s} {1e6 * ring_seconds(s, 16, 1e9, 2e-5):.2f}" for s in SIZES]
    path = write(tmp_path / "osu.txt", "\n".join(lines) + "\n")
    assert "--workers" in refuse(path, "--out", tmp_path / "net.yaml")
    document = calibrate(path, "--workers", 16, "--out", tmp_path / "net.yaml")
    assert document["laws"][0]["links"]["terms"]["bandwidth"] == pytest.approx(1e9, rel=0.01)


def test_kernels_of_a_profiler_trace_are_timings_too(tmp_path):
    messages = [(2**i, 1e6 * ring_seconds(2**i, 2, 1e10, 1e-5)) for i in range(12, 26, 2)]
    trace = {
        "distributedInfo": {"world_size": 2},
        "traceEvents": [
            {
                **{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL()", "pid": 0, "tid": 7},
                **{"ts": 1000.0 * i, "dur": length},
                "args": {"In msg nelems": n // 4, "Out msg nelems": n // 4, "dtype": "Float", "Group size": 2},
            }
            for i, (n, length) in enumerate(messages)
        ],
    }
    document = calibrate(write_json(tmp_path / "trace.json.gz", trace), "--out", tmp_path / "net.yaml")
    assert document["laws"][0]["links"]["terms"]["bandwidth"] == pytest.approx(1e10, rel=0.02)


@pytest.mark.long
def test_figures_stand_beside_the_config(tmp_path):
    assert attempt(*logs(tmp_path, (2,)), "--out", tmp_path / "n.yaml", figure="--figure").exit_code == 0
    assert (tmp_path / "n.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "n.pdf").read_bytes().startswith(b"%PDF")


def test_nothing_to_calibrate_is_an_input_error(tmp_path):
    assert "none of its tables" in refuse(write(tmp_path / "x.log", "hello\n"), "--out", tmp_path / "net.yaml")
    assert load("ring_check").name == "ring check"


def test_a_fabric_or_algorithm_that_cannot_be_is_an_input_error(tmp_path):
    times = [(s, ring_seconds(s, 2, 1e9, 1e-5), ring_seconds(s, 2, 1e9, 1e-5)) for s in SIZES]
    log = write(tmp_path / "x.log", nccl_log(times, hosts=("a", "b"), each=1))
    inside = tmp_path / "inside.yaml"
    inside.write_text("kind: nvswitch\nbandwidth: 1 GB/s\n")
    said = refuse(log, "--fabric", inside, "--out", tmp_path / "net.yaml")
    assert "expected one node on fabric nvswitch, got 2 nodes" in said
    gathered = write(tmp_path / "y.log", nccl_log(times, hosts=("a", "b"), each=1, program="all_gather"))
    said = refuse(gathered, "--algorithm", "all_gather=double_binary_tree", "--out", tmp_path / "net.yaml")
    assert "expected a topology with all-gather" in said
    for option, value in (("--fit", "speed"), ("--fabric", "absent"), ("--law-from", "5"), ("--algorithm", "x=y")):
        result = attempt(log, option, value, "--out", tmp_path / "net.yaml")
        start = f"{option}: {'no network named ' if value == 'absent' else 'expected '}"
        assert (result.exit_code, result.stderr.startswith(start)) == (2, True)


def test_rows_that_are_no_series_are_left_out_and_said(tmp_path):
    rows = [(0, 1e-5, 1e-5), *((s, t := ring_seconds(s, 4, 1e9, 1e-5), None if s == SIZES[0] else t) for s in SIZES)]
    whole = write(tmp_path / "whole.log", nccl_log(rows, each=4))
    other = write(tmp_path / "other.log", nccl_log(rows, each=4, program="sendrecv"))
    lines = nccl_log(rows, each=4).splitlines()
    ranks = [number for number, line in enumerate(lines) if " Rank " in line]
    unlisted = write(tmp_path / "unlisted.log", "\n".join(lines[: ranks[0]] + lines[ranks[-1] + 1 :]) + "\n")
    document = calibrate(whole, other, unlisted, "--out", tmp_path / "net.yaml")
    empty, other = "whole.log: 2 timings of 0 bytes", "other.log:1: a test of send_receive"
    assert document["notes"] == [f"{empty} are left out", f"{other} is left out"]
    (problem,) = document["problems"]
    assert problem == f"{unlisted}:1: expected the list of ranks, got none: give --workers and --gpus-per-node"
    assert document["curves"][0]["interpolation"]["n"] == len(SIZES) // 2
    said = calibrate(unlisted, "--workers", 4, "--gpus-per-node", 2, "--out", tmp_path / "net.yaml")
    assert [curve["id"] for curve in said["curves"]] == ["all_reduce/nccl/4x2"]


def test_osu_tables_of_no_collective_are_left_out_and_said(tmp_path):
    lines = ["# OSU MPI Latency Test v5.6", "# Size          Latency (us)", "4 1.5"]
    lines += ["# OSU MPI Allgather Latency Test v5.6", "# Size       Avg Latency(us)"]
    lines += [f"{s // 4} {1e6 * ring_seconds(s, 4, 1e9, 2e-5, 1):.2f}" for s in SIZES]
    path = write(tmp_path / "osu.txt", "\n".join(lines) + "\n")
    document = calibrate(path, "--workers", 4, "--out", tmp_path / "net.yaml")
    assert document["notes"] == ["osu.txt:1: MPI Latency Test is left out"]
    assert document["laws"][0]["links"]["terms"]["bandwidth"] == pytest.approx(1e9, rel=0.01)


def test_kernels_of_other_kinds_or_unknown_size_are_counted(tmp_path):
    trace = kineto_trace(nccl=[(2**i, 10 + 2**i / 1e4) for i in range(12, 26, 2)], steps=1)
    kernels = [event for event in trace["traceEvents"] if event["name"].startswith("nccl") and event["cat"] == "kernel"]
    sent = {"correlation": -1, "name": "ncclDevKernel_SendRecv(ncclDevComm*)"}
    trace["traceEvents"] += [kernels[0] | {"name": sent["name"]}, kernels[0] | {"args": {"correlation": -1}}]
    trace["traceEvents"].append(kernels[0] | {"ts": "soon"})
    document = calibrate(write_json(tmp_path / "t.json", trace), "--out", tmp_path / "net.yaml")
    assert document["notes"] == ["t.json: 2 NCCL kernels of other kinds or unknown size are left out"]
    assert len(document["problems"]) == 1 and "ts" in document["problems"][0]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("all_reduce,8,2,1.5e3.2,1", "2: expected whole numbers of bytes, workers and nodes, got "),
        ("all_reduce,8,2,1e300,1", "2: expected whole numbers of bytes, workers and nodes, got '1e300'"),
        ("all_reduce,-8,2,1024,1", "2: expected whole numbers of bytes, workers and nodes, got '-8'"),
        ("all_reduce,8,3,1024,1", "evenly on nodes, got all_reduce over 8 on 3"),
        ("alltoall,8,2,1024,1", "2: expected one of all_reduce, all_gather, reduce_scatter, broadcast over 2 workers"),
        ("all_reduce,1e7,1,1024,1", "2: expected 2 to 131072 workers, evenly on nodes, got 10000000 workers"),
        ("all_reduce,8,2,1024,1e300", "2: seconds: expected a time above 0, up to 3600 s, got '1e300'"),
        ("all_reduce,8,2,1024,0", "2: seconds: expected a time above 0, up to 3600 s, got '0'"),
        ("all_reduce,8,2,1024,soon", "2: seconds: expected a time above 0, up to 3600 s, got 'soon'"),
        ("all_reduce,8,2,1024", "2: expected 5 cells, got 4"),
        (f'all_reduce,8,2,1024,"{"1" * 140_000}"', ": expected well-formed CSV, got field larger than field limit"),
    ],
)
def test_rows_of_a_table_that_cannot_be_are_named(tmp_path, row, expected):
    path = write(tmp_path / "t.csv", f"collective,workers,nodes,nbytes,seconds\n{row}\n\n")
    result = attempt(path, "--out", tmp_path / "net.yaml")
    assert (result.exit_code, expected in result.stderr) == (2, True) and result.stderr.startswith(f"{path}:")
    assert not (tmp_path / "net.yaml").exists()


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("collective,workers,size,seconds", "expected a column nbytes or message_bytes or bytes, got 'collective, "),
        ("collective;workers;nbytes;seconds", "expected columns separated by commas, got 'collective;workers;"),
        ("collective\tworkers\tnbytes\tseconds", "expected columns separated by commas, got "),
        ("op,ranks,size,time_us", "expected a column nbytes or message_bytes or bytes, got 'op, ranks, size, time_us'"),
    ],
)
def test_a_table_whose_header_is_wrong_is_no_log(tmp_path, header, expected):
    path = write(tmp_path / "t.csv", f"{header}\nall_reduce,8,1024,1e-5\n")
    result = attempt(path, "--out", tmp_path / "net.yaml")
    assert result.exit_code == 2 and result.stderr.startswith(f"{path}:1: {expected}")


@pytest.mark.parametrize(
    ("rows", "each", "more", "expected"),
    [
        ([(s, 1e-5, 1e-5) for s in SIZES], 1, (), "two ranks or more above each table, got a table of one rank"),
        ([(s, 4e3, 4e3) for s in SIZES], 2, (), "up to 1e+15 B and 3600 s, got 4096 B in 4000 s"),
        ([(s, 1.0, 1.0) for s in SIZES[:2]], 2, (), "calibrate network: expected a series of 3 sizes or more, got 1 "),
        ([(s, 1.0, 1.0) for s in SIZES], 2, ("--fit", "intra_node.latency"), "a fabric with `intra_node`, got "),
        ([(s, 1.0, 1.0) for s in SIZES], 2, ("--where", "x"), "--where: expected COLUMN=VALUE, got 'x'"),
    ],
)
def test_logs_of_which_no_law_can_be_made_are_input_errors(tmp_path, rows, each, more, expected):
    log = write(tmp_path / "x.log", nccl_log(rows, each=each))
    assert expected in refuse(log, *more, "--out", tmp_path / "net.yaml")


def test_a_base_that_is_no_network_is_named_with_its_line(tmp_path):
    base = write(tmp_path / "base.yaml", "kind: single_switch\nbandwidth: fast\n")
    result = attempt(*logs(tmp_path, (2,)), "--fabric", base, "--out", tmp_path / "net.yaml")
    assert (result.exit_code, result.stderr.startswith(f"{base}:2:")) == (2, True)


@pytest.mark.long
def test_links_inside_and_between_nodes_are_fitted_together(tmp_path):
    base = tmp_path / "base.yaml"
    base.write_text("kind: single_switch\nbandwidth: 1 GB/s\nintra_node: {bandwidth: 1 GB/s, latency: 1 us}\n")
    inside = write(tmp_path / "inside.log", ring_log(4, 2e10, 5e-6, SIZES))
    times = [(s, t := ring_seconds(s, 3, 3e9, 30e-6), t) for s in SIZES]
    between = write(tmp_path / "between.log", nccl_log(times, hosts=("a", "b", "c"), each=1))
    free = [part for name in ("bandwidth", "latency") for part in ("--fit", name, "--fit", f"intra_node.{name}")]
    document = calibrate(inside, between, "--out", tmp_path / "net.yaml", "--fabric", base, *free)
    assert document["laws"][0]["links"]["terms"] == {
        "bandwidth": pytest.approx(3e9, rel=0.01),
        "latency": pytest.approx(30e-6, rel=0.02),
        "intra_node.bandwidth": pytest.approx(2e10, rel=0.01),
        "intra_node.latency": pytest.approx(5e-6, rel=0.02),
    }
    # Neither count alone shows the bandwidth of the other one's links, so no law of one is judged on the other.
    assert document["laws"][0]["links"]["worker_extrapolation"] == {}
    written = yaml.safe_load((tmp_path / "net.yaml").read_text())["intra_node"]
    assert written["bandwidth"].endswith(" GB/s")
    assert float(written["bandwidth"].split()[0]) == pytest.approx(20, rel=0.01)


def test_a_config_says_which_terms_its_data_do_not_show(tmp_path):
    text = "kind: single_switch\nbandwidth: 1 GB/s\nlatency: 77 us\nintra_node: {bandwidth: 3 GB/s}\n"
    base = write(tmp_path / "base.yaml", text)
    times = [(s, t := ring_seconds(s, 3, 3e9, 30e-6), t) for s in SIZES]
    log = write(tmp_path / "x.log", nccl_log(times, hosts=("a", "b", "c"), each=1))
    out = tmp_path / "net.yaml"
    calibrate(log, "--fabric", base, "--fit", "bandwidth", "--fit", "intra_node.bandwidth", "--out", out)
    assert "These data say nothing about intra_node.bandwidth" in yaml.safe_load(out.read_text())["source"]


def test_a_series_of_one_size_is_left_out_and_one_of_two_is_a_curve_without_a_law(tmp_path):
    (long,) = logs(tmp_path, (4,))
    (short, single) = (
        write(tmp_path / f"{p}.log", ring_log(p, BANDWIDTH, LATENCY, SIZES[:count])) for p, count in ((2, 2), (8, 1))
    )
    document = calibrate(long, short, single, "--out", tmp_path / "net.yaml")
    assert document["notes"] == ["all_reduce/nccl/8x8 is left out: it has one size only"]
    assert document["laws"][0]["links"]["worker_extrapolation"] == {}
    pair, four = yaml.safe_load((tmp_path / "net.yaml").read_text())["measured"]
    assert (pair["workers"], pair["points"][0][0], pair["points"][-1][0]) == (2, "4 KiB", "16 KiB")
    assert (four["workers"], "held_out_mape" in four) == (4, True)


def test_messages_of_a_few_bytes_make_a_config_that_can_be_used(tmp_path):
    lines = ["# OSU MPI Allreduce Latency Test v5.6", "# Size       Avg Latency(us)"]
    lines += [f"{2**i} {1e6 * ring_seconds(2**i, 16, 1e5, 2e-5) * (1.3 if i == 1 else 1):.2f}" for i in range(9)]
    out = tmp_path / "net.yaml"
    calibrate(write(tmp_path / "osu.txt", "\n".join(lines) + "\n"), "--workers", 16, "--out", out)
    scenario = write(tmp_path / "s.yaml", SCENARIO.format(nodes=16, each=1, network=out, topology="ring"))
    checked = invoke("check", scenario)
    assert (checked.exit_code, checked.stderr) == (0, "")


@pytest.mark.long
def test_the_error_of_noisy_data_is_about_their_spread(tmp_path):
    generator = np.random.default_rng(1)
    rows = []
    for size in np.unique(np.geomspace(2**16, 2**28, 40).astype(int)) // 4 * 4:
        first, second = ring_seconds(size, 8, 1e10, 1e-5) * np.exp(0.05 * generator.standard_normal(2))
        rows.append((int(size), first, second))
    document = calibrate(write(tmp_path / "x.log", nccl_log(rows, each=8)), "--out", tmp_path / "net.yaml")
    assert 0.01 < document["interpolation"]["mape"] < 0.08 and 0.02 < document["curves"][0]["repeat_spread"] < 0.1
