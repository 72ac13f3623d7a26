"""NCCL's law: fitted on few nodes, it gives back the network that made the timings, on more nodes too."""

import numpy as np
import pytest
from command_line import answered, printed

from simulator.calibration.collectives import CollectiveTimings, Key, Reading, Sample, read_collectives
from simulator.calibration.fits.accuracy import POOR
from simulator.calibration.fits.families import Repeats
from simulator.calibration.laws import NcclLaw, describe_library, fit_nccl_law, summed_in_switch
from simulator.calibration.network import calibrate_network
from simulator.component import build
from simulator.errors import InputError
from simulator.fabrics.base import Fabric

SIZES = 2.0 ** np.arange(8, 31)
DEVICE = "NVIDIA A100-SXM4-40GB"
STEPS = [[2**8, "9 us"], [2**14, "30 us"], [2**19, "90 us"], [2**27, "10 us"]]


def network(bandwidth=25e9, **more):
    inside = {"bandwidth": 235e9, "latency": 3e-6}
    given = {"kind": "single_switch", "bandwidth": bandwidth, "latency": 15e-6, "nics_per_node": 2}
    return build(Fabric, {**given, "intra_node": inside, **more})


TRUTH = network(
    18e9,
    nccl={
        "version": "2.18",
        "reported_bandwidth": 25e9,
        "latency": "15 us",
        "hop_latency": {"LL": "12 us", "LL128": "20 us", "Simple": "30 us"},
        "step_overhead": STEPS,
    },
)


def series(nodes, primitives=("all_reduce", "all_gather"), on=TRUTH, noise=0.0):
    made, random = {}, np.random.default_rng(0)
    for primitive in primitives:
        key = Key(primitive, "nccl", 4 * nodes, 4)
        seconds = NcclLaw(on, DEVICE).time(key, SIZES) * np.exp(noise * random.standard_normal(len(SIZES)))
        made[key] = Repeats(SIZES, seconds, None)
    return made


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_two_nodes_tell_what_eight_take(noise):
    law = fit_nccl_law(series(2, noise=noise), describe_library(network(), ["NCCL 2.18.3"], reported=True), DEVICE)
    assert law.fabric.bandwidth == pytest.approx(18e9, rel=0.05) and law.fabric.nccl.reported_bandwidth == 25e9
    for key, item in series(8).items():
        errors = np.abs(law.time(key, item.sizes) / item.seconds - 1)
        assert np.median(errors) < 0.05, key
        assert np.quantile(errors, 0.9) < 0.25, key


@pytest.mark.parametrize(
    ("settings", "version"),
    [
        (["NCCL 2.29.2"], "2.29"),
        (["alcf_polaris_nccl_2_18_n2.g4"], "2.18"),
        (["nccl-tests 2.17.8, NCCL 2.4.7"], "2.4"),
        (["MPI"], None),
    ],
)
def test_the_version_is_read_from_the_setting(settings, version):
    assert describe_library(network(), settings, reported=False).nccl.version == version
    assert describe_library(network(), settings, reported=False).nccl.reported_bandwidth is None


def test_the_slower_part_of_the_way_is_fitted():
    """Where the links inside a node are slower than the NIC, their rate is what the timings show."""
    slow = network(12e9, nics_per_node=1, intra_node={"bandwidth": 5e9, "latency": 2e-6})
    start = network(12e9, nics_per_node=1, intra_node={"bandwidth": 8e9, "latency": 2e-6})
    law = fit_nccl_law(series(2, on=slow), start, "RTX 2080 Ti")
    assert law.fabric.bandwidth == 12e9 and law.fabric.intra_node.bandwidth == pytest.approx(5e9, rel=0.05)


def test_workers_of_a_table_without_nodes_share_one(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("primitive,workers,bytes,seconds\nall_reduce,3,1024,0.5\n")
    (sample,) = read_collectives([table], Reading()).samples
    assert (sample.key, sample.nbytes, sample.seconds) == (Key("all_reduce", "nccl", 3, 3), 1024, 0.5)


def test_series_of_one_node_show_the_links_inside_it():
    """A mixture: the ports of the GPUs from one node, the NICs from two."""
    start = network(intra_node={"bandwidth": 100e9, "latency": 3e-6})
    law = fit_nccl_law(series(1, ("all_gather",)) | series(2), start, DEVICE)
    assert law.fabric.intra_node.bandwidth == pytest.approx(235e9, rel=0.05)
    assert law.fabric.bandwidth == pytest.approx(18e9, rel=0.05)


def test_sums_in_the_switch_are_told_from_rings():
    switch = build(Fabric, {"kind": "nvswitch", "bandwidth": 370e9})
    item = Repeats(SIZES, SIZES / 1e11, None)
    both = {Key(primitive, "nccl", 8, 8): item for primitive in ("all_reduce", "all_gather")}
    assert list(summed_in_switch(both, NcclLaw(switch, "H100"))) == [Key("all_reduce", "nccl", 8, 8)]
    assert not summed_in_switch(both, NcclLaw(switch, "A100"))


def measured(items, device=DEVICE):
    samples = [
        Sample(key, float(size), float(time), "NCCL 2.18", device, "")
        for key, item in items.items()
        for size, time in zip(item.sizes, item.seconds, strict=True)
    ]
    return CollectiveTimings(samples)


@pytest.mark.long
def test_errors_are_stated_for_numbers_of_nodes_left_out():
    fit = calibrate_network(measured(series(2) | series(4)), network())
    (law,) = fit.as_dict()["laws"]
    assert law["algorithm"] == "nccl" and set(law["links"]["node_extrapolation"]) == {"2", "4"}
    assert law["links"]["node_extrapolation"]["4"]["median_ape"] < 0.06
    assert law["links"]["size_interpolation"]["n"] > 0
    assert not fit.warnings


@pytest.mark.long
def test_a_law_that_does_not_describe_its_data_is_refused():
    random = np.random.default_rng(1)
    scattered = {
        key: Repeats(item.sizes, item.seconds * np.exp(2.5 * random.standard_normal(len(item.sizes))), None)
        for key, item in series(2).items()
    }
    with pytest.raises(InputError, match="describes the measurements within 100 %"):
        calibrate_network(measured(scattered), network())


@pytest.mark.long
def test_a_table_with_gpus_per_node_becomes_a_network_for_other_nodes(tmp_path):
    rows = ["source,gpu,nodes,gpus_per_node,primitive,bytes,seconds,note"]
    for key, item in series(2).items():
        rows += [
            f"a log,{DEVICE},2,4,{key.primitive},{size:.0f},{time},nccl 2.18"
            for size, time in zip(item.sizes, item.seconds, strict=True)
        ]
    table, base, out = (tmp_path / name for name in ("table.csv", "base.yaml", "net.yaml"))
    table.write_text("\n".join(rows) + "\n")
    assert {sample.key.workers for sample in read_collectives([table], Reading()).samples} == {8}
    base.write_text(
        "kind: single_switch\nbandwidth: 25 GB/s\nlatency: 15 us\nnics_per_node: 2\n"
        "intra_node: {bandwidth: 235 GB/s, latency: 3 us}\n"
    )
    arguments = ["calibrate", "network", table, "--fabric", base, "--out", out, "--no-figure"]
    assert "law: nccl" in printed(*[str(part) for part in arguments])
    scenario = tmp_path / "s.yaml"
    scenario.write_text(
        "name: eight nodes\n"
        "workload: {batch_size: 1, layers: [{name: all, numel: 67108864, forward: 0 s, backward: 0 s}]}\n"
        f"cluster: {{nodes: 8, gpus_per_node: 4, gpu: {{name: A100, device: A100, ideal: true}}, network: {out}, "
        "runtime: runtimes/ideal}\ntopology: nccl\nsparsifier: dense\nscheduler: {kind: sequential}\n"
    )
    result = answered("run", scenario)
    expected = NcclLaw(TRUTH, DEVICE).time(Key("all_reduce", "nccl", 32, 4), np.array([2.0**28]))[0]
    assert result["iteration_time_s"] == pytest.approx(expected, rel=0.05)
    assert result["collectives"][0]["algorithm"] == "ring Simple"
    assert "NCCL's model expects" in result["collectives"][0]["reason"]


@pytest.mark.long
def test_a_law_that_does_not_describe_its_data_is_warned_about_or_refused():
    random = np.random.default_rng(1)

    def scattered(width):
        return {
            key: Repeats(item.sizes, item.seconds * np.exp(width * random.standard_normal(len(item.sizes))), None)
            for key, item in series(2).items()
        }

    (warning,) = calibrate_network(measured(scattered(0.8)), network()).warnings
    assert "misses its own measurements by" in warning
    assert f"{100 * POOR:.0f}" not in warning  # the figure is that of the data
    with pytest.raises(InputError, match="describes the measurements within 100 %"):
        calibrate_network(measured(scattered(2.5)), network())
