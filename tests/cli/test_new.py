"""`sparsim new`: questions on a terminal, options without one, and files that run."""

import json
import math
import re
import shlex
from importlib.util import find_spec

import pytest
from command_line import answered, invoke, printed, refused

import simulator.cli.new as command
from simulator.cli import main
from simulator.component import build
from simulator.errors import InputError
from simulator.models.pipeline import Parallelism
from simulator.scenario.named_parts import read_gpu, read_part
from simulator.scenario.reading import load
from simulator.sparsifiers.base import Sparsifier
from simulator.studies.start.questions import QUESTIONS, read_answer

ANSWERS = {
    "model": "workloads/resnet50-v100",
    "gpu": "gpus/v100-pytorch2",
    "machines": "4",
    "gpus-per-machine": "1",
    "network": "networks/10gbe-tcp-1-per-node",
    "framework": "runtimes/pytorch-ddp",
    "method": "topk 1 %",
    "goal": "pays",
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def options(**changes):
    answers = ANSWERS | {key.replace("_", "-"): value for key, value in changes.items()}
    return [text for key, value in answers.items() if value is not None for text in (f"--{key}", str(value))]


def write(*more, **changes):
    return printed("new", "mine.yaml", *options(**changes), *more)


def commands(output):
    """The commands of the last part of the output."""
    lines = output.partition("\nnext:\n")[2].splitlines()
    return [line.partition("  # ")[0].strip() for line in lines if line.strip().startswith("sparsim ")]


def test_options_write_a_scenario_that_runs_and_name_the_next_commands(folder):
    output = write()
    assert "written: mine.yaml\n" in output and commands(output)[0] == "sparsim run mine.yaml"
    scenario = load("mine.yaml")
    assert scenario.name == "resnet50, topk 0.01, 4 GPUs over 8.907 Gbit/s"
    assert (scenario.cluster.workers, scenario.sparsifier.kind, scenario.versus) == (4, "topk", "best_dense")
    assert "Does topk 0.01 pay for resnet50 on 4 GPUs over 8.907 Gbit/s?" in printed("run", "mine.yaml")


def test_every_command_that_is_named_can_be_typed(folder):
    for goal in ("pays", "method", "time", "workers", "bandwidth"):
        output = write("--force", goal=goal, method="dgc, powersgd 2 or dense")
        for line in commands(output):
            words = shlex.split(line)[1:]
            main.commands[words[0]].make_context("sparsim", words[1:])
        assert all(len(line) <= 100 for line in output.splitlines()) and len(commands(output)) >= 4


def test_every_line_of_the_file_is_explained_and_none_is_too_long(folder):
    write("--sites", "2", "--between", "200 Mbit/s, 40 ms", gpu="gpus/a100", network="25 Gbit/s", precision="bf16")
    text = (folder / "mine.yaml").read_text()
    assert max(map(len, text.splitlines())) <= 120
    assert len(re.findall("#", text)) > 15


def test_the_way_between_two_sites_takes_half_of_the_round_trip(folder):
    write("--sites", "2", "--between", "200 Mbit/s, 40 ms", machines=8, network="25 Gbit/s, 20 us")
    network = load("mine.yaml").cluster.network
    assert (network.kind, network.nodes_per_leaf, network.spines) == ("leaf_spine", 4, 1)
    assert network.latency + 2 * network.hop_latency == pytest.approx(0.02, rel=1e-9)
    assert network.uplink == pytest.approx(1448 / 1538 * 25e6, rel=1e-3)
    # One message of each ring step crosses between the sites and waits for the whole way.
    lone = invoke("run", "mine.yaml", "--json", "--set", "sparsifier=dense", "--set", "topology=ring")
    assert json.loads(lone.output)["iteration_time_s"] > 14 / 8 * 4 * 0.02


def test_a_slow_gpu_has_a_factor_of_the_data_sheets_and_a_width(folder):
    write("--slow-gpu", "t4", method="dense", goal="time")
    (slow,) = load("mine.yaml").cluster.other_gpus
    fast, late = read_gpu("v100-pytorch2"), read_gpu("t4")
    rule = math.sqrt(fast.memory_bandwidth * fast.fp32_rate / (late.memory_bandwidth * late.fp32_rate))
    assert slow.nodes == (3,) and slow.factor == pytest.approx(rule, rel=5e-3)
    assert "with 1 node of Tesla T4" in " ".join(printed("run", "mine.yaml").split())
    stated = answered("run", "mine.yaml")
    known = answered("run", "mine.yaml", "--set", "cluster.other_gpus.0.width=1")
    widths = [math.log(high / low) for low, high in (item["iteration_time_interval_s"] for item in (stated, known))]
    assert widths[0] > 1.2 * widths[1]
    assert stated["iteration_time_s"] == pytest.approx(known["iteration_time_s"], rel=1e-12)


def test_a_model_that_was_timed_on_another_gpu_is_scaled_by_the_data_sheets_with_a_width(folder):
    write(gpu="t4")
    workload = load("mine.yaml").workload
    profile, fast, slow = load("quickstart").workload, read_gpu("v100"), read_gpu("t4")
    rule = math.sqrt(fast.memory_bandwidth * fast.fp32_rate / (slow.memory_bandwidth * slow.fp32_rate))
    computing = (profile.forward_time + profile.backward_time) / 64 * 32
    assert workload.compute_width == 1.62
    assert workload.compute_time == pytest.approx(rule * computing, rel=0.06)  # and the update
    assert workload.compute_time > rule * computing
    write("--force", "--compute-time", "250 ms", gpu="t4")
    workload = load("mine.yaml").workload
    assert (workload.compute_time, workload.compute_width) == (0.25, None)


def test_a_network_is_a_name_a_rate_or_several_nics(folder):
    for text, rate, latency, nics, transport in (
        ("1 Gbit/s", 1448 / 1538 * 125e6, 50e-6, 1, "tcp"),
        ("25 Gbit/s, 20 us", 1448 / 1538 * 25e9 / 8, 20e-6, 1, "tcp"),
        ("8 x 400 Gbit/s", 0.96 * 50e9, 5e-6, 8, "rdma"),
        ("100 Gbit/s, 30 us", 1448 / 1538 * 12.5e9, 30e-6, 1, "tcp"),
    ):
        write("--force", network=text, gpus_per_machine=8)
        network = load("mine.yaml").cluster.network
        assert (network.bandwidth, network.latency) == (pytest.approx(rate, rel=1e-3), pytest.approx(latency))
        assert (network.nics_per_node, network.transport_kind) == (nics, transport)
        assert network.intra_node is not None
    (folder / "net.yaml").write_text("kind: single_switch\nbandwidth: 3 GB/s\n")
    write("--force", network="net.yaml")
    assert load("mine.yaml").cluster.network.bandwidth == 3e9
    write("--force", network="100gb-ib")
    stated = load("mine.yaml", ("cluster.network=networks/100gb-ib",))
    assert load("mine.yaml").cluster.network == stated.cluster.network


@pytest.mark.parametrize("goal", ["workers", "bandwidth"])
def test_a_goal_that_needs_many_runs_writes_a_sweep(folder, goal):
    write(goal=goal, machines=2)
    assert ", 0 failed" in printed("sweep", f"mine-{goal}.yaml", "--out", folder / "swept", "--workers", "1")


@pytest.mark.parametrize(
    "framework", ["horovod-0.19", "runtimes/byteps-0.2", "bytescheduler-horovod-0.19", "runtimes/ideal"]
)
@pytest.mark.parametrize("method", ["dense", "topk 0.1 %"])
def test_every_framework_gives_a_scenario_that_runs(folder, framework, method):
    write(framework=framework, method=method, machines=2)
    printed("run", "mine.yaml")


@pytest.mark.parametrize(
    ("changes", "more", "message"),
    [
        ({"gpu": "v1000"}, (), "--gpu: expected a name of the list, got 'v1000': did you mean 'v100'?"),
        ({"gpu": "rtx"}, (), "--gpu: expected one name, got 'rtx', which"),
        ({"model": "resnet51"}, (), "--model: expected a name of the list, got 'resnet51'"),
        ({"machines": "0"}, (), "--machines: expected a whole number from 1 to 131072, got '0'"),
        ({"machines": "four"}, (), "--machines: expected a whole number"),
        ({"machines": "9" * 400}, (), "--machines: expected a whole number"),
        ({"network": "fast"}, (), "--network: expected a name of the list, got 'fast'"),
        ({"network": "250"}, (), "--network: expected a bandwidth with its unit, such as 10 Gbit/s, got '250'"),
        ({"network": "25 Gbit/s, 3"}, (), "--network: expected a time with its unit"),
        ({"network": "0 Gbit/s"}, (), "--network: expected a possible bandwidth, got '0 Gbit/s'"),
        ({"method": "topkk 1 %"}, (), "--method: expected a kind of sparsifier, got 'topkk': did you mean 'topk'?"),
        ({"method": "topk 300 %"}, (), "--method: density: expected at most 1"),
        ({"method": "{kind: topk, densty: 1}"}, (), "--method: densty"),
        ({"method": ""}, (), "--method: expected a method, such as topk 1 %"),
        ({"gpu": "h100", "model": "llama3-8b"}, ("--mesh", "fsdp"), "scenario 'Llama-3 8B, topk 0.01, 4 GPUs"),
        ({}, ("--precision", "fp8"), "--precision: expected a described model, for products in fp8, got workloads/"),
        ({"method": "diloco"}, (), "got 'diloco': give --local-steps, and here what is exchanged after them"),
        ({"method": "hsdp"}, (), "got 'hsdp': give --mesh hsdp, and here what is exchanged, such as dense"),
        ({"model": "llama3-9b"}, (), "got 'llama3-9b': did you mean 'llama3-8b'?; or give a model's config.json"),
        ({"goal": "fame"}, (), "--goal: expected a name of the list, got 'fame'"),
        ({}, ("--sites", "2"), "--between: expected both --sites and --between"),
        ({}, ("--between", "1 Gbit/s, 1 ms"), "--sites: expected both --sites and --between"),
        ({}, ("--sites", "3", "--between", "1 Gbit/s, 1 ms"), "--sites: expected as many machines on every site"),
        ({}, ("--sites", "2", "--between", "1 Gbit/s"), "--between: expected a rate and a round trip"),
        ({}, ("--sites", "2", "--between", "1 Gbit/s, 1 us"), "--between: expected a round trip of 60 us or more"),
        ({}, ("--slow-gpu", "t5"), "--slow-gpu: expected a name of the list"),
        ({}, ("--slow-gpu", "t4", "--slow-machines", "4"), "--slow-machines: expected fewer than all machines"),
        ({}, ("--compute-time", "3"), "--compute-time: expected a time with its unit"),
        ({"network": "networks/nvswitch-h100"}, (), "nvswitch"),
        ({"model": "x" * 5000}, (), "--model: expected at most 500 characters, got 5000 of them"),
    ],
)  # fmt: skip
def test_wrong_answers_are_refused_with_the_reason_and_nothing_is_written(folder, changes, more, message):
    said = refused("new", "mine.yaml", *options(**changes), *more)
    assert message in said and "Traceback" not in said
    assert not list(folder.iterdir())


def test_without_a_terminal_every_missing_option_is_named(folder):
    said = refused("new", "mine.yaml", "--model", "resnet50-v100")
    named = re.findall(r"^(--[a-z-]+): expected this option", said, flags=re.M)
    assert named == [f"--{key}" for key in ANSWERS if key != "model"]


def test_nothing_is_overwritten_unless_it_is_asked_for(folder):
    (folder / "mine.yaml").write_text("precious")
    result = invoke("new", "mine.yaml", *options())
    assert (result.exit_code, (folder / "mine.yaml").read_text()) == (2, "precious")
    assert "one that exists: give another name, or --force" in result.output
    write("--force")
    (folder / "mine.yaml").unlink()
    (folder / "mine-workers.yaml").write_text("precious")
    result = invoke("new", "mine.yaml", *options(goal="workers"))
    assert (result.exit_code, (folder / "mine-workers.yaml").read_text()) == (2, "precious")
    assert not (folder / "mine.yaml").exists()


def test_the_name_of_the_file_ends_as_a_scenario_does(folder):
    assert "expected a name that ends with .yaml" in refused("new", "mine.txt", *options())


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setattr(command, "_is_terminal", lambda: True)


def test_on_a_terminal_eight_questions_are_asked_and_defaults_run(folder, terminal):
    told = printed("new", input="\n" * 8)
    assert re.findall(r"^(\d) of 8  ", told, flags=re.M) == list("12345678")
    scenario = load("mine.yaml")
    assert scenario.workload.name == "resnet50-v100" and scenario.cluster.gpu.device.startswith("Tesla V100")
    assert all(len(line) <= 100 for line in told.splitlines())


def test_on_a_terminal_a_wrong_answer_is_asked_again_with_the_reason(folder, terminal):
    typed = "nothing like it|bert-base|no gpu|t4|0|2|1|1 Gbit|1 Gbit/s|1000|horovod-tensorflow1|dgc and powersgd|2|"
    told = printed("new", input=typed.replace("|", "\n"))
    for reason in (
        "--model: expected a name of the list, got 'nothing like it'",
        "--gpu: expected a name of the list, got 'no gpu'",
        "--machines: expected a whole number from 1 to 131072, got '0'",
        "--network: expected a bandwidth in one of",
        "--framework: expected a name of the list, got '1000'",
    ):
        assert told.count(reason) == 1
    scenario = load("mine.yaml")
    assert scenario.workload.name == "bert-base-v100"
    assert (scenario.cluster.nodes, scenario.sparsifier.kind) == (2, "dgc")
    assert commands(told)[0] == "sparsim advise mine.yaml"


def test_options_answer_questions_in_advance(folder, terminal):
    told = printed("new", *options(goal=None, machines=None), input="2\n1\n")
    assert re.findall(r"^(\d) of 8  ", told, flags=re.M) == ["3", "8"]
    assert load("mine.yaml").cluster.nodes == 2


@pytest.mark.torch
@pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch")
def test_a_model_of_ones_own_is_described_where_there_is_no_gpu(folder):
    (folder / "net.py").write_text(
        "from torch import nn\n\ndef build():\n    return nn.Sequential(nn.Linear(64, 32), nn.Linear(32, 8))\n"
    )
    own = ("--model", "net.py:build", "--input", "64", "--batch", "16")
    result = invoke("new", "mine.yaml", *options(model=None), *own)
    assert result.exit_code == 0, result.output
    workload = load("mine.yaml").workload
    assert (workload.numel, workload.batch_size) == (64 * 32 + 32 + 32 * 8 + 8, 16)
    answer = answered("run", "mine.yaml")
    assert answer["breakdown_s"]["backward"] > 0 and answer["comparison"]["kind"] == "pays"
    again = invoke("new", "other.yaml", *options(model=None), *own)
    assert "build.yaml: expected a new file, got one that exists: --force" in again.output
    result = invoke("new", "mine.yaml", *options(model=None), *own, "--force", "--compute-time", "20 ms")
    assert load("mine.yaml").workload.compute_time == 0.02


def test_adapters_fit_where_the_whole_model_does_not(folder):
    """Of 8 billion parameters 32 x 16 x (8,192 + 5,120) are trained: queries to 4,096 columns, values to 1,024."""
    chosen = {"model": "llama3-8b", "gpu": "a100-80gb", "gpus_per_machine": "8", "network": "25 Gbit/s"}
    output = write("--lora", "16", framework="pytorch-ddp", method="topk 1 %", **chosen)
    assert commands(output)[0] == "sparsim run mine.yaml"
    assert load("mine.yaml").workload.numel == 32 * 16 * (2 * 4096 + 4096 + 1024)
    chosen |= {"model": "llama2-13b", "gpu": "a100", "machines": "2"}
    output = write("--lora", "16", "--force", framework="pytorch-ddp", method="1-bit Adam", **chosen)
    assert "with `recompute: full`, which the file says, it fits" in " ".join(output.split())
    printed(*shlex.split(commands(output)[0])[1:])
    assert load("mine.yaml").sparsifier == build(Sparsifier, {"kind": "onebit_adam"})
    said = refused("new", "other.yaml", *options(model="resnet50-v100"), "--lora", "16")
    assert "workload.lora: expected a known key" in said


@pytest.mark.parametrize("model", ["config.json", "gpt2-xl"])
def test_recomputing_is_said_to_be_enough_where_the_scenario_that_is_written_fits(folder, model):
    """Eight networks of 7 billion parameters, whose experts 8 GPUs share out; a config.json states no optimiser."""
    sizes = {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8}
    more = {"model_type": "mixtral", "num_hidden_layers": 32, "num_local_experts": 8, "num_experts_per_tok": 2}
    (folder / "config.json").write_text(json.dumps(sizes | more | {"vocab_size": 32000, "torch_dtype": "bfloat16"}))
    sharded = {"gpu": "h200", "gpus_per_machine": "8", "framework": "megatron"}
    mesh = ("--mesh", "megatron ep 8 shard 8", "--batch", "4") if model == "config.json" else ("--batch", "24")
    output = write(*mesh, model=model, **(sharded if model == "config.json" else {"gpu": "a100"}))
    said = re.search("with `recompute: full`, which the file says, it (may fit|fits)", " ".join(output.split()))
    assert said[1] == {True: "fits", None: "may fit"}[answered("run", "mine.yaml")["memory"]["fits"]]
    assumed = re.search("optimiser: {kind: adamw, .*}  # assumption", (folder / "mine.yaml").read_text())
    assert bool(assumed) == (model == "config.json") and load("mine.yaml").workload.optimiser.kind == "adamw"


def test_a_configuration_of_another_program_is_a_whole_scenario_on_the_gpus_that_are_given(folder):
    (folder / "ds.json").write_text('{"zero_optimization": {"stage": 3}, "train_micro_batch_size_per_gpu": 1}')
    assert "--out: expected the file of the scenario" in refused("new", "from", "ds.json", "--gpu", "h100")
    asked = ("new", "from", "ds.json", "--out", "mine.yaml", "--gpu", "h100")
    assert "--network: expected this option, with --out, got nothing" in refused(*asked)
    asked = (*asked, "--network", "8 x 400 Gbit/s")
    assert "--model: expected the model, which this configuration of DeepSpeed leaves out" in refused(*asked)
    asked = (*asked, "--model", "llama2-7b")
    said = refused(*asked, "--gpus", "12")
    assert "--gpus: expected the GPUs of the job, a multiple of the 8 of a machine, got 12" in said
    output = printed(*asked, "--gpus", "64")
    assert "written: mine.yaml" in output and commands(output)[0] == "sparsim run mine.yaml"
    assert "mine.yaml: expected a new file, got one that exists" in refused(*asked, "--gpus", "64")
    made = load("mine.yaml")
    assert (made.cluster.workers, made.scheduler.kind, made.workload.name) == (64, "fsdp", "Llama-2 7B")


def test_products_in_fp8_have_gradients_in_bf16():
    write("--mesh", "fsdp", "--precision", "fp8", method="dense", goal="time", **SHARED)
    workload = load("mine.yaml").workload
    assert (workload.origin.architecture.arithmetic, workload.precision.gradients) == ("fp8", "bf16")
    said = refused("run", "mine.yaml", "--set", "workload.precision=fp8")
    assert "workload.precision: expected a format of gradients: fp32, bf16 or fp16, got fp8" in said
    assert "products in it are `arithmetic: fp8`" in said


def test_a_training_that_does_not_fit_says_so_and_what_would(folder):
    """Seven billion parameters in bf16 on 64 H100: the file is written, and its commands ignore the memory."""
    chosen = {"model": "llama2-7b", "gpu": "h100", "machines": "8", "gpus_per_machine": "8", "network": "a3mega-h100"}
    output = write("--batch", "1", "--precision", "bf16", method="dense", goal="time", **chosen)
    assert "This training does not fit into memory" in output and "what would help" in output
    assert commands(output)[0] == "sparsim run mine.yaml --ignore-memory"
    refused("run", "mine.yaml")
    answer = answered("run", "mine.yaml", "--ignore-memory")
    assert answer["workers"] == 64 and answer["precision"] == "bf16"
    # 6 FLOPs per parameter and token at the dense bf16 rate of the data sheet take no longer than this.
    assert answer["iteration_time_s"] > 6 * 6.74e9 * 4096 / 989.4e12


def test_four_workers_on_1_gbit_with_several_methods(folder):
    """Each of the methods that are considered has a command that answers whether it pays."""
    output = write(network="1 Gbit/s", method="dgc, powersgd or dense")
    runs = [line for line in commands(output) if line.startswith("sparsim run")]
    answers = [answered(*shlex.split(line)[1:])["comparison"] for line in runs]
    assert [item["kind"] for item in answers] == ["pays", "pays"] and all(item["speed_up"] > 1 for item in answers)
    assert [line.partition("sparsifier=")[2] for line in runs] == ["", "powersgd"]


SHARED = {
    "model": "llama3-8b", "gpu": "h100", "machines": "8", "gpus_per_machine": "8", "network": "8 x 400 Gbit/s",
    "framework": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("mesh", "method", "schedule", "divided"),
    [
        ("fsdp", "dense", {"kind": "fsdp", "shard": None}, {}),
        ("hsdp", "topk 1 %", {"kind": "fsdp", "shard": 8}, {}),
        ("hsdp tp 2", "topk 1 %", {"kind": "fsdp", "shard": 4}, {"tensor": 2}),
        ("hpz", "dense", {"kind": "fsdp", "keep": "node"}, {}),
        ("zero2", "dense", {"kind": "zero", "stage": 2}, {}),
        ("megatron, tp=4 pp=2", "dense", {"kind": "megatron"}, {"tensor": 4, "pipeline": {"stages": 2}}),
        ("megatron cp 2 shard 4", "topk 1 %", {"kind": "megatron", "shard": 4}, {"context": 2}),
    ],
)
def test_a_mesh_is_asked_for_by_its_name(mesh, method, schedule, divided):
    write("--mesh", mesh, "--batch", "2", method=method, goal="time", **SHARED)
    made = load("mine.yaml")
    assert {key: getattr(made.scheduler, key) for key in schedule} == schedule
    assert made.parallelism == Parallelism.model_validate(divided)
    assert made.cluster.runtime.framework == "pytorch-fsdp"
    assert made.workload.micro_batches == (2 if "pipeline" in divided else 1)


@pytest.mark.parametrize(
    ("gpu", "shipped"),
    [
        ("h100", "h100-10-nodes"),
        ("gh200", "h100-10-nodes"),
        ("b200", "400gb-b200-nodes"),
        ("gb300", "400gb-b200-nodes"),
    ],
)
def test_links_inside_a_machine_are_those_of_the_gpu_s_generation(gpu, shipped):
    write("--mesh", "fsdp", method="dense", goal="time", **SHARED | {"gpu": gpu})
    inside, known = load("mine.yaml").cluster.network.intra_node, read_part(f"networks/{shipped}", "networks")
    assert inside.bandwidth == pytest.approx(getattr(known.intra_node, "bandwidth", known.bandwidth), rel=0.01)


@pytest.mark.parametrize(
    ("mesh", "said"),
    [
        ("hsdx", "did you mean 'hsdp'?"),
        ("", "valid: fsdp"),
        ("fsdp tp", "sizes of axes"),
        ("fsdp tp 0", "a whole number from 1 to 131072"),
        ("fsdp dp 8", "got 'fsdp dp 8': axes are tp, cp, pp, ep and shard"),
        ("hsdp tp 8", "several copies in a machine"),
    ],
)
def test_a_mesh_that_there_is_not_is_refused(mesh, said):
    answers = options(method="dense", goal="time", **SHARED)
    assert said in " ".join(refused("new", "mine.yaml", *answers, "--mesh", mesh).split())


def test_local_steps_between_sites_are_compared_with_a_copy_of_the_model_in_each_site():
    several = ("--sites", "2", "--between", "10 Gbit/s, 20 ms", "--mesh", "fsdp", "--local-steps", "100")
    write(*several, method="dense", goal="time", **SHARED)
    made = load("mine.yaml")
    steps = made.scheduler
    assert (steps.inner_steps, steps.inside.kind, made.cluster.network.kind) == (100, "fsdp", "wide_area")
    assert made.versus == {"scheduler": {"kind": "fsdp", "shard": 32}}
    assert answered("run", "mine.yaml")["comparison"]["speed_up"] > 5


def test_local_steps_of_gpus_by_themselves_are_compared_with_the_frameworks_default():
    write("--local-steps", "50", method="dense", goal="time")
    made = load("mine.yaml")
    assert (made.scheduler.kind, made.scheduler.inner_steps, made.scheduler.inside) == ("diloco", 50, None)
    assert made.versus["scheduler"]["kind"] == "bucketed"


HOSTILE = (
    "", " ", "\x00", "-1", "1e9", "💥", "{", "{kind: topk", "[1]", "x" * 5000, "../../etc/passwd", "nan Gbit/s", "1 x",
    "99 x 1 Gbit/s", "topk nan", "topk=3", "topk 1 2 3", "{kind: [topk]}", "powersgd 1e99", "1 Gbit/s, -1 s", "9" * 400,
)  # fmt: skip


def test_hostile_answers_are_read_or_refused_with_a_reason():
    usual = {}
    for question in QUESTIONS:
        for text in HOSTILE:
            try:
                read_answer(question, text, usual)
            except InputError as error:
                assert 0 < len(str(error)) < 2000
        usual[question.key] = read_answer(question, question.default(usual), usual)
