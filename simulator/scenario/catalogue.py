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
    """JSON Schemas (draft 2020-12) of a scenario, of a sweep and of each kind of config file."""
    targets: dict[str, TypeAdapter[Any]] = {
        "scenario": TypeAdapter(Scenario),
        "workload": TypeAdapter(Annotated[Workload, OrDescribed()]),
        "gpu": TypeAdapter(Gpu),
        "network": TypeAdapter(Annotated[Fabric, MemberOf(Fabric)]),
        "runtime": TypeAdapter(Runtime),
    }
    made = {name: adapter.json_schema(mode="validation") for name, adapter in targets.items()}
    return made | {"sweep": _sweep(made["scenario"])}


def _sweep(scenario: JsonSchemaValue) -> JsonSchemaValue:
    """The schema of a sweep file: its base is a scenario or the name of one, and may leave out what is varied.

    The keys of a scenario are looked up in scenario.json in the same folder.
    """
    cluster = scenario["$defs"]["Cluster"]
    base = _partial("scenario.json#", scenario)
    base["properties"]["cluster"] = _partial("scenario.json#/$defs/Cluster", cluster)
    stated = {
        "description": "The scenario that every point starts from, or its name.",
        "anyOf": [{"type": "string"}, base],
    }
    made = grid_schema("Sweep", "A scenario and the keys that are varied.", stated)
    made["properties"] |= {
        "intervals": {
            "description": "90 % intervals: to first order, by simulating both ends of each input, or none.",
            "enum": ["first_order", "full", "none"],
            "default": "first_order",
        },
        "verdicts": {
            "description": "Whether each point is compared with dense, all else the same.",
            "type": "boolean",
            "default": False,
        },
    }
    return made


def grid_schema(title: str, description: str, base: JsonSchemaValue) -> JsonSchemaValue:
    """The schema of a file with a `base`, of this schema, and the keys that are varied."""
    end = {"type": ["number", "string"]}
    spread = {
        "type": "object",
        "description": "A range of `points` values that includes both ends.",
        "additionalProperties": False,
        "required": ["from", "to", "points"],
        "properties": {
            "from": end,
            "to": end,
            "scale": {"enum": ["linear", "log"], "default": "linear"},
            "points": {"type": "integer", "minimum": 2},
        },
    }
    axes = {
        "type": "object",
        "description": "Dotted keys of the base, each with its values.",
        "minProperties": 1,
        "additionalProperties": {"anyOf": [{"type": "array", "minItems": 1}, spread]},
    }
    properties = {
        "name": {"type": "string"},
        "question": {"type": "string"},
        "base": base,
        "vary": axes | {"description": "Every combination of these values is a point."},
        "zip": {"type": "array", "items": axes, "description": "Lists of one length whose values are taken together."},
        "skip": {
            "type": "array",
            "description": "A point is left out where it meets all conditions of an entry: values, lists, comparisons.",
            "items": {"type": "object", "minProperties": 1},
        },
    }
    return {
        "title": title,
        "description": description,
        "type": "object",
        "required": ["base"],
        "anyOf": [{"required": ["vary"]}, {"required": ["zip"]}],
        "properties": properties,
        "additionalProperties": False,
    }


def _partial(place: str, schema: JsonSchemaValue) -> JsonSchemaValue:
    """A mapping with the same keys, none of them required, since keys that are varied are missing from it."""
    properties: JsonSchemaValue = {name: {"$ref": f"{place}/properties/{name}"} for name in schema["properties"]}
    for name in schema["required"]:
        properties[name] = {"anyOf": [properties[name], {"type": "object"}]}
    return {"type": "object", "properties": properties, "additionalProperties": False}


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
