"""Answers to the questions of `sparsim new`, and the scenarios that are made of them."""

import json
import math
import re
import shlex
from pathlib import Path

import pytest
import yaml
from command_line import answered, invoke, printed, refused
from new_scenarios import ANSWERS, commands, options, write

from simulator.component import build
from simulator.errors import InputError
from simulator.hardware.runtime import FRAMEWORKS
from simulator.models.pipeline import Parallelism
from simulator.scenario.named_parts import read_gpu, read_part, read_workload
from simulator.scenario.reading import load
from simulator.schedulers.base import Scheduler
from simulator.sparsifiers.base import Sparsifier
from simulator.studies.start import questions
from simulator.studies.start.answers import Answers, BetweenSites, NamedPart
from simulator.studies.start.draft import draft_files
from simulator.studies.start.questions import QUESTIONS, parse_methods, read_answer
from simulator.studies.start.scenario_text import join_lines


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def drafted(sites=1, between=None, **changes):
    """The files of answers by their names, read as the command reads them, and the commands."""
    given, texts = {}, ANSWERS | {key.replace("_", "-"): text for key, text in changes.items()}
    for question in QUESTIONS:
        given[question.key] = read_answer(question, texts[question.option[2:]], given)
    made = draft_files(Answers(methods=given.pop("method"), sites=sites, between=between, **given), Path("mine.yaml"))
    return {path.name: yaml.safe_load(text) for path, text in made.files.items()}, list(made.commands)


PROPOSED = {
    "h100 1 8": "nvswitch-h100", "a100 1 2": "nvswitch-a100", "v100 1 8": "10gbe-tcp",
    "h100 1 1": "10gbe-tcp-1-per-node", "h100 2 8": "a3mega-h100", "h100 2 4": "10gbe-tcp", "a100 2 8": "10gbe-tcp",
}  # fmt: skip
"""Networks by the GPU, the machines and the GPUs of each."""


@pytest.mark.parametrize("asked", PROPOSED)
def test_the_network_that_is_proposed_joins_such_machines(asked):
    gpu, machines, each = asked.split()
    given = {"gpu": NamedPart(gpu, read_gpu(gpu)), "machines": int(machines), "gpus_per_machine": int(each)}
    (proposed,) = [question.default(given) for question in QUESTIONS if question.key == "network"]
    assert proposed == f"networks/{PROPOSED[asked]}"


def test_the_gpu_and_the_goal_that_are_proposed_follow_from_the_model_and_the_methods():
    proposed = {question.key: question.default for question in QUESTIONS}
    for model, gpu in (("resnet50-v100", "v100-pytorch2"), ("gpt2", "h100")):
        assert proposed["gpu"]({"model": NamedPart(model, read_workload(model))}) == f"gpus/{gpu}"
    for method, goal in (("dense", "time"), ("topk 1 %", "pays"), ("dense, topk 1 %", "method")):
        assert proposed["goal"]({"method": parse_methods("--method", method)}) == goal


def test_from_100_gbit_or_with_10_us_at_the_most_a_network_is_one_of_rdma():
    slow = (("99.9 Gbit/s", 50e-6, False), ("400 Gbit/s, 11 us", 11e-6, False))
    for text, latency, rdma in (*slow, ("100 Gbit/s", 5e-6, True), ("1 Gbit/s, 10 us", 10e-6, True)):
        network = questions.parse_network("--network", text)
        assert (network.latency, questions.is_rdma(network), network.stated) == (
            pytest.approx(latency),
            rdma,
            "," in text,
        )
    assert questions.parse_between("--between", "200 Mbit/s, 0 s") == BetweenSites(25e6, 0.0)


def test_a_comment_stands_above_its_line_where_both_are_longer_than_120_characters():
    """A line is filled up to 44 characters, and `  # ` takes 4 more."""
    assert join_lines(["a: 1", ("  b: 2", "x" * 72)]) == "a: 1\n  b: 2" + " " * 38 + "  # " + "x" * 72 + "\n"
    assert join_lines([("  b: 2", "x" * 73)]) == "  # " + "x" * 73 + "\n  b: 2\n"


@pytest.mark.parametrize(
    ("framework", "network", "method", "scheduler", "topology"),
    [
        ("horovod-0.19", "10gbe-tcp-1-per-node", "dense", "horovod", "nccl"),
        ("horovod-0.19", "10gbe-tcp-1-per-node", "topk 1 %", "wfbp", "nccl"),
        ("byteps-0.2", "10gbe-tcp-1-per-node", "topk 1 %", "byteps", "parameter_server"),
        ("bytescheduler-horovod-0.19", "10gbe-tcp-1-per-node", "dense", "bytescheduler", "nccl"),
        ("pytorch-ddp", "10gbe-mpi-host", "dense", "pytorch-ddp", "mpi"),
        ("gtopksgd-mpi-topk", "1gbe-tcp", "topk 1 %", "wfbp", "mpi"),
    ],
)
def test_gradients_travel_as_the_framework_and_the_network_send_them(framework, network, method, scheduler, topology):
    written = drafted(framework=framework, network=network, method=method)[0]["mine.yaml"]
    offered = FRAMEWORKS[scheduler].schedules[0].scheduler if scheduler in FRAMEWORKS else scheduler
    made = load(written)
    assert made.scheduler == build(Scheduler, offered) and made.topology.kind == topology


def test_a_sweep_goes_from_one_machine_per_site_to_four_times_as_many_as_there_are():
    between = BetweenSites(25e6, 0.04)
    files, named = drafted(2, between, goal="workers", machines="6", network="25 Gbit/s", method="dense, topk 1 %")
    assert files["mine-workers.yaml"]["vary"]["cluster.nodes"] == [2, 4, 6, 8, 16]
    assert files["mine.yaml"]["cluster"]["network"]["nodes_per_leaf"] == 3
    assert named[0] == "sparsim sweep mine-workers.yaml --out mine-workers" and "scaling_efficiency" in named[1]


@pytest.mark.parametrize(("sites", "rate"), [(1, ("1 Gbit/s", "100 Gbit/s")), (2, ("20 Mbit/s", "2 Gbit/s"))])
def test_a_sweep_over_the_bandwidth_goes_from_a_tenth_of_it_to_ten_times(sites, rate):
    """Of several sites it is the way between them whose rate changes."""
    between, key = (BetweenSites(25e6, 0.04), "uplink") if sites > 1 else (None, "bandwidth")
    files, named = drafted(sites, between, goal="bandwidth", network="10 Gbit/s", method="powersgd, topk 1 %")
    vary = files["mine-bandwidth.yaml"]["vary"]
    assert vary[f"cluster.network.{key}"] == {"from": rate[0], "to": rate[1], "scale": "log", "points": 9}
    assert vary["sparsifier"] == [{"kind": "dense"}, {"kind": "powersgd"}, {"kind": "topk", "density": 0.01}]
    assert f"--figure lines --set over=cluster.network.{key} " in named[1]
    assert [line.split()[1] for line in named] == ["sweep", "report", "report", "advise", "run", "run", "explain"]


def test_options_write_a_scenario_that_runs_and_name_the_next_commands(folder):
    output = write()
    assert "written: mine.yaml\n" in output and commands(output)[0] == "sparsim run mine.yaml"
    scenario = load("mine.yaml")
    assert scenario.name == "resnet50, topk 0.01, 4 GPUs over 8.907 Gbit/s"
    assert (scenario.cluster.workers, scenario.sparsifier.kind, scenario.versus) == (4, "topk", "best_dense")
    assert "Does topk 0.01 pay for resnet50 on 4 GPUs over 8.907 Gbit/s?" in printed("run", "mine.yaml")


def test_every_line_of_the_file_is_explained_and_none_is_too_long(folder):
    write("--sites", "2", "--between", "200 Mbit/s, 40 ms", gpu="gpus/a100", network="25 Gbit/s", precision="bf16")
    text = (folder / "mine.yaml").read_text()
    assert "  # Times stay those of the profile, which are of fp32: give compute_time.\n" in text
    lines = [line for line in text.splitlines() if "#" in line and not line.lstrip().startswith("#")]
    assert max(map(len, text.splitlines())) <= 120
    # All comments stand in one column, but for those of lines that reach beyond it.
    assert {line.index("#") for line in lines if len(line.partition("#")[0].rstrip()) <= 44} == {46}
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


@pytest.mark.parametrize("asked", ["fp32", "fp16"])
def test_a_precision_that_is_asked_for_is_that_of_the_scenario(folder, asked):
    """The model comes in bf16."""
    write(
        "--mesh", "fsdp", "--precision", asked, model="llama3-8b", gpu="h100", method="dense", framework="pytorch-fsdp"
    )
    assert load("mine.yaml").workload.precision.gradients == asked


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
def test_a_goal_that_needs_many_runs_writes_a_sweep_that_runs(folder, goal):
    write(goal=goal, machines=2)
    assert ", 0 failed" in printed("sweep", f"mine-{goal}.yaml", "--out", folder / "swept", "--workers", "1")


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


SHARED = {
    "model": "llama3-8b", "gpu": "h100", "machines": "8", "gpus_per_machine": "8", "network": "8 x 400 Gbit/s",
    "framework": None,
}  # fmt: skip


def test_products_in_fp8_have_gradients_in_bf16():
    write("--mesh", "fsdp", "--precision", "fp8", method="dense", goal="time", **SHARED)
    workload = load("mine.yaml").workload
    assert (workload.origin.architecture.arithmetic, workload.precision.gradients) == ("fp8", "bf16")
    said = refused("run", "mine.yaml", "--set", "workload.precision=fp8")
    assert "workload.precision: expected a format of gradients: fp32, bf16 or fp16, got fp8" in said
    assert "products in it are `arithmetic: fp8`" in said


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


@pytest.mark.parametrize(
    "framework", ["horovod-0.19", "runtimes/byteps-0.2", "bytescheduler-horovod-0.19", "runtimes/ideal"]
)
@pytest.mark.parametrize("method", ["dense", "topk 0.1 %"])
def test_every_framework_gives_a_scenario_that_runs(folder, framework, method):
    write(framework=framework, method=method, machines=2)
    printed("run", "mine.yaml")
