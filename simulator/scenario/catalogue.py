"""What there is: families, kinds and parameters, the JSON Schemas of everything that a person writes, and which key was
meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue

from simulator.architectures.describing import OrDescribed
from simulator.component import Component, MemberOf, Spec, broken_plugins, discover
from simulator.errors import suggest_nearest
from simulator.fabrics.base import Fabric
from simulator.hardware.gpu import Gpu
from simulator.hardware.runtime import Runtime
from simulator.models.layers import Workload
from simulator.records import asdict
from simulator.scenario.cluster import Cluster
from simulator.scenario.named_parts import WorkloadSource
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
