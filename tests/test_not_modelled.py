"""Settings of other programs that are refused by name, wherever they are written."""

import pytest
from click.testing import CliRunner

from simulator.aliases import NOT_MODELLED, OTHER_WORDS, describe_not_modelled, own_word
from simulator.architectures.transformer import Transformer
from simulator.cli import main
from simulator.component import discover
from simulator.errors import InputError
from simulator.fabrics.base import Fabric
from simulator.hardware.gpu import Gpu
from simulator.hardware.runtime import Runtime
from simulator.models.layers import Workload
from simulator.scenario.cluster import Cluster
from simulator.scenario.named_parts import WorkloadSource
from simulator.scenario.reading import load
from simulator.scenario.scenario import Scenario
from simulator.schedulers.base import Scheduler
from simulator.sparsifiers.base import Sparsifier
from simulator.topologies.base import Topology

FAMILIES = (Sparsifier, Topology, Scheduler, Fabric)
KEYS = [key for item in NOT_MODELLED for key in item.keys]
ASKED = ("activation_offload", "cpu_offload")


@pytest.mark.parametrize("key", ASKED)
@pytest.mark.parametrize("place", ["", "cluster.", "cluster.runtime.", "cluster.network.", "workload.", "sparsifier."])
def test_a_key_is_refused_by_name_wherever_it_stands(place, key):
    with pytest.raises(InputError) as caught:
        load("quickstart", (f"{place}{key}=4",))
    message = str(caught.value)
    assert f"'{key}' is not modelled: " in message
    assert "what comes closest: " in message
    assert message.count("\n") == 0


@pytest.mark.parametrize("key", ["fsdp", "hsdp", "zero_stage", "ZeRO-3", "distributed_optimizer"])
@pytest.mark.parametrize("place", ["", "cluster.", "cluster.runtime.", "workload.", "sparsifier.", "topology="])
def test_words_for_sharding_lead_to_the_scheduler(place, key):
    with pytest.raises(InputError) as caught:
        load("quickstart", (f"{place}{key}" if place.endswith("=") else f"{place}{key}=4",))
    assert f"'{key}' is stated by the scheduler: write `scheduler: {{kind: fsdp}}`" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "setting"),
    [
        ("tensor_parallel", "tensor: 8"),
        ("PP", "pipeline: {stages: 4}"),
        ("sequence-parallel", "sequence_parallel: true"),
        ("cp_size", "context: 2"),
        ("expert_parallel_degree", "expert: 8"),
        ("moe", "expert: 8"),
    ],
)
@pytest.mark.parametrize("place", ["", "cluster.", "workload.", "sparsifier."])
def test_words_for_divided_models_lead_to_parallelism(place, key, setting):
    with pytest.raises(InputError) as caught:
        load("quickstart", (f"{place}{key}=4",))
    assert f"write `parallelism: {{{setting}}}`" in str(caught.value)


@pytest.mark.parametrize("command", ["run", "check", "explain", "advise"])
def test_commands_refuse_it_with_the_place_in_the_file(command, tmp_path):
    (tmp_path / "mine.yaml").write_text("name: mine\nworkload:\n  trace: workloads/resnet50-v100\n  offload: 8\n")
    result = CliRunner().invoke(main, [command, str(tmp_path / "mine.yaml")])
    assert result.exit_code == 2
    assert "mine.yaml:4:3: workload.offload: 'offload' is not modelled" in result.stderr


def test_a_kind_of_that_name_is_refused_too():
    with pytest.raises(InputError, match="topology: 'TP' is stated by `parallelism`"):
        load("quickstart", ("topology=TP",))


def test_words_of_other_programs_lead_to_the_key():
    with pytest.raises(InputError, match="got 'gradient_accumulation_steps': the key is `micro_batches`"):
        load("quickstart", ("workload.gradient_accumulation_steps=4",))
    with pytest.raises(InputError, match=r"cluster\.gradient_accumulation_steps: expected a known key"):
        load("quickstart", ("cluster.gradient_accumulation_steps=4",))
    with pytest.raises(InputError) as caught:
        load("hsdp_llama3", tuple(f"workload.{key}=4" for key in ("n_layers", "d_model", "seq_len", "remat")))
    assert [
        str(caught.value).count(f"the key is `{key}`") for key in ("layers", "hidden", "sequence", "recompute")
    ] == [1] * 4
    assert own_word("batch") == ""
    assert set(OTHER_WORDS) <= {*Workload.model_fields, *Transformer.model_fields}


def test_spelling_does_not_matter():
    for word in ("Tensor-Parallel", "TENSOR_PARALLEL", "tensor parallel"):
        assert describe_not_modelled(word)[0].startswith(f"'{word}' is stated by `parallelism`")
    assert describe_not_modelled("density") is None


def test_no_key_is_listed_twice_or_is_a_key_of_this_program():
    own = {name for spec in (Scenario, Cluster, Workload, WorkloadSource, Gpu, Runtime) for name in spec.model_fields}
    own |= {kind for base in FAMILIES for kind in discover(base)}
    own |= {name for base in FAMILIES for member in discover(base).values() for name in member.model_fields}
    assert len(set(KEYS)) == len(KEYS)
    assert not own & set(KEYS)
    assert set(ASKED) <= set(KEYS)
    assert all(key == key.lower() for key in KEYS)


def test_the_closest_answers_name_keys_that_exist():
    text = " ".join(item.closest for item in NOT_MODELLED)
    named = {part.partition(":")[0] for part in text.split("`")[1::2]}
    assert named <= {*Workload.model_fields, *Transformer.model_fields, *Scenario.model_fields, "cluster"}
    for item in NOT_MODELLED:
        assert len(item.closest) < 480  # a message cuts longer parts
