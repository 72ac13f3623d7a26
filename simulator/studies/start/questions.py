"""The eight questions that a first scenario is written from: choices, defaults, and what an answer means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from simulator.component import discover
from simulator.errors import InputError, Problem
from simulator.hardware.compute_widths import same_device
from simulator.loading.finding import find_file, known_names
from simulator.scenario.cluster import MAX_WORKERS
from simulator.scenario.named_parts import read_gpu, read_part, read_workload
from simulator.scenario.shipped import list_shipped
from simulator.sparsifiers.base import Sparsifier
from simulator.studies.start.answers import GOALS, NamedPart
from simulator.studies.start.parsing import find_name, parse_methods, parse_network, parse_number
from simulator.units import show_bandwidth, show_memory, show_time

Given = Mapping[str, Any]
"""Answers so far, by question."""


class MenuEntry(NamedTuple):
    """Something that can be chosen, and what it is."""

    value: str
    what: str = ""


class Question(NamedTuple):
    """A question: its option, its words, what may be typed besides a choice, and its functions of the answers so far.

    `read` makes an answer of a text, or raises InputError with the reason.
    """

    key: str
    words: str
    also: str
    choices: Callable[[Given], list[MenuEntry]]
    default: Callable[[Given], str]
    read: Callable[[str, Given], Any]

    @property
    def option(self) -> str:
        """The option of the command that answers it."""
        return f"--{self.key.replace('_', '-')}"


def _menu(folder: str, tell: Callable[[Mapping[str, Any]], str]) -> Callable[[Given], list[MenuEntry]]:
    """The files of a folder, each with what `tell` says of its record, or with why it cannot be read."""
    return lambda _: [MenuEntry(item["name"], item.get("error") or tell(item)) for item in list_shipped(folder)]


def read_named(option: str, folder: str) -> Callable[[str, Given], NamedPart[Any]]:
    """How the answer to an option is read that is a file, or the name of one in a folder.

    What is returned raises InputError where there is none, or where it cannot be read.
    """

    def read(text: str, _: Given) -> NamedPart[Any]:
        name = text.strip()
        if find_file(name, None) is None:
            name = find_name(option, text, known_names(folder))
        return NamedPart(name, read_workload(name) if folder == "workloads" else read_part(name, folder))

    return read


def _tell_workload(item: Mapping[str, Any]) -> str:
    return f"{item['parameters'] / 1e6:,.4g} M parameters, batch {item['batch_size']:,}, {item['device']}"


def _tell_gpu(item: Mapping[str, Any]) -> str:
    memory, rate = item["memory_bytes"], item["memory_bandwidth_bytes_per_s"]
    said = (item["what"], memory and show_memory(memory), rate and f"{rate / 1e9:.4g} GB/s")
    return ", ".join(text for text in said if text)


def _tell_network(item: Mapping[str, Any]) -> str:
    return f"{show_bandwidth(item['bandwidth_bytes_per_s'])}, {show_time(item['latency_s'])}: {item['what']}"


def _usual_gpu(given: Given) -> str:
    """The GPU that the model was timed on, with the newest software."""
    device = given["model"].read.device
    names = [item["name"] for item in list_shipped("gpus")] if device else []
    found = [
        name for name in names if same_device(device, (gpu := read_gpu(name)).device) and gpu.framework == "pytorch"
    ]
    return found[0] if found else "gpus/h100"


def _usual_network(given: Given) -> str:
    device, many = given["gpu"].read.device.lower(), given["gpus_per_machine"] > 1
    for model in ("h100", "a100"):
        if model in device and given["machines"] == 1 and many:
            return f"networks/nvswitch-{model}"
    if "h100" in device and given["gpus_per_machine"] == 8:
        return "networks/a3mega-h100"
    return "networks/10gbe-tcp" if many else "networks/10gbe-tcp-1-per-node"


def _methods(_: Given) -> list[MenuEntry]:
    members = discover(Sparsifier)
    return [MenuEntry(kind, members[kind].summary().partition(": ")[0].rstrip(".")) for kind in sorted(members)]


def _usual_goal(given: Given) -> str:
    methods = given["method"]
    if all(item["kind"] == "dense" for item in methods):
        return "time"
    return "method" if len(methods) > 1 else "pays"


def _no_choices(_: Given) -> list[MenuEntry]:
    return []


_LONGEST = 500
"""Most characters of an answer."""
QUESTIONS: tuple[Question, ...] = (
    Question(
        "model", "What do you train?", "a workload's file, or your own as FILE.py:FUNCTION",
        _menu("workloads", _tell_workload), lambda _: "workloads/resnet50-v100", read_named("--model", "workloads"),
    ),
    Question(
        "gpu", "On which GPU?", "a file", _menu("gpus", _tell_gpu), _usual_gpu, read_named("--gpu", "gpus")
    ),
    Question(
        "machines", "How many machines?", "", _no_choices, lambda _: "4",
        lambda text, _: parse_number("--machines", text, MAX_WORKERS),
    ),
    Question(
        "gpus_per_machine", "How many GPUs in each machine?", "", _no_choices, lambda _: "1",
        lambda text, _: parse_number("--gpus-per-machine", text, 1024),
    ),
    Question(
        "network", "Which network?", "a rate: 25 Gbit/s, with latency 25 Gbit/s, 20 us, with NICs 8 x 400 Gbit/s",
        _menu("networks", _tell_network), _usual_network, lambda text, _: parse_network("--network", text),
    ),
    Question(
        "framework", "Which framework?", "a file",
        _menu("runtimes", lambda item: str(item["what"])), lambda _: "runtimes/pytorch-ddp",
        read_named("--framework", "runtimes"),
    ),
    Question(
        "method", "What do you consider?", "a density with it, topk 1 %; or several: dgc 0.1 %, powersgd, dense",
        _methods, lambda _: "topk 1 %", lambda text, _: parse_methods("--method", text),
    ),
    Question(
        "goal", "What do you want to know?", "",
        lambda _: [MenuEntry(key, words) for key, words in GOALS.items()], _usual_goal,
        lambda text, _: find_name("--goal", text, tuple(GOALS)),
    ),
)  # fmt: skip


def read_answer(question: Question, text: str, given: Given) -> Any:
    """The answer that a text gives: a number of the list of choices, or what `read` accepts.

    Raises InputError with the reason.
    """
    if len(text) > _LONGEST:
        raise InputError(Problem(question.option, f"at most {_LONGEST} characters", f"{len(text)} of them"))
    number = text.strip()
    choices = question.choices(given) if number.isdecimal() else []
    if choices and 1 <= int(number) <= len(choices):
        return question.read(choices[int(number) - 1].value, given)
    return question.read(text, given)
