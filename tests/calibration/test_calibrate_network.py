"""`sparsim calibrate network`: from logs to a config that scenarios can use."""

import json

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from synthetic_logs import nccl_log, ring_log, ring_seconds, write, write_json

from simulator.cli import main
from simulator.scenario import load

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


def invoke(*arguments):
    return CliRunner().invoke(main, [str(part) for part in arguments], catch_exceptions=False)


def attempt(*arguments, figure="--no-figure"):
    return invoke("calibrate", "network", *arguments, figure)


def calibrate(*arguments):
    result = attempt(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def logs(tmp_path, counts=(2, 4, 8), **more):
    return [write(tmp_path / f"{p}.log", ring_log(p, BANDWIDTH, LATENCY, SIZES, **more)) for p in counts]


def test_logs_of_a_known_law_give_it_back_with_curves_of_every_worker_count(tmp_path):
    out = tmp_path / "net.yaml"
    document = calibrate(*logs(tmp_path), "--out", out)
    (law,) = document["laws"]
    assert law["links"]["terms"]["bandwidth"] == pytest.approx(BANDWIDTH, rel=0.01)
    assert law["links"]["terms"]["latency"] == pytest.approx(LATENCY, rel=0.02)
    assert set(law["links"]["worker_extrapolation"]) == {"2", "4", "8"}
    assert document["worker_extrapolation"]["mape"] < 0.01
    assert document["interpolation"]["mape"] < 0.01
    assert document["size_extrapolation"]["mape"] < 0.01
    assert [curve["id"] for curve in document["curves"]] == [f"all_reduce/nccl/{p}x{p}" for p in (2, 4, 8)]
    text = out.read_text()
    assert text.startswith("# yaml-language-server: $schema=../schema/network.json\n")
    assert all(digest in text for digest in document["digests"].values())
    assert yaml.safe_load(text)["measured"][0]["workers"] == 2


def test_the_fit_in_words_names_each_count_left_out_and_what_was_left_out_of_the_logs(tmp_path):
    rows = [(size, 1e-3, 1e-3) for size in SIZES]
    other = write(tmp_path / "other.log", nccl_log(rows, program="sendrecv"))
    result = attempt(*logs(tmp_path), other, "--out", tmp_path / "net.yaml")
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    for count in (2, 4, 8):
        assert f"all_reduce/nccl/{count}x{count}" in " ".join(lines)
        alone, beside = (line for line in lines if line.startswith(f"{count} workers left out "))
        assert alone.startswith(f"{count} workers left out 5 0.00 % 0.00 %")  # the law that made them is of links alone
        assert float(beside.split()[5]) < 1
    assert "law: ring, links alone, chosen" in lines
    assert "bandwidth 200 GB/s, latency 6 us" in lines
    (note,) = [line for line in lines if line.startswith("note: other.log:")]
    assert note == "note: other.log:1: a test of send_receive is left out"
    assert not [line for line in lines if "damaged lines" in line]


@pytest.mark.parametrize("topology", ["ring", "nccl"])
def test_the_config_works_in_a_scenario(tmp_path, topology):
    out = tmp_path / "net.yaml"
    calibrate(*logs(tmp_path, (4,)), "--out", out)
    scenario = tmp_path / "s.yaml"
    scenario.write_text(SCENARIO.format(nodes=1, each=4, network=out, topology=topology))
    assert invoke("check", scenario).exit_code == 0
    seconds = json.loads(invoke("run", scenario, "--json").stdout)["iteration_time_s"]
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


def test_forced_rings_carry_the_law_and_the_others_their_curves(tmp_path):
    ring = write(tmp_path / "ring.log", ring_log(4, 1e9, 50e-6, SIZES, environment=[("NCCL_ALGO", "Ring")]))
    other = write(tmp_path / "nccl.log", ring_log(4, 9e9, 5e-6, SIZES))
    document = calibrate(ring, other, "--out", tmp_path / "net.yaml")
    assert document["laws"][0]["links"]["terms"]["bandwidth"] == pytest.approx(1e9, rel=0.01)
    assert [curve["id"] for curve in document["curves"]] == ["all_reduce/nccl/4x4", "all_reduce/ring/4x4"]


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
    assert written["incast"] == [[8, 0.5]]
    assert written["intra_node"] == {"bandwidth": "10 GB/s", "latency": "2 us"}


def test_tables_in_csv_are_read_by_setting(tmp_path):
    rows = ["collective,num_ranks,num_nodes,message_bytes,time_us,nccl_setting"]
    for setting, factor in (("fast", 1), ("slow", 3)):
        rows += [f"all_reduce,8,2,{s},{1e6 * factor * ring_seconds(s, 8, 1e10, 1e-5)},{setting}" for s in SIZES]
    path = write(tmp_path / "table.csv.gz", "\n".join(rows))
    mixed = attempt(path, "--out", tmp_path / "net.yaml")
    assert mixed.exit_code == 2
    assert "2: fast; slow: choose with --where" in mixed.stderr
    document = calibrate(path, "--where", "nccl_setting=fast", "--out", tmp_path / "net.yaml")
    assert document["curves"][0]["id"] == "all_reduce/nccl/8x4"
    unknown = attempt(path, "--where", "setting=fast", "--out", tmp_path / "net.yaml")
    assert "did you mean 'nccl_setting'" in unknown.stderr


def test_osu_tables_need_the_number_of_ranks(tmp_path):
    lines = ["# OSU MPI Allreduce Latency Test v5.6", "# Size       Avg Latency(us)"]
    lines += [f"{s} {1e6 * ring_seconds(s, 16, 1e9, 2e-5):.2f}" for s in SIZES]
    path = write(tmp_path / "osu.txt", "\n".join(lines) + "\n")
    without = attempt(path, "--out", tmp_path / "net.yaml")
    assert (without.exit_code, "--workers" in without.stderr) == (2, True)
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
    path = write_json(tmp_path / "trace.json.gz", trace)
    document = calibrate(path, "--out", tmp_path / "net.yaml")
    assert document["laws"][0]["links"]["terms"]["bandwidth"] == pytest.approx(1e10, rel=0.02)


def test_figures_stand_beside_the_config(tmp_path):
    result = attempt(*logs(tmp_path, (2,)), "--out", tmp_path / "n.yaml", figure="--figure")
    assert result.exit_code == 0
    assert (tmp_path / "n.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "n.pdf").read_bytes().startswith(b"%PDF")


def test_the_error_of_noisy_data_is_about_their_spread(tmp_path):
    generator = np.random.default_rng(1)
    rows = []
    for size in np.unique(np.geomspace(2**16, 2**28, 40).astype(int)) // 4 * 4:
        first, second = ring_seconds(size, 8, 1e10, 1e-5) * np.exp(0.05 * generator.standard_normal(2))
        rows.append((int(size), first, second))
    document = calibrate(write(tmp_path / "x.log", nccl_log(rows, each=8)), "--out", tmp_path / "net.yaml")
    assert 0.01 < document["interpolation"]["mape"] < 0.08
    assert 0.02 < document["curves"][0]["repeat_spread"] < 0.1


def test_nothing_to_calibrate_is_an_input_error(tmp_path):
    path = write(tmp_path / "x.log", "hello\n")
    result = attempt(path, "--out", tmp_path / "net.yaml")
    assert (result.exit_code, "none of its tables" in result.stderr) == (2, True)
    assert load("ring_check").name == "ring check"


def test_a_fabric_or_algorithm_that_cannot_be_is_an_input_error(tmp_path):
    times = [(s, ring_seconds(s, 2, 1e9, 1e-5), ring_seconds(s, 2, 1e9, 1e-5)) for s in SIZES]
    log = write(tmp_path / "x.log", nccl_log(times, hosts=("a", "b"), each=1))
    inside = tmp_path / "inside.yaml"
    inside.write_text("kind: nvswitch\nbandwidth: 1 GB/s\n")
    result = attempt(log, "--fabric", inside, "--out", tmp_path / "net.yaml")
    assert (result.exit_code, "expected one node on fabric nvswitch, got 2 nodes" in result.stderr) == (2, True)
    gathered = write(tmp_path / "y.log", nccl_log(times, hosts=("a", "b"), each=1, program="all_gather"))
    result = attempt(gathered, "--algorithm", "all_gather=double_binary_tree", "--out", tmp_path / "net.yaml")
    assert (result.exit_code, "expected a topology that can do all-gather" in result.stderr) == (2, True)
    for option, value in (("--fit", "speed"), ("--fabric", "absent"), ("--law-from", "5"), ("--algorithm", "x=y")):
        result = attempt(log, option, value, "--out", tmp_path / "net.yaml")
        assert (result.exit_code, result.stderr.startswith(f"{option}: expected ")) == (2, True)
