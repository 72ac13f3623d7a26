"""What there is: families, kinds and parameters, and the JSON Schemas of everything that a person writes."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo

from simulator.component import Component, MemberOf, discover
from simulator.fabrics.base import Fabric
from simulator.models.hardware import Gpu, Runtime
from simulator.models.layers import Workload
from simulator.scenario import Scenario
from simulator.schedulers.base import Scheduler
from simulator.sparsifiers.base import Sparsifier
from simulator.topologies.base import Topology

FAMILIES: tuple[type[Component], ...] = (Sparsifier, Topology, Scheduler, Fabric)


def kinds() -> dict[str, list[dict[str, Any]]]:
    """Every family's kinds with their first docstring line and parameters."""
    return {
        base.family: [
            {"kind": kind, "summary": member.summary(), "parameters": _parameters(member)}
            for kind, member in discover(base).items()
        ]
        for base in FAMILIES
    }


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


def schemas() -> dict[str, dict[str, Any]]:
    """JSON Schemas (draft 2020-12) of a scenario and of each kind of config file."""
    targets: dict[str, TypeAdapter[Any]] = {
        "scenario": TypeAdapter(Scenario),
        "workload": TypeAdapter(Workload),
        "gpu": TypeAdapter(Gpu),
        "network": TypeAdapter(Annotated[Fabric, MemberOf(Fabric)]),
        "runtime": TypeAdapter(Runtime),
    }
    return {name: adapter.json_schema(mode="validation") for name, adapter in targets.items()}
