"""Every GPU and network that ships loads, carries its evidence, and works in a scenario."""

import pytest
from command_line import invoke, printed
from places import ROOT

GPUS = sorted(path.stem for path in (ROOT / "configs" / "gpus").glob("*.yaml"))
NETWORKS = sorted(path.stem for path in (ROOT / "configs" / "networks").glob("*.yaml"))
SCENARIO = """
name: every config
workload: {{batch_size: 1, layers: [{{name: all, numel: 2000000, forward: 1 ms, backward: 2 ms}}]}}
cluster:
  nodes: {nodes}
  gpus_per_node: {each}
  gpu: gpus/{gpu}
  network: networks/{network}
  runtime: runtimes/ideal
topology: nccl
sparsifier: {{kind: topk, density: 0.01}}
scheduler: {{kind: sequential}}
"""


def check(tmp_path, **names):
    scenario = tmp_path / "s.yaml"
    scenario.write_text(SCENARIO.format(**names))
    result = invoke("check", scenario)
    assert result.exit_code == 0, result.output
    printed("run", scenario)


@pytest.mark.long
@pytest.mark.parametrize("gpu", GPUS)
def test_every_gpu_works_in_a_scenario(tmp_path, gpu):
    check(tmp_path, gpu=gpu, network="10gbe-tcp", nodes=2, each=1)


@pytest.mark.long
@pytest.mark.parametrize("network", NETWORKS)
def test_every_network_works_in_a_scenario(tmp_path, network):
    text = (ROOT / "configs" / "networks" / f"{network}.yaml").read_text()
    inside = "kind: nvswitch" in text or "kind: nvlink_mesh" in text
    check(tmp_path, gpu="v100", network=network, nodes=1 if inside else 2, each=2 if inside else 1)


def test_every_config_names_its_schema_and_its_source():
    for path in (*(f"gpus/{n}" for n in GPUS), *(f"networks/{n}" for n in NETWORKS)):
        text = (ROOT / "configs" / f"{path}.yaml").read_text()
        assert "source:" in text, path
        if "SHA-256" in text:
            assert text.startswith("# yaml-language-server: $schema=../schema/"), path
            assert "held_out_mape:" in text, path
