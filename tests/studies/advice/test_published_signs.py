"""What was published about where compression pays, predicted."""

import pytest
from in_json import in_json
from long_examples import few_first
from places import ROOT
from scipy.optimize import brentq
from validation_rows import row_of

from simulator.prediction.run import run
from simulator.scenario.changes import with_value
from simulator.scenario.reading import load
from simulator.scenario.scenario import Scenario
from simulator.studies.advice.advice import advise
from simulator.studies.advice.candidates import Candidate, Grid
from simulator.studies.advice.crossings import Duel, bandwidth_axis
from simulator.studies.fit.iteration_fit import fit_named
from simulator.studies.validate.measured_rows import measured_rows
from simulator.studies.validate.validation import validate
from simulator.studies.variants.crossing import Along, search_together

advise = in_json(advise)

GROUP = "8xv100-grace"


def grace(method, nodes, gigabit=10, library="MPI"):
    """A row of ResNet-50 on V100 with one GPU per node."""
    return row_of(GROUP, f"ResNet-50, {method}, {nodes} V100 on {gigabit} GbE, {library}")


def time_of(name, *overrides):
    return run(load(name, overrides)).document["iteration_time_s"]


@pytest.mark.long
def test_sparsification_is_slower_on_four_v100_with_infiniband():
    """kljp/sage: dense 126.1 ms, hard threshold 149.2 ms, Top-k 236.9 ms."""
    dense, threshold, topk = (time_of(f"validation/resnet18-4xv100-ib/{m}") for m in ("dense", "threshold", "topk"))
    assert dense < threshold < topk
    document = advise(
        load("validation/resnet18-4xv100-ib/topk", ("iterations=20",)),
        grid=Grid((Candidate(), Candidate({"kind": "dense"})), (None,), (None,)),
    )
    assert document["answer"].startswith("Stay dense")
    assert any(reason["kind"] == "selection" and "topk 0.001" in reason["methods"] for reason in document["reasons"])


@pytest.mark.parametrize("bandwidth", few_first([1, 10, 25]))
def test_top_k_pays_at_1_gbit_only_on_eight_v100_with_horovod_over_mpi(bandwidth):
    """sands-lab/grace-data: images/s dense 595 / 2201 / 2351, Top-k 1 % 1285 / 1492 / 1484, 50 % 136 / 585 / 615."""
    dense, few, half = (
        run(grace(method, 8, bandwidth)).document["iteration_time_s"] for method in ("dense", "Top-k 1 %", "Top-k 50 %")
    )
    assert (few < dense) == (bandwidth == 1) and half > dense


def test_resnet50_needs_no_compression_at_100_gbit_and_two_to_five_times_at_10():
    """Zhang et al. 2020, 2006.10103: 8 nodes of 8 V100; to compress r times at no cost is a wire r times faster."""
    inside = {"bandwidth": "130 GB/s", "latency": "3 us"}  # NVLink: more than any NIC here

    def efficiency(gbit):
        network = {"kind": "single_switch", "bandwidth": f"{gbit} Gbit/s", "latency": "10 us", "intra_node": inside}
        spec = {
            "name": "64 V100",
            "workload": "workloads/resnet50-v100",
            "cluster": {
                "nodes": 8,
                "gpus_per_node": 8,
                "gpu": "gpus/v100-pytorch2",
                "network": network,
                # Their compute times are those of distributed runs: collectives have slowed them already.
                "runtime": {"name": "DDP", "kernel_launch": "5 us", "fills_buckets": True},
            },
            "topology": "nccl",
            "scheduler": "bucketed",
            "sparsifier": "dense",
        }
        return run(Scenario.model_validate(spec)).document["scaling_efficiency"]

    assert efficiency(100) > 0.97 and efficiency(10) < 0.6 and efficiency(2 * 10) > 0.78
    assert efficiency(1.5 * 10) < 0.95 < efficiency(5 * 10) and efficiency(100) - efficiency(5 * 10) < 0.02


@pytest.mark.long
def test_break_even_of_top_k_on_eight_v100_lies_between_1_and_10_gbit():
    spec = grace("Top-k 1 %", 8)
    dense = Candidate({"kind": "dense"}).of(spec)
    axis = bandwidth_axis(spec)
    ((win,),) = (found.wins for found in search_together([Duel(Along(axis, spec), Along(axis, dense)).search()]))
    slow, fast = (grace("dense", 8, n).cluster.network.bandwidth for n in (1, 10))
    assert slow < win.stop < fast


@pytest.mark.long
def test_rows_of_eight_workers_are_no_part_of_any_fit():
    rows = validate([ROOT / "scenarios" / "validation" / GROUP]).rows
    assert {row["scenario"] for row in rows if " 8 V100 " in row["scenario"] and row["used_in_fit"]} == set()
    eight = [row for row in rows if " 8 V100 " in row["scenario"]]
    assert len(eight) == 9 and sorted(abs(row["signed_error"]) for row in eight)[4] < 0.08
    assert max(abs(row["signed_error"]) for row in eight if "50 %" not in row["scenario"]) < 0.15


@pytest.mark.long
def test_constants_of_that_set_up_are_what_two_workers_give():
    nccl, mpi, topk = grace("dense", 2, library="NCCL"), grace("dense", 2), grace("Top-k 1 %", 2)
    alone = row_of(GROUP, "ResNet-50, dense, 1 V100, TensorFlow 1")
    assert alone.workload.compute_time == pytest.approx(alone.measured.iteration_time)
    fitted = fit_named(measured_rows([nccl]), ["runtime.compute_slowdown"]).constants[0].value
    assert nccl.cluster.runtime.compute_slowdown == pytest.approx(fitted, rel=0.02)

    wire = load("quickstart").cluster.network.bandwidth

    def left(spec, key, value):
        return run(with_value(spec, key, value)).document["iteration_time_s"] - spec.measured.iteration_time

    host = brentq(lambda x: left(mpi, "cluster.network.transport.staging", 1 / x), 1e-11, 1e-8)
    assert host == pytest.approx(1 / 1.412e9, rel=0.02)
    for gigabit in (1, 10, 25):
        rate = grace("dense", 8, gigabit).cluster.network.carried(8)
        assert rate == pytest.approx(1 / (10 / (gigabit * wire) + 1 / 1.412e9), rel=1e-3)

    kernels = topk.cluster.gpu.kernels

    def with_slope(slope):
        return {**kernels, "topk": kernels["topk"].model_copy(update={"slope": slope})}

    slope = brentq(lambda x: left(topk, "cluster.gpu.kernels", with_slope(x)), 1e-10, 1e-7)
    assert kernels["topk"].slope == pytest.approx(slope, rel=0.02)
