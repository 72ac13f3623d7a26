"""What there is: families, kinds and parameters, JSON Schemas of all that a person writes, which key was meant, and the
parts and files that can be named, of the package and of the current folder, one record each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue

from simulator.aliases import all_aliases
from simulator.architectures.describing import OrDescribed
from simulator.component import Component, MemberOf, Spec, broken_plugins, discover
from simulator.errors import InputError, suggest_nearest
from simulator.fabrics.base import Fabric
from simulator.hardware.gpu import Gpu
from simulator.hardware.runtime import FRAMEWORKS, Runtime
from simulator.loading.csv_tables import read_rows
from simulator.loading.documents import read_document
from simulator.loading.finding import find_file, find_shipped, known_names
from simulator.models.layers import Workload
from simulator.records import asdict
from simulator.scenario.cluster import Cluster
from simulator.scenario.named_parts import WorkloadSource, read_part, read_workload
from simulator.scenario.scenario import Scenario
from simulator.schedulers.base import Scheduler
from simulator.sparsifiers.base import Sparsifier
from simulator.topologies.base import Topology

FAMILIES: tuple[type[Component], ...] = (Sparsifier, Topology, Scheduler, Fabric)


def kinds() -> dict[str, list[dict[str, Any]]]:
    """Every family's kinds with their first docstring line and parameters; `broken_plugins`, if there are any."""
    made = {
        base.family: [
            {"kind": kind, "summary": member.summary(), "parameters": _parameters(member)}
            for kind, member in discover(base).items()
        ]
        for base in FAMILIES
    }
    broken = [asdict(item) for item in broken_plugins()]
    return made | {"broken_plugins": broken} if broken else made


def _parameters(member: type[Component]) -> list[dict[str, Any]]:
    properties = member.model_json_schema()["properties"] if member.model_fields else {}
    return [
        {
            "name": name,
            "required": field.is_required(),
            "default": None if field.is_required() else default_of(field),
            "schema": {key: value for key, value in properties[name].items() if key != "default"},
        }
        for name, field in member.model_fields.items()
    ]


def default_of(field: FieldInfo) -> Any:
    """A default as it would stand in YAML, with its unit."""
    annotation: Any = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
    return TypeAdapter(annotation).dump_python(field.get_default(call_default_factory=True), mode="json")


def schemas() -> dict[str, JsonSchemaValue]:
    """JSON Schemas (draft 2020-12) of a scenario and of each kind of config file."""
    targets: dict[str, TypeAdapter[Any]] = {
        "scenario": TypeAdapter(Scenario),
        "workload": TypeAdapter(Annotated[Workload, OrDescribed()]),
        "gpu": TypeAdapter(Gpu),
        "network": TypeAdapter(Annotated[Fabric, MemberOf(Fabric)]),
        "runtime": TypeAdapter(Runtime),
    }
    return {name: adapter.json_schema(mode="validation") for name, adapter in targets.items()}


_PARTS: dict[str, type[Spec]] = {
    "cluster": Cluster,
    "workload": WorkloadSource,
    "sparsifier": Sparsifier,
    "scheduler": Scheduler,
    "topology": Topology,
    "cluster.network": Fabric,
    "cluster.gpu": Gpu,
    "cluster.runtime": Runtime,
}
"""The mappings of a scenario, those that are most often changed first."""


def suggest_key(name: str) -> str:
    """A hint for a key that a scenario does not have: the key below one of its parts, or the nearest of its own.

    >>> suggest_key("nodes"), suggest_key("density"), suggest_key("sparsifer")
    ("did you mean 'cluster.nodes'?", "did you mean 'sparsifier.density'?", "did you mean 'sparsifier'?")
    """
    found = next((f"{part}.{name}" for part in _PARTS if name in _keys_of(_PARTS[part])), None)
    return f"did you mean '{found}'?" if found else suggest_nearest(name, Scenario.model_fields)


def _keys_of(part: type[Spec]) -> Iterator[str]:
    """The keys of a part, of every kind where it has kinds."""
    yield from part.model_fields
    if issubclass(part, Component):
        for member in discover(part).values():
            yield from member.model_fields


Record = dict[str, Any]


def list_shipped(what: str) -> list[Record]:
    """Everything of one kind of `LISTED`, in alphabetical order: its `name`, `what` it is, and its figures in SI.

    A file of the current folder that cannot be read has the `error` instead.
    """
    records = []
    for name in _names(what):
        try:
            records.append({"name": name} | _READERS[what](name))
        except InputError as error:
            records.append({"name": name, "what": "", "error": str(error.problems[0])})
    return records


def _names(what: str) -> list[str]:
    if what == "aliases":
        return sorted({item.name for item in all_aliases()})
    if what == "trainings":
        folder = find_shipped("configs/trainings")
        return sorted(path.stem for path in folder.glob("*.csv")) if folder else []
    return known_names(f"scenarios/{what}" if what in ("sweeps", "papers") else what)


_FIGURES: dict[str, dict[str, Callable[[Any], Any]]] = {
    "gpus": {
        "memory_bytes": attrgetter("memory_size"),
        "memory_bandwidth_bytes_per_s": attrgetter("memory_bandwidth"),
        "fp32_flop_per_s": attrgetter("fp32_rate"),
        "bf16_flop_per_s": lambda gpu: gpu.tensor_rates.get("bf16"),
        "kernels_timed": lambda gpu: len(gpu.kernels),
    },
    "networks": {
        "bandwidth_bytes_per_s": attrgetter("bandwidth"),
        "latency_s": attrgetter("latency"),
        "nics_per_node": attrgetter("nics_per_node"),
        "curves_measured": lambda network: len(network.measured),
    },
    "runtimes": {"framework": lambda runtime: FRAMEWORKS[runtime.framework].label},
    "workloads": {
        "parameters": attrgetter("numel"),
        "batch_size": attrgetter("batch_size"),
        "device": lambda workload: workload.device or "described",
    },
}
"""What is said of each part that a scenario names."""


def _part(folder: str, name: str) -> Record:
    part = read_workload(name) if folder == "workloads" else read_part(name, folder)
    return {"what": part.name} | {key: figure(part) for key, figure in _FIGURES[folder].items()}


def _question(folder: str, name: str) -> Record:
    data = _mapping(find_file(name, None, folder))
    return {"what": data.get("question") or data.get("title") or data.get("name") or ""}


def _trace(name: str) -> Record:
    about = _mapping(find_file(name, None))
    return {"what": about.get("model", ""), "workers": about.get("workers"), "batch_size": about.get("batch_size")}


def _training(name: str) -> Record:
    path = find_shipped(f"configs/trainings/{name}.csv")
    rows = [row.cells for row in read_rows(path, ("method", "elements"), [])] if path else []
    return {
        "what": f"iterations of {name} to a target, by method",
        "parameters": max((int(row["elements"]) for row in rows), default=0),
        "methods": len({row["method"] for row in rows}),
        "trainings": len(rows),
    }


def _mapping(path: Path | None) -> Record:
    data = read_document(path).data if path else None
    return data if isinstance(data, dict) else {}


_READERS: dict[str, Callable[[str], Record]] = {
    **{folder: partial(_part, folder) for folder in _FIGURES},
    "scenarios": partial(_question, "scenarios"),
    "sweeps": partial(_question, "scenarios/sweeps"),
    "papers": partial(_question, "scenarios/papers"),
    "traces": _trace,
    "trainings": _training,
    "aliases": lambda name: {"what": "; or ".join(item.means for item in all_aliases() if item.name == name)},
}
LISTED = tuple(_READERS)
"""What can be listed, besides the kinds of methods, topologies, schedulers and fabrics."""
