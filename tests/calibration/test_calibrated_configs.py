"""Every GPU and network that ships loads, carries its evidence, and works in a scenario."""

import pytest
import yaml
from command_line import invoke, printed
from places import ROOT

from simulator.calibration.configs import About, gpu_config
from simulator.calibration.kernels import calibrate_kernels
from simulator.calibration.timings import Timing, Timings

GPUS = sorted(path.stem for path in (ROOT / "configs" / "gpus").glob("*.yaml"))
NETWORKS = sorted(path.stem for path in (ROOT / "configs" / "networks").glob("*.yaml"))
SCENARIO = """
name: every config
workload: {{batch_size: 1, layers: [{{name: all, numel: 2000000, forward: 1 ms, backward: 2 ms}}]}}
cluster:
  nodes: {nodes}
  gpus_per_node: {each}
  gpu: {gpu}
  network: {network}
  runtime: runtimes/ideal
topology: nccl
sparsifier: {{kind: topk, density: 0.01}}
scheduler: {{kind: sequential}}
"""


@pytest.mark.long
@pytest.mark.parametrize("place", [*(f"gpus/{name}" for name in GPUS), *(f"networks/{name}" for name in NETWORKS)])
def test_every_gpu_and_network_works_in_a_scenario(tmp_path, place):
    text = (ROOT / "configs" / f"{place}.yaml").read_text()
    inside = "kind: nvswitch" in text or "kind: nvlink_mesh" in text
    names = {"gpu": "gpus/v100", "network": "networks/10gbe-tcp", place.partition("s/")[0]: place}
    scenario = tmp_path / "s.yaml"
    scenario.write_text(SCENARIO.format(nodes=1 if inside else 2, each=2 if inside else 1, **names))
    result = invoke("check", scenario)
    assert result.exit_code == 0, result.output
    printed("run", scenario)


def test_a_written_gpu_says_of_each_curve_what_it_rests_on():
    """Six sizes, timed twice, of which every second one takes a tenth longer."""
    times = [(1024 * 2**i, (1e-5 + 1.024e-6 * 2**i) * (1.1 if i % 2 else 1.0)) for i in range(6)]
    timings = [Timing("Card", "old", "sort", n, 1, 0, seconds, 0.02) for n, seconds in times for _ in range(2)]
    about = About("mine", "Ours.", {"a.csv": "12ab"}, "Card", "old", "May 2026", memory_bandwidth=760e9)
    text = gpu_config(calibrate_kernels(Timings(timings)), about)
    assert text.splitlines()[2:4] == ["# 12ab  a.csv", "# Dates: May 2026"] and "gpu.json" in text.splitlines()[0]
    written = yaml.safe_load(text)
    curve = written.pop("kernels")["sort"]
    assert curve["range"] == [1024, 32768] and curve["spread"] == "2 %" and curve["source"] == "12 timings, affine"
    assert float(curve["held_out_mape"].removesuffix(" %")) == pytest.approx(100 * 0.1 / 1.1, rel=0.02)
    about = {"name": "mine", "device": "Card", "software": "old", "memory_bandwidth": "760 GB/s", "source": "Ours."}
    assert written == about


def test_every_config_names_its_schema_and_its_source():
    for path in (*(f"gpus/{n}" for n in GPUS), *(f"networks/{n}" for n in NETWORKS)):
        text = (ROOT / "configs" / f"{path}.yaml").read_text()
        assert "source:" in text, path
        if "SHA-256" in text:
            assert text.startswith("# yaml-language-server: $schema=../schema/"), path
            assert "held_out_mape:" in text, path
