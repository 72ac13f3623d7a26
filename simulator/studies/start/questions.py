"""The eight questions that a first scenario is written from: choices, defaults, and what an answer means."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from simulator.aliases import explain, file_of, kind_of
from simulator.component import build, discover, explain_unknown_kind, find_member
from simulator.errors import InputError, Problem, format_value, suggest_nearest
from simulator.fabrics.base import Fabric
from simulator.hardware.widths import same_device
from simulator.loading.documents import Document, parse_document, validate_document
from simulator.loading.finding import find_file, known_names
from simulator.scenario.catalogue import list_shipped
from simulator.scenario.cluster import MAX_WORKERS
from simulator.scenario.named_parts import read_gpu, read_part, read_workload
from simulator.schedulers.base import Scheduler
from simulator.schedulers.local_steps import LocalSteps
from simulator.sparsifiers.base import Sparsifier
from simulator.studies.start.answers import AXES, GOALS, AskedMesh, BetweenSites, NamedPart, NetworkAnswer
from simulator.trainings.options import parse_method
from simulator.units import read_quantity, show_bandwidth, show_memory, show_time

DENSITIES = {"dgc": 0.001}
"""Density of a method that is named without one: that of its paper (Lin et al., DGC, ICLR 2018)."""
DENSITY = 0.01
"""Density of all other methods that are named without one: what most papers of Top-k use."""
TCP_LATENCY, RDMA_LATENCY = 50e-6, 5e-6
"""Start-up of a message where none is stated: of TCP (measured: 30 to 51 us in networks/10gbe-*), and of InfiniBand and
RDMA (2 to 5 us in networks/100gb-ib* and networks/ib-4xv100)."""
_RDMA_FROM = 100e9 / 8
"""Bytes/s from which on a network is taken to be InfiniBand or RDMA, unless its latency says otherwise."""
_NICS = re.compile(r"(\d{1,2})\s*[x×*]\s*(.+)")
_RATE = re.compile(r"[\d.]+\s*([kMGT]i?)?(bit|b|B)?(/.*)?")
"""What is meant as a rate, and not as the name of a network such as 10gbe-tcp."""
_BETWEEN_METHODS = re.compile(r"\s*(?:[,;]|\bor\b|\band\b)\s*(?![^{]*\})")


def parse_number(option: str, text: str, most: int) -> int:
    """A whole number from 1 to `most`. Raises InputError for anything else."""
    number = int(text) if re.fullmatch(r"\d{1,9}", text.strip()) else 0
    if not 1 <= number <= most:
        raise InputError(Problem(option, f"a whole number from 1 to {most}", format_value(text.strip())))
    return number


def find_name(option: str, text: str, names: Sequence[str], also: str = "") -> str:
    """The one of `names` that a text stands for: itself, its part after the folder, or a part that only one has.

    Raises InputError, with the nearest name as a hint, where there is none or several; `also`: what else is read.
    """
    text = text.strip()
    if text in names:
        return text
    same = [name for name in names if name.rpartition("/")[2] == text]
    close = same or [name for name in names if text and text.lower() in name.lower()]
    if len(close) == 1:
        return close[0]
    if len(close) > 1:
        got = f"{format_value(text)}, which {len(close)} of them contain"
        raise InputError(Problem(option, "one name", got, ", ".join(close[:8])))
    stems = {name.rpartition("/")[2]: name for name in names}
    hint = "; ".join(filter(None, [suggest_nearest(text, stems), also]))
    raise InputError(Problem(option, "a name of the list", format_value(text), hint))


def parse_network(option: str, text: str) -> NetworkAnswer:
    """A shipped network, a file, or a rate with a latency: `25 Gbit/s`, `25 Gbit/s, 20 us`, `8 x 400 Gbit/s`.

    Raises InputError for anything else.
    """
    text = text.strip()
    nics = _NICS.fullmatch(text)
    rate, _, delay = (nics[2] if nics else text).partition(",")
    if nics is None and not delay and not _RATE.fullmatch(rate.strip()):
        name = text if find_file(text, None) else find_name(option, text, known_names("networks"))
        network: Fabric = read_part(name, "networks")
        return NetworkAnswer(name=name, read=network, bandwidth=network.bandwidth, latency=network.latency)
    bandwidth = _quantity(option, rate, "bandwidth")
    if delay.strip():
        latency = _quantity(option, delay, "time")
    else:
        latency = RDMA_LATENCY if bandwidth >= _RDMA_FROM else TCP_LATENCY
    return NetworkAnswer(
        bandwidth=bandwidth,
        latency=latency,
        stated=bool(delay.strip()),
        nics=parse_number(option, nics[1], 64) if nics else 1,
    )


def parse_between(option: str, text: str) -> BetweenSites:
    """The rate and the round trip of the way between sites: `200 Mbit/s, 40 ms`.

    Raises InputError for anything else.
    """
    rate, comma, delay = text.partition(",")
    if not comma:
        what = "a rate and a round trip, such as '200 Mbit/s, 40 ms'"
        raise InputError(Problem(option, what, format_value(text.strip())))
    return BetweenSites(_quantity(option, rate, "bandwidth"), _quantity(option, delay, "time", zero=True))


def is_rdma(network: NetworkAnswer) -> bool:
    """Whether a network that was given by its rate is taken to be one with RDMA."""
    return network.latency <= 2 * RDMA_LATENCY


def _quantity(option: str, text: str, dimension: str, zero: bool = False) -> float:
    value = read_quantity(option, text.strip(), dimension)
    least = 0.0 if zero else 1e-9
    if not least <= value <= (1e15 if dimension == "bandwidth" else 1e3):
        raise InputError(Problem(option, f"a possible {dimension}", format_value(text.strip())))
    return value


def parse_methods(option: str, text: str) -> tuple[Mapping[str, Any], ...]:
    """One or several methods: `topk 1 %`, `dgc, powersgd or dense`, `{kind: topk, density: 0.01}`.

    A number after the kind is its density, or the rank of PowerSGD. Raises InputError for unknown kinds and wrong
    parameters.
    """
    parts = [part for part in _BETWEEN_METHODS.split(text.strip()) if part]
    if not parts:
        raise InputError(Problem(option, "a method, such as topk 1 %", format_value(text)))
    return tuple(_parse_method(option, part) for part in parts)


def _parse_method(option: str, text: str) -> Mapping[str, Any]:
    if text.startswith("{"):
        data = parse_document(text, option).data
    elif explain(text):
        data = {"kind": text}
    else:
        data = parse_method(re.sub(r"(\d)\s*%", r"\1%", text))
        if isinstance(data.get("density"), str):
            data = {**data, "density": read_quantity(option, data["density"], "fraction")}
    kind, known = data.get("kind") if isinstance(data, dict) else None, discover(Sparsifier)
    if isinstance(kind, str) and kind not in known and (meant := kind_of("sparsifier", kind)):
        data, kind = {**data, **meant}, str(meant["kind"])
    if not isinstance(kind, str) or kind not in known:
        by_itself = find_member(Scheduler, str(kind))
        hint = explain_unknown_kind(Sparsifier, str(kind))
        if by_itself is not None and issubclass(by_itself, LocalSteps):
            hint = "give --local-steps, and here what is exchanged after them, such as dense"
        elif str(kind) in MESHES:
            hint = f"give --mesh {kind}, and here what is exchanged, such as dense"
        raise InputError(Problem(option, "a kind of sparsifier", format_value(kind), hint))
    fields = known[kind].model_fields
    if "density" in fields and "density" not in data:
        data = data | {"density": DENSITIES.get(kind, DENSITY)}
    if "density" in data and "density" not in fields and "rank" in fields:
        data = {"kind": kind, "rank": data["density"]}
    validate_document(lambda value, context: build(Sparsifier, value), Document(option, data, {}))
    return dict(data)


MESHES: Mapping[str, Mapping[str, Any]] = {
    "fsdp": {"kind": "fsdp"},
    "hsdp": {"kind": "fsdp", "shard": "machine"},
    "hpz": {"kind": "fsdp", "keep": "node"},
    "zero1": {"kind": "zero", "stage": 1},
    "zero2": {"kind": "zero", "stage": 2},
    "zero3": {"kind": "fsdp"},
    "megatron": {"kind": "megatron"},
}
"""Names of meshes, and the schedules that run them; `machine`: a copy of the model in every machine."""
_SHARDED = {mesh["kind"] for mesh in MESHES.values()}
_SHARD = "shard"
"""GPUs that share one copy of the model in a sharded schedule; the others have copies of it."""
_AXIS = re.compile(rf"({'|'.join([*AXES, _SHARD])})\s*=?\s*(\d+)")


def parse_mesh(option: str, text: str, gpus_per_machine: int) -> AskedMesh:
    """A mesh, with the sizes of its axes: `hsdp`, `megatron tp 8 pp 4`, `fsdp shard 16`.

    Raises InputError for other words, and for a copy in every machine where machines have one GPU or one copy each.
    """
    word, *_ = text.split() or [""]
    name, rest = word.lower().rstrip(","), text.strip()[len(word) :]
    sizes = {axis: parse_number(option, size, MAX_WORKERS) for axis, size in _AXIS.findall(rest.lower())}
    axes = {axis: size for axis, size in sizes.items() if axis != _SHARD}
    meant = kind_of("scheduler", name) or {}
    if not (name in MESHES or meant.get("kind") in _SHARDED) or re.sub(r"[\s,]", "", _AXIS.sub("", rest.lower())):
        what = f"{', '.join(MESHES)}, and sizes of axes, such as 'megatron tp 8 pp 4'"
        hint = f"axes are {', '.join(AXES)} and {_SHARD}" if name in MESHES else suggest_nearest(name, MESHES)
        raise InputError(Problem(option, what, format_value(text), hint))
    schedule = dict(MESHES.get(name) or meant)
    if _SHARD in sizes:
        schedule[_SHARD] = sizes[_SHARD]
    if schedule.get(_SHARD) == "machine":
        schedule[_SHARD] = gpus_per_machine // (axes.get("tp", 1) * axes.get("cp", 1))
        if schedule[_SHARD] < 2:
            got = f"{gpus_per_machine} GPUs in a machine, with {axes.get('tp', 1) * axes.get('cp', 1)} for each copy"
            raise InputError(Problem(option, f"several copies in a machine, for {name}", got, "fsdp, or smaller axes"))
    return AskedMesh(schedule, axes)


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
            names, also = known_names(folder), "or give a model's config.json" if folder == "workloads" else ""
            name = meant if (meant := file_of(folder, name)) in names else find_name(option, name, names, also)
        return NamedPart(name, read_workload(name) if folder == "workloads" else read_part(name, folder))

    return read


def _tell_gpu(item: Mapping[str, Any]) -> str:
    memory, rate = item["memory_bytes"], item["memory_bandwidth_bytes_per_s"]
    said = (item["what"], memory and show_memory(memory), rate and f"{rate / 1e9:.4g} GB/s")
    return ", ".join(text for text in said if text)


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


_LONGEST = 500
"""Most characters of an answer."""
QUESTIONS: tuple[Question, ...] = (
    Question(
        "model", "What do you train?", "a model's config.json, or your own as FILE.py:FUNCTION",
        _menu("workloads", lambda item: f"{item['parameters'] / 1e6:,.4g} M parameters, batch {item['batch_size']:,}, "
              f"{item['device']}"), lambda _: "workloads/resnet50-v100", read_named("--model", "workloads"),
    ),
    Question(
        "gpu", "On which GPU?", "a file", _menu("gpus", _tell_gpu), _usual_gpu, read_named("--gpu", "gpus")
    ),
    Question(
        "machines", "How many machines?", "", lambda _: [], lambda _: "4",
        lambda text, _: parse_number("--machines", text, MAX_WORKERS),
    ),
    Question(
        "gpus_per_machine", "How many GPUs in each machine?", "", lambda _: [], lambda _: "1",
        lambda text, _: parse_number("--gpus-per-machine", text, 1024),
    ),
    Question(
        "network", "Which network?", "a rate: 25 Gbit/s, with latency 25 Gbit/s, 20 us, with NICs 8 x 400 Gbit/s",
        _menu("networks", lambda item: f"{show_bandwidth(item['bandwidth_bytes_per_s'])}, "
              f"{show_time(item['latency_s'])}: {item['what']}"),
        _usual_network, lambda text, _: parse_network("--network", text),
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


OPTIONAL: Mapping[str, Callable[[str, Given], Any]] = {
    "compute_time": lambda text, _: read_quantity("--compute-time", text, "time"),
    "between": lambda text, _: parse_between("--between", text),
    "slow_gpu": read_named("--slow-gpu", "gpus"),
    "mesh": lambda text, given: parse_mesh("--mesh", text, given["gpus_per_machine"]),
}
"""How answers are read to what nobody is asked, by option."""


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
