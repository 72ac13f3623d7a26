"""`sparsim new`: a first scenario of one's own, from questions, options or another program's file; a first method."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click
from click.shell_completion import CompletionItem

from simulator.cli.arguments import Count, FileName, GpuName, ModelName, Shape, values_of
from simulator.cli.root import line_width, main, say
from simulator.cli.signatures import command, written
from simulator.errors import InputError, Problem

if TYPE_CHECKING:
    from simulator.studies.start.questions import Question

_STEPS = 10, 3
"""Steps of a model of the user's own that are timed, and those before them."""

_STATED = ("batch", "precision", "lora", "sites", "slow_machines", "local_steps")
"""Options that are answers as they are."""
_GOALS = ("pays", "method", "time", "workers", "bandwidth")


def _complete_method(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    return [kind for kind in values_of("sparsifier.kind") if kind.startswith(incomplete)]


def _complete_goal(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """What a person may want to know; the test compares it with `simulator.studies.start`, which is slow to import."""
    return [goal for goal in _GOALS if goal.startswith(incomplete)]


class _NewFile(click.Path):
    """A file to write, which completes to the commands of the group as well."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Commands that begin with the text; any file where there are none."""
        return ctx.command.shell_complete(ctx, incomplete) or super().shell_complete(ctx, param, incomplete)


@main.group(invoke_without_command=True, subcommand_metavar="| COMMAND [ARGS]...")
def new(
    path: Annotated[Path, _NewFile(dir_okay=False, path_type=Path), "[FILE.yaml]"] = Path("mine.yaml"),
    *,
    model: Annotated[ModelName | None, "One of `sparsim list workloads`, a file, or your own: FILE.py:FUNCTION."],
    gpu: Annotated[GpuName | None, "A GPU of `sparsim list gpus`, or a file."],
    machines: Annotated[str | None, "How many machines, of all sites together."],
    gpus_per_machine: Annotated[str | None, "How many GPUs each of them has."],
    network: Annotated[
        str | None,
        FileName("network", "networks"),
        "One of `sparsim list networks`, a file, or a rate: '25 Gbit/s', '25 Gbit/s, 20 us', '8 x 400 Gbit/s'.",
    ],
    framework: Annotated[str | None, FileName("framework", "runtimes"), "One of `sparsim list runtimes`."],
    method: Annotated[
        str | None,
        "What you consider: 'topk 1 %', 'dgc 0.1 %, powersgd, dense'.",
        written(shell_complete=_complete_method),
    ],
    goal: Annotated[
        str | None,
        "pays, method, time, workers or bandwidth: what you want to know.",
        written(shell_complete=_complete_goal),
    ],
    shape: Shape = "",
    batch: Annotated[Count | None, "Samples per GPU and iteration.  [default: the workload's]"],
    compute_time: Annotated[str | None, "Measured step of one GPU: forward, backward and update, such as '120 ms'."],
    precision: Annotated[
        Literal["fp32", "bf16", "fp16", "fp8"] | None,
        "Format of the gradients; fp8: of the products of a described model.",
    ],
    lora: Annotated[Count | None, "Rank of the adapters that alone are trained (LoRA), of a transformer."],
    mesh: Annotated[
        str | None,
        "How GPUs share the model: fsdp, hsdp, hpz, zero1, zero2, zero3, megatron; with axes: 'hsdp tp 2 pp 4'.",
    ],
    local_steps: Annotated[Count | None, "Steps between two exchanges, of machines or sites by themselves (DiLoCo)."],
    sites: Annotated[int, click.IntRange(1, 64), "Places with machines."] = 1,
    between: Annotated[str | None, "Rate and round trip between two sites: '200 Mbit/s, 40 ms'."],
    slow_gpu: Annotated[GpuName | None, "Another GPU, of the last --slow-machines machines."],
    slow_machines: Annotated[Count, "How many have it."] = 1,
    force: Annotated[bool, "Overwrite files that exist."],
) -> None:
    """Write a scenario of your own.

    Asks eight questions, each with a list and a default; options answer them in advance. Writes a YAML file with
    comments, after a test that it runs, and prints what to type next. Where there is no terminal, all eight options are
    needed.

    Examples:
        sparsim new
        sparsim new mine.yaml --model resnet50-v100 --gpu t4 --machines 4 --gpus-per-machine 1 --network '1 Gbit/s' \
--framework pytorch-ddp --method 'dgc, powersgd, dense' --goal pays
        sparsim new hsdp.yaml --model llama3-8b --gpu h100 --machines 8 --gpus-per-machine 8 --network '100 Gbit/s' \
--mesh hsdp --method 'topk 1 %' --goal pays
    """
    from simulator.studies.start.draft import draft_files
    from simulator.studies.start.questions import QUESTIONS

    _refuse_name(path, force)
    options = click.get_current_context().params
    if mesh is not None and framework is None:
        options["framework"] = "pytorch-fsdp"
    missing = [item for item in QUESTIONS if options[item.key] is None]
    if missing and not _is_terminal():
        raise InputError(
            [Problem(item.option, "this option, where nobody can be asked", "nothing", item.words) for item in missing]
        )
    if missing:
        click.echo("Enter takes what stands in brackets. See --help for several sites or a slow GPU.")
    given: dict[str, Any] = {}
    for number, question in enumerate(QUESTIONS, 1):
        text = options[question.key]
        read = _ask(question, number, given, options) if text is None else _read(question, text, given, options)
        given[question.key] = read
    _write(draft_files(_answers(given, options), path), force)


def _refuse_name(path: Path, force: bool) -> None:
    if path.exists() and not force:
        raise InputError(Problem(str(path), "a new file", "one that exists", "give another name, or --force"))
    if path.suffix not in (".yaml", ".yml"):
        raise InputError(Problem("FILE.yaml", "a name that ends with .yaml", f"'{path}'"))


def _write(draft: Any, force: bool) -> None:
    """Write the files of a draft, and print what to know and what to type next."""
    from simulator.studies.start.draft import write_files

    write_files(draft, force)
    click.echo(f"written: {', '.join(map(str, draft.files))}")
    for note in draft.notes:
        say(f"\n{note}")
    click.echo("\nnext:")
    widest = max((len(line) for line in draft.commands if len(line) < 50), default=0)
    for line, what in draft.commands.items():
        beside = f"  {line:<{widest}}  # {what}"
        click.echo(beside if len(beside) <= line_width() else f"  # {what}\n  {line}")


@command(new)
def new_method(
    name: Annotated[str, "NAME"],
    *,
    out: Annotated[Path | None, click.Path(path_type=Path), "Folder to write.  [default: NAME]"],
) -> None:
    """Write a method of your own.

    A package with one sparsifier that works, its entry point and its test. NAME is the `kind` by which scenarios name
    it. Replace the rule in its `choose`, and what follows from it.

    Examples:
        sparsim new method every_other
    """
    from simulator.studies.start.method_files import write_method

    folder = out or Path(name)
    files = write_method(name, folder)
    click.echo(f"written into {folder}: {', '.join(file.name for file in files)}\n\nnext:")
    click.echo(f"  pip install -e {folder}  # makes the kind known to sparsim")
    click.echo(f"  pytest {folder}")
    click.echo(f"  sparsim run quickstart --set sparsifier='{{kind: {name}, density: 1 %}}'")


@command(new)
def new_from(
    file: Path,
    *,
    gpus: Annotated[Count | None, "GPUs of the job, where the file leaves them to its launcher."],
    out: Annotated[Path | None, click.Path(path_type=Path), "YAML file to write, a whole scenario."],
    gpu: Annotated[GpuName | None, "Its GPU."],
    network: Annotated[str | None, FileName("network", "networks"), "Its network: a name, a file, or a rate."],
    gpus_per_machine: Annotated[Count, "GPUs of each machine, where FILE does not say."] = 8,
    model: Annotated[ModelName | None, "Its model, where FILE has no sizes of one."],
    force: Annotated[bool, "Overwrite a file that exists."],
) -> None:
    """Read the configuration of another program.

    Prints what it says of a scenario: blocks workload, parallelism, scheduler and so on, to put into one, with the key
    that each line comes from; comments name what was not read. With --out a whole scenario is written, after a
    test that it runs.

    FILE is a configuration of DeepSpeed (JSON), Megatron-LM (a script with its options), torchtitan (TOML, or Python:
    FILE.py:FUNCTION), Accelerate or MaxText (YAML), or a script in Python that calls DiLoCo or LocalSGD of torchft. It
    is recognised by what stands in it, and never run.

    Examples:
        sparsim new from diloco_180m.toml
        sparsim new from ds_config.json --gpus 64
        sparsim new from ds_config.json --out zero.yaml --gpus 64 --model llama3-8b --gpu h100 --network '100 Gbit/s'
    """
    from simulator.studies.start.training_files import read_blocks

    blocks = read_blocks(file, gpus)
    if out is None:
        if gpu or network or model:
            what = "the file of the scenario, for --gpu, --network and --model"
            raise InputError(Problem("--out", what, "nothing"))
        click.echo(blocks.text(), nl=False)
        return
    from simulator.studies.start.answers import Machines
    from simulator.studies.start.draft import draft_from
    from simulator.studies.start.questions import parse_network, read_named

    _refuse_name(out, force)
    if gpu is None or network is None:
        options = {"--gpu": gpu, "--network": network}
        missing = [
            Problem(option, "this option, with --out", "nothing") for option in options if options[option] is None
        ]
        raise InputError(missing)
    named = read_named("--model", "workloads")(model, {}) if model else None
    machines = Machines(read_named("--gpu", "gpus")(gpu, {}), gpus_per_machine, parse_network("--network", network))
    _write(draft_from(blocks, out, machines, gpus, named), force)


def _answers(given: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    from simulator.studies.start.answers import Answers
    from simulator.studies.start.questions import OPTIONAL

    stated = {key: options[key] for key in (*_STATED, *OPTIONAL) if options[key] is not None}
    if (stated["sites"] > 1) != ("between" in stated):
        what, got = ("--sites", "one site") if "between" in stated else ("--between", "nothing")
        hint = "two sites and the way between them: --sites 2 --between '200 Mbit/s, 40 ms'"
        raise InputError(Problem(what, "both --sites and --between", got, hint))
    stated |= {key: read(stated[key], given) for key, read in OPTIONAL.items() if key in stated}
    if "slow_gpu" in stated and stated["slow_machines"] >= given["machines"]:
        got = f"{stated['slow_machines']} of {given['machines']}"
        raise InputError(Problem("--slow-machines", "fewer than all machines", got))
    return Answers(methods=given["method"], **{key: each for key, each in given.items() if key != "method"}, **stated)


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _read(question: Question, text: str, given: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """The answer that a text gives; a model of the user's own is written beside the scenario."""
    from simulator.studies.start.answers import NamedPart
    from simulator.studies.start.questions import read_answer

    if question.key == "model" and ":" in text:
        from simulator.scenario.named_parts import read_workload

        written = _write_own(text.strip(), options)
        return NamedPart(written.stem, read_workload(str(written)))
    if question.key == "model" and options["shape"]:
        raise click.UsageError("--input belongs to a model of your own: --model FILE.py:FUNCTION")
    return read_answer(question, text, given)


def _write_own(model: str, options: Mapping[str, Any]) -> Path:
    """Write the workload of a model of the user's own, and return its path.

    Its layers are timed where this machine has a GPU; elsewhere it is described, so that its times are estimated.
    """
    from simulator.record.environment import device_of, need_torch

    need_torch(f"new --model {model}")
    name = Path(model.rpartition(":")[2]).stem
    folder: Path = options["path"].parent
    path = folder / f"{name}.yaml"
    if path.exists() and not options["force"]:
        raise InputError(Problem(str(path), "a new file", "one that exists", "--force"))
    device, batch, shape = device_of("auto"), options["batch"], options["shape"]
    if device == "cpu":
        from simulator.architectures.describing import write_workload
        from simulator.record.meta import describe_model

        write_workload(path, describe_model(model, shape or None, batch))
        return path
    from simulator.record.layers import profile
    from simulator.record.layers import write_workload as write_profile
    from simulator.record.models import task_of

    click.echo(f"timing the layers of {model} on {device} ...", err=True)
    made = profile(task_of(model, device, batch, 0, shape), device, *_STEPS)
    return write_profile(folder, name, model, made, device)


def _ask(question: Question, number: int, given: Mapping[str, Any], options: Mapping[str, Any]) -> Any:
    """Ask until the answer can be read; what is wrong with one is said before the next."""
    click.echo(f"\n{number} of 8  {question.words}")
    choices = question.choices(given)
    widest = max((len(choice.value) for choice in choices), default=0)
    for place, choice in enumerate(choices, 1):
        what = textwrap.shorten(choice.what, max(line_width() - 8 - widest, 20), placeholder=" ...")
        click.echo(f"  {place:2}  {choice.value:<{widest}}  {what}".rstrip())
    how = [*(["a number", "a name"] if choices else []), *([question.also] if question.also else [])]
    if how:
        click.echo(f"  {', '.join(how[:-1])} or {how[-1]}")
    while True:
        text = click.prompt(" ", default=question.default(given), prompt_suffix="> ")
        try:
            return _read(question, text, given, options)
        except InputError as error:
            click.echo(str(error))
