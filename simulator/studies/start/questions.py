"""The eight questions that a first scenario is written from: choices, defaults, and what an answer means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from simulator.component import discover
from simulator.errors import InputError, Problem
from simulator.hardware.compute_widths import same_device
from simulator.loading.finding import find_file, known_names
from simulator.scenario.cluster import MAX_WORKERS
from simulator.scenario.named_parts import read_gpu, read_runtime
from simulator.scenario.shipped import list_shipped
from simulator.scenario.workload_reading import read_workload
from simulator.sparsifiers.base import Sparsifier
from simulator.studies.start.answers import GOALS
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


class NamedPart(NamedTuple):
    """A part of a scenario by its name, and what that name stands for."""

    name: str
    read: Any


def _workloads(_: Given) -> list[MenuEntry]:
    return [
        MenuEntry(
            item["name"],
            item.get("error")
            or f"{item['parameters'] / 1e6:,.4g} M parameters, batch {item['batch_size']:,}, {item['device']}",
        )
        for item in list_shipped("workloads")
    ]


def _read_model(text: str, _: Given) -> NamedPart:
    name = text.strip()
    if find_file(name, None) is None:
        name = find_name("--model", text, known_names("workloads"))
    return NamedPart(name, read_workload(name))


def _gpus(_: Given) -> list[MenuEntry]:
    return [
        MenuEntry(
            item["name"],
            item.get("error")
            or ", ".join(
                [
                    item["what"],
                    *([f"{show_memory(item['memory_bytes'])}"] if item["memory_bytes"] else []),
                    *(
                        [f"{item['memory_bandwidth_bytes_per_s'] / 1e9:.4g} GB/s"]
                        if item["memory_bandwidth_bytes_per_s"]
                        else []
                    ),
                ]
            ),
        )
        for item in list_shipped("gpus")
    ]


def _usual_gpu(given: Given) -> str:
    """The GPU that the model was timed on, with the newest software."""
    device = given["model"].read.device
    names = [item["name"] for item in list_shipped("gpus")] if device else []
    found = [
        name for name in names if same_device(device, (gpu := read_gpu(name)).device) and gpu.framework == "pytorch"
    ]
    return found[0] if found else "gpus/h100"


def _read_gpu(text: str, _: Given) -> NamedPart:
    name = text.strip() if find_file(text.strip(), None) else find_name("--gpu", text, known_names("gpus"))
    return NamedPart(name, read_gpu(name))


def _networks(_: Given) -> list[MenuEntry]:
    return [
        MenuEntry(
            item["name"],
            item.get("error")
            or f"{show_bandwidth(item['bandwidth_bytes_per_s'])}, {show_time(item['latency_s'])}: {item['what']}",
        )
        for item in list_shipped("networks")
    ]


def _usual_network(given: Given) -> str:
    device, many = given["gpu"].read.device.lower(), given["gpus_per_machine"] > 1
    for model in ("h100", "a100"):
        if model in device and given["machines"] == 1 and many:
            return f"networks/nvswitch-{model}"
    if "h100" in device and given["gpus_per_machine"] == 8:
        return "networks/a3mega-h100"
    return "networks/10gbe-tcp" if many else "networks/10gbe-tcp-1-per-node"


def _runtimes(_: Given) -> list[MenuEntry]:
    return [MenuEntry(item["name"], item.get("error") or item["what"]) for item in list_shipped("runtimes")]


def _read_framework(text: str, _: Given) -> NamedPart:
    name = text.strip() if find_file(text.strip(), None) else find_name("--framework", text, known_names("runtimes"))
    return NamedPart(name, read_runtime(name))


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
        _workloads, lambda _: "workloads/resnet50-v100", _read_model,
    ),
    Question("gpu", "On which GPU?", "a file", _gpus, _usual_gpu, _read_gpu),
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
        _networks, _usual_network, lambda text, _: parse_network("--network", text),
    ),
    Question(
        "framework", "Which framework?", "a file", _runtimes, lambda _: "runtimes/pytorch-ddp", _read_framework
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


def read_slow_gpu(text: str) -> NamedPart:
    """The GPU of the slow machines. Raises InputError where there is none of this name."""
    try:
        return _read_gpu(text, {})
    except InputError as error:
        raise InputError(
            [
                Problem(item.where.replace("--gpu", "--slow-gpu"), item.expected, item.got, item.hint)
                for item in error.problems
            ]
        ) from None
