"""A first scenario of one's own: its files, checked before they are written, and what to do with them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from simulator.architectures.describing import recompute_fully
from simulator.errors import InputError, Problem
from simulator.files import write_text
from simulator.hardware.widths import measured_elsewhere, same_device
from simulator.loading.documents import parse_document, read_document
from simulator.loading.finding import named_file
from simulator.models.layers import Workload
from simulator.prediction.memory import memory_of, refuse_what_does_not_fit
from simulator.prediction.run import plan_of, run
from simulator.records import Record, replace
from simulator.scenario.named_parts import shipped_gpus
from simulator.scenario.reading import scenario_of
from simulator.scenario.scenario import Scenario
from simulator.scenario.titles import make_title
from simulator.schedulers.sharded import Sharded
from simulator.studies.start.answers import Answers, Machines, NamedPart
from simulator.studies.start.scenario_text import (
    Line,
    exactly,
    flow,
    join_lines,
    network_lines,
    scenario_text,
    speed_ratio,
)
from simulator.studies.start.training_files import Blocks
from simulator.units import count_of, show_bandwidth


class Draft(Record):
    """Texts by the path that they are written to, the scenario first, and the next commands, each with what it does.

    `notes`: what has to be known before, such as that the training does not fit into the GPU's memory.
    """

    files: dict[Path, str]
    commands: dict[str, str]
    notes: tuple[str, ...] = ()


def draft_files(answers: Answers, path: Path) -> Draft:
    """The files for a question, which are not written yet: the scenario at `path`, and a sweep where one answers it.

    Raises InputError where the answers contradict each other, or the scenario cannot run.
    """
    commands = dict(_commands(answers, path))
    scenario = _check(scenario_text(answers, commands), path)
    notes, _ = _find_memory_problems(scenario)
    if notes:
        lean = scenario.model_copy(update={"workload": recompute_fully(scenario.workload)})
        others, fits = _find_memory_problems(lean)
        if others:
            commands = _without_memory(commands)
        else:
            notes = (f"{notes[0]}; with `recompute: full`, which the file says, it {'fits' if fits else 'may fit'}",)
            answers = replace(answers, recompute=True)
            scenario = _check(scenario_text(answers, commands), path)
    derived = _derive_compute_time(answers, scenario)
    text = scenario_text(answers, commands, derived)
    if derived is not None:
        _check(text, path)
    files = {path: text}
    if answers.goal in ("workers", "bandwidth"):
        files[_sweep_path(answers, path)] = _sweep_text(answers, path)
    return Draft(files, commands, notes)


def _find_memory_problems(scenario: Scenario) -> tuple[tuple[str, ...], bool]:
    """Why the training cannot fit into the memory of its GPUs, and what would help; and whether it surely fits."""
    memory = memory_of(scenario, plan_of(scenario))
    try:
        refuse_what_does_not_fit(scenario, memory)
    except InputError as error:
        first, *others = (str(Problem("", item.expected, item.got, item.hint)) for item in error.problems)
        return (f"This training does not fit into memory: {first}", *others), False
    return (), memory.fits is True


def draft_from(
    blocks: Blocks, path: Path, machines: Machines, gpus: int | None, model: NamedPart[Workload] | None
) -> Draft:
    """The scenario at `path`, of what the configuration of another program states and of what it leaves to others.

    `gpus`, of the job, and `model` count where it states none. Raises InputError where there is none then, or where
    the scenario cannot run.
    """
    lines = {"workload.name": (path.stem, "name of this file"), **blocks.lines}
    if "workload.model" not in lines:
        if model is None:
            what = f"the model, which this configuration of {blocks.program} leaves out"
            raise InputError(Problem("--model", what, "nothing"))
        lines = {"workload.trace": (model.name, "--model"), **blocks.lines}
    if not {"cluster.nodes", "cluster.gpus_per_node"} <= lines.keys():
        each = machines.gpus_per_machine
        if gpus is None or gpus % each:
            got = "nothing" if gpus is None else str(gpus)
            raise InputError(Problem("--gpus", f"the GPUs of the job, a multiple of the {each} of a machine", got))
        lines |= {"cluster.nodes": (gpus // each, "--gpus"), "cluster.gpus_per_node": (each, "--gpus-per-machine")}
    given, scheduler = blocks.parts, blocks.parts.get("scheduler")
    compressed = "sparsifier" in given or any(getattr(scheduler, wire, None) for wire in ("gather_wire", "reduce_wire"))
    machines = replace(machines, gpus_per_machine=lines["cluster.gpus_per_node"][0])
    sharded = isinstance(getattr(scheduler, "inside", None) or scheduler, Sharded)
    runtime, why = f"runtimes/pytorch-{'fsdp' if sharded else 'ddp'}", "assumption"
    if blocks.compiled:
        costs = read_document(named_file(runtime, "configs")).data
        why = f"{runtime}, with fused kernels"
        runtime = flow({key: value for key, value in costs.items() if key != "source"} | {"element_wise": "compiled"})
    blocks = replace(blocks, lines=lines)
    written = [
        *blocks.comments(),
        *blocks.yaml_lines("workload", "cluster"),
        (f"  gpu: {machines.gpu.name}", machines.gpu.read.name),
        *network_lines(machines),
        (f"  runtime: {runtime}", why),
        "topology: nccl",
        *blocks.yaml_lines("parallelism", "scheduler", "sparsifier"),
        *([] if scheduler else ["scheduler: bucketed"]),
        *([] if "sparsifier" in given else ["sparsifier: dense"]),
        *(["versus: best_dense"] if compressed else []),
    ]
    text = join_lines(written)
    notes, _ = _find_memory_problems(_check(text, path))
    commands = {f"sparsim {command} {shlex.quote(str(path))}": what for command, what in _NEXT.items()}
    return Draft({path: text}, _without_memory(commands) if notes else commands, notes)


_NEXT = {
    "run": "how long an iteration takes, and where the time goes",
    "advise": "the fastest method, and where dense begins to win",
    "explain": "every term with its formula, and what would change it",
}
"""Commands, and what each answers."""
_REFUSING = ("run", "sweep", "explain", "advise")
"""Commands that refuse a training that does not fit into memory."""


def _without_memory(commands: Mapping[str, str]) -> dict[str, str]:
    """Commands as they are typed where the training does not fit into memory."""
    options = {command: " --ignore-memory" * (command.split()[1] in _REFUSING) for command in commands}
    return {f"{command}{options[command]}": what for command, what in commands.items()}


def write_files(draft: Draft, force: bool) -> None:
    """Write the files of a draft. Raises InputError, and writes none, where one exists and `force` is not set."""
    existing = [path for path in draft.files if path.exists()]
    if existing and not force:
        raise InputError([Problem(str(path), "a new file", "one that exists", "--force") for path in existing])
    for path, text in draft.files.items():
        write_text(path, text)


def _check(text: str, path: Path) -> Scenario:
    """The scenario of a text, planned as `sparsim check` does. Raises InputError where it cannot run."""
    document = parse_document(text, str(path))
    scenario = scenario_of(document.data, document, path.parent)
    scenario = scenario.model_copy(update={"name": make_title(scenario)})
    plan_of(scenario)
    return scenario


def _derive_compute_time(answers: Answers, scenario: Scenario) -> float | None:
    """Seconds of a step of one GPU, from those of the GPU that the model was timed on; None where they are known.

    Forward and backward change by the ratio of the data sheets; the update is already priced on this GPU.
    """
    workload, gpu = scenario.workload, answers.gpu.read
    if scenario.workload.compute_time is not None or not measured_elsewhere(workload, gpu):
        return None
    device = answers.model.read.device
    timed_on = next((each for each in shipped_gpus().values() if same_device(each.device, device)), None)
    ratio = None if timed_on is None else speed_ratio(gpu, timed_on)
    if ratio is None:
        return None
    alone = scenario.cluster.model_copy(update={"nodes": 1, "gpus_per_node": 1, "other_gpus": ()})
    single = scenario.model_copy(update={"cluster": alone, "ignore_memory": True})
    update = run(single, intervals=False).result.breakdown["update"]
    queued = workload.queued()
    return float((queued.forward_time + queued.backward_time) * ratio + update)


def _commands(answers: Answers, path: Path) -> Iterator[tuple[str, str]]:
    file, dense = shlex.quote(str(path)), answers.method["kind"] == "dense"
    if answers.goal in ("workers", "bandwidth"):
        sweep = _sweep_path(answers, path)
        name, out = shlex.quote(str(sweep)), shlex.quote(str(sweep.with_suffix("")))
        yield f"sparsim sweep {name} --out {out}", "predict all points"
        over = f"cluster.network.{'uplink' if answers.sites > 1 else 'bandwidth'}"
        kind = "scaling_efficiency" if answers.goal == "workers" else f"lines --set over={over}"
        yield f"sparsim report {out} --figure {kind} -o {shlex.quote(path.stem)}.png", "draw them"
        yield f"sparsim report {out} -o {shlex.quote(path.stem)}.html", "look at them in a browser"
    first = _NEXT["run"] if dense else "whether it pays, and why"
    advise = (f"sparsim advise {file}", _NEXT["advise"])
    if answers.goal in ("method", "bandwidth"):
        yield advise
    yield f"sparsim run {file}", first
    for item in answers.methods:
        if item is not answers.method and item["kind"] != "dense":
            yield f"sparsim run {file} --set sparsifier={shlex.quote(flow(dict(item)))}", "the same for this method"
    if answers.goal not in ("method", "bandwidth"):
        yield advise
    yield f"sparsim explain {file}", _NEXT["explain"]


def _sweep_path(answers: Answers, path: Path) -> Path:
    return path.with_name(f"{path.stem}-{answers.goal}.yaml")


def _sweep_text(answers: Answers, path: Path) -> str:
    dense = [] if any(item["kind"] == "dense" for item in answers.methods) else [{"kind": "dense"}]
    what = "number of machines" if answers.goal == "workers" else "bandwidth"
    lines: list[Line] = [f"name: {path.stem}, by method and {what}", f"base: {path.name}", "vary:"]
    lines.append(f"  sparsifier: {flow([*dense, *map(dict, answers.methods)])}")
    if answers.goal == "workers":
        # From one per site to four times as many as there are, each twice the last.
        twice = (answers.sites * 2**power for power in range(12))
        counts = sorted({answers.sites, answers.machines, *(each for each in twice if each <= 4 * answers.machines)})
        lines.append((f"  cluster.nodes: {counts}", f"machines of {count_of(answers.gpus_per_machine, 'GPU')}"))
    else:
        key, way = ("bandwidth", answers.network) if answers.between is None else ("uplink", answers.between)
        low, high = (exactly(end, show_bandwidth) for end in (way.bandwidth / 10, way.bandwidth * 10))
        ends = f"{{from: {low}, to: {high}, scale: log, points: 9}}"
        lines.append((f"  cluster.network.{key}: {ends}", "a tenth to ten times of what you have"))
    return join_lines(lines)
