"""The JSON Schema of a workload, described models included, for editors and forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

from simulator.architectures.base import Architecture
from simulator.architectures.describing import SHARED
from simulator.component import discover
from simulator.models.layers import Workload


class OrDescribed:
    """Annotation of a workload that may be described instead: adds a schema for each kind of model.

    `named`: keys of a described model may also stand beside its name, as `trace`.
    """

    def __init__(self, *, named: bool = False) -> None:
        self.named = named

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return handler(source)

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> Mapping[str, Any]:
        stated = handler.resolve_ref_schema(handler(Workload.__pydantic_core_schema__))["properties"]
        shared = {key: stated[key] for key in SHARED if key in stated}
        choices: list[JsonSchemaValue] = [handler(schema)]
        sizes: JsonSchemaValue = {}
        for kind, member in discover(Architecture).items():
            entry = handler.resolve_ref_schema(handler(member.__pydantic_core_schema__))
            properties = {"model": {"const": kind}} | shared | entry.get("properties", {})
            sizes |= entry.get("properties", {})
            required = ["model", "batch_size", *entry.get("required", [])]
            choices.append(entry | {"properties": properties, "required": required, "title": kind})
        files = {"config": "A model as its config.json describes it; other keys count more than that file's."}
        files |= {"trace": "A described model by its name; other keys count more than its own."} if self.named else {}
        for key, description in files.items():
            choices.append(
                {
                    "title": key,
                    "description": description,
                    "type": "object",
                    "properties": {key: {"type": "string"}} | shared | sizes,
                    "required": [key, "batch_size"] if key == "config" else [key],
                    "additionalProperties": False,
                }
            )
        return {"anyOf": choices}
