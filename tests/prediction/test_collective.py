"""One collective by itself: the prices of `run`, bandwidths as nccl-tests defines them, and intervals."""

import csv
import json
import math

import pytest
from command_line import invoke

from simulator.fabrics.link_widths import link_width
from simulator.fabrics.single_switch import SingleSwitch
from simulator.hardware.gpu import Gpu
from simulator.models.exchange import Layout
from simulator.prediction.collective import SIZES, price_collective, read_library
from simulator.prediction.doubts.network import curve_width
from simulator.prediction.doubts.own_error import model_error
from simulator.prediction.run import run
from simulator.scenario.named_parts import read_gpu, read_part
from simulator.scenario.reading import load

MIB = 2.0**20
PLAIN = SingleSwitch(name="plain", bandwidth=1e9, latency=1e-3)
IDEAL = Gpu(name="ideal", ideal=True)
SHARES = {
    "all_reduce": 2 * 7 / 8,
    "all_gather": 7 / 8,
    "reduce_scatter": 7 / 8,
    "all_to_all": 7 / 8,
    "broadcast": 1.0,
    "point_to_point": 1.0,
}
"""Bus bandwidth over algorithm bandwidth of 8 ranks (nccl-tests, doc/PERFORMANCE.md)."""


def one(kind, size, network, layout, gpu=IDEAL, **settings):
    (made,) = price_collective(kind, [size], network, gpu, layout, library=read_library(**settings)).times
    return made


@pytest.mark.parametrize("kind", SHARES)
def test_bandwidths_are_those_of_nccl_tests(kind):
    made = one(kind, 8192 * MIB, PLAIN, Layout(8, 1), algorithm="ring", protocol="Simple")
    assert made.algorithm_bandwidth == 8192 * MIB / made.time
    assert made.bus_bandwidth == pytest.approx(SHARES[kind] * made.algorithm_bandwidth)
    assert made.bus_bandwidth == pytest.approx(1e9, rel=0.05)  # the payload is so large that links are always busy


def test_messages_take_start_ups_and_bytes():
    assert one("point_to_point", 8e6, PLAIN, Layout(4, 1)).time == pytest.approx(1e-3 + 8e6 / 1e9)
    assert one("all_to_all", 8e6, PLAIN, Layout(4, 1)).time == pytest.approx(3 * (1e-3 + 2e6 / 1e9))


def test_messages_over_links_of_their_own_travel_at_once():
    """An eighth of 1 GiB over each xGMI link of 48 GB/s; ports of a switch send the seven parts in turn. Between two
    nodes of two with NICs of 1 GB/s, what goes to the other GPU of the node passes beside the first of two messages."""
    mesh, ports = (read_part(name, "networks") for name in ("mi300x-nodes", "400gb-h100-nodes"))
    assert one("all_to_all", 1024 * MIB, mesh, Layout(1, 8)).time == pytest.approx(3.4e-6 + 128 * MIB / 48e9)
    links = ports.intra_node
    each = links.latency + 128 * MIB / links.bandwidth
    assert one("all_to_all", 1024 * MIB, ports, Layout(1, 8)).time == pytest.approx(7 * each)
    pairs = PLAIN.model_copy(update={"nics_per_node": 2, "intra_node": links})
    assert one("all_to_all", 8e6, pairs, Layout(2, 2)).time == pytest.approx(2 * (1e-3 + 2e6 / 1e9))


@pytest.mark.parametrize(("network", "nodes", "gpus"), [("slingshot-polaris", 8, 4), ("nvswitch-h100", 1, 8)])
@pytest.mark.parametrize("size", [MIB, 256 * MIB])
def test_an_all_reduce_takes_what_run_counts_for_it(network, nodes, gpus, size):
    """By the law of the links, and by a measured curve: a training that does nothing but exchange one tensor."""
    layer = {"name": "all", "numel": int(size / 4), "forward": 0.0, "backward": 0.0}
    gpu = {**IDEAL.model_dump(exclude_defaults=True), "device": "H100" if nodes == 1 else "A100"}
    cluster = {"nodes": nodes, "gpus_per_node": gpus, "gpu": gpu, "network": f"networks/{network}"}
    parts = {"topology": "nccl", "sparsifier": "dense", "scheduler": "sequential"}
    loaded = load({"workload": {"batch_size": 1, "layers": [layer]}, "cluster": cluster, **parts})
    seconds = run(loaded).document["breakdown_s"]["communication_exposed"]
    made = one("all_reduce", size, read_part(network, "networks"), Layout(nodes, gpus), loaded.cluster.gpu)
    assert made.time == pytest.approx(seconds, rel=1e-9)


def test_the_interval_of_a_measured_curve_is_its_error_with_the_models_own():
    network, gpu = read_part("nvswitch-h100", "networks"), read_gpu("h100")
    made = one("all_reduce", 256 * MIB, network, Layout(1, 8), gpu)
    assert (made.algorithm, made.protocol, made.source) == ("nvls", "Simple", "measured")
    (curve,) = (item for item in network.measured if item.id == "all_reduce/nccl/8x8")
    half = math.hypot(math.log(curve_width(curve)), math.log(model_error().errors.width))
    low, high = made.interval
    assert math.log(high / made.time) == pytest.approx(half) and math.log(made.time / low) == pytest.approx(half)


def test_the_interval_of_described_links_is_that_of_their_rate_for_many_bytes_and_of_their_start_up_for_few():
    library = read_library(algorithm="ring", protocol="Simple")
    made = price_collective("all_reduce", [4.0, 2.0**36], PLAIN, IDEAL, Layout(8, 1), library=library)
    width = link_width(PLAIN, 8)
    few, many = (item.interval[1] / item.time for item in made.times)
    assert many == pytest.approx(width.rate, rel=0.01) and 1 < few <= width.start_up
    assert any(f"rate within a factor of {width.rate:.2g}" in line for line in made.assumed)


def test_an_algorithm_is_asked_for_as_of_nccl():
    network, gpu = read_part("nvswitch-h100", "networks"), read_gpu("h100")
    made = one("all_reduce", MIB, network, Layout(1, 8), gpu, algorithm="^nvls", protocol="Simple")
    assert made.algorithm in ("ring", "tree") and made.protocol == "Simple" and "asked for" in made.reason


@pytest.mark.parametrize("kind", SHARES)
def test_four_nics_for_a_gpu_carry_what_one_of_four_times_the_rate_does(kind):
    inside = {"bandwidth": 365e9, "latency": 3e-6}
    many = SingleSwitch(bandwidth=12.5e9, latency=5e-6, nics_per_node=32, intra_node=inside)
    few = SingleSwitch(bandwidth=50e9, latency=5e-6, nics_per_node=8, intra_node=inside)
    times = [one(kind, 64 * MIB, network, Layout(2, 8)).time for network in (many, few)]
    assert times[0] == pytest.approx(times[1])


def test_nics_that_no_gpu_uses_are_told():
    network = SingleSwitch(bandwidth=12.5e9, latency=5e-6, nics_per_node=12)
    told = price_collective("all_reduce", [MIB], network, IDEAL, Layout(2, 8), library=read_library()).assumed
    assert told[0].startswith("8 of the 12 NICs of a node are used, 1 by a GPU (assumed")


def test_start_ups_that_nothing_states_are_named():
    bare = SingleSwitch(name="bare", bandwidth=1e9)
    told = price_collective("all_to_all", [MIB], bare, IDEAL, Layout(2, 1), library=read_library()).assumed
    assert any("lower bounds" in line for line in told)
    told = price_collective("all_to_all", [MIB], PLAIN, IDEAL, Layout(2, 1), library=read_library()).assumed
    assert not any("lower bounds" in line for line in told)


SHAPE = ("--network", "nvswitch-h100", "--gpu", "h100", "--nodes", "1", "--gpus-per-node", "8")


def called(*more):
    return invoke("collective", "all_reduce", *SHAPE, *more, env={"COLUMNS": "100"})


def test_without_a_size_there_is_a_table_which_a_file_gets_too(tmp_path):
    times = json.loads(called("--out", str(tmp_path / "times.csv"), "--json").output)["times"]
    assert [item["payload_bytes"] for item in times] == list(SIZES)
    with (tmp_path / "times.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["time_s"]) for row in rows] == [item["time_s"] for item in times]
    assert [float(row["interval_high_s"]) for row in rows] == [item["interval_s"][1] for item in times]
    assert "64 KiB" in called().output


def test_sizes_may_be_repeated_and_it_says_which_times_are_measured():
    """Of a few bytes none was measured."""
    for sizes, said in (
        (["64 MiB"], "GB/s. The time is from the measured curve."),
        (["64 MiB", "256 MiB"], "GB/s. All times are from the measured curve."),
        (["1 B", "64 MiB"], "GB/s. 1 time from the measured curve, the other from the links."),
        (["1 B", "2 B", "64 MiB"], "GB/s. 1 time from the measured curve, the others from the links."),
        (["1 B"], "GB/s.\n"),
    ):
        options = [part for size in sizes for part in ("--size", size)]
        assert said in called(*options).output
        times = json.loads(called(*options, "--json").output)["times"]
        assert len(times) == len(sizes) and times[-1]["payload_bytes"] in (1, 64 * MIB, 256 * MIB)


def test_a_picture_comes_with_the_numbers_that_it_shows(tmp_path):
    assert called("--out", str(tmp_path / "times.svg")).exit_code == 0
    with (tmp_path / "times.csv").open(newline="") as file:
        rates = [float(row["value"]) for row in csv.DictReader(file)]
    assert rates == sorted(rates)
    assert (tmp_path / "times.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--size", "0 B"], "size: expected 1 B to 1e+18 B, got 0 B"),
        (["--size", "1"], "--size: expected a size with its unit"),
        (["--size", "1e30 GB"], "got 1e+39 B"),
        (["--gpus-per-node", "1"], "expected 2 to 131,072 GPUs that exchange, got 1"),
        (["--nodes", "2"], "expected one node on fabric nvswitch, got 2 nodes"),
        (["--algorithm", "rang"], "topology nccl: algorithm: expected names out of"),
        (["--network", "no-such"], "no-such"),
        (["--out", "times.xyz"], "times.xyz"),
    ],
)
def test_what_cannot_be_priced_is_refused(more, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = called(*more)
    assert result.exit_code == 2 and said in result.output and "Traceback" not in result.output
