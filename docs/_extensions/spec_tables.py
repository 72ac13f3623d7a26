"""Specs as tables: every key with its type, unit, default and description."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, get_args

from docstrings import markdown, said_of
from markup import code, page, table, target
from pydantic.fields import FieldInfo

from simulator.component import Component, MemberOf, Spec
from simulator.scenario.catalogue import default_of
from simulator.scenario.named_parts import Named
from simulator.units import DIMENSIONS

Schema = dict[str, Any]
_DIMENSION = {known.example: dimension for dimension, known in DIMENSIONS.items()}
_MANY = 1e15


def section(spec: type[Spec], level: int = 2, title: str = "", before: str = "") -> str:
    """Heading, prose and table of a spec."""
    prose, _ = said_of(spec)
    heading = f"{target(anchor(spec))}\n{'#' * level} {title or spec.__name__}"
    return page(heading, before, prose, keys_table(spec)).rstrip()


def keys_table(spec: type[Spec]) -> str:
    """Table of the keys of a spec; empty where it has none."""
    if not spec.model_fields:
        return ""
    schema = spec.model_json_schema(mode="validation")
    said = said_of(spec)[1]
    rows = [
        (
            code(name),
            _type(field, schema["properties"][name]),
            "required" if field.is_required() else _default(field),
            markdown(said[name]),
        )
        for name, field in spec.model_fields.items()
    ]
    return table(("key", "type", "default", "meaning"), rows)


def anchor(spec: type[Spec]) -> str:
    """Link target of a spec's section."""
    return f"spec-{spec.__qualname__.lower().replace('.', '-')}"


def nested(spec: type[Spec]) -> Iterator[type[Spec]]:
    """Specs in the fields of a spec, and in theirs, each once and in order; members of families are left out."""
    for field in spec.model_fields.values():
        for found in _specs([field.annotation, *field.metadata]):
            yield found
            yield from nested(found)


def _specs(annotations: list[Any]) -> Iterator[type[Spec]]:
    for annotation in annotations:
        if isinstance(annotation, type) and issubclass(annotation, Spec):
            if not issubclass(annotation, Component):
                yield annotation
        else:
            yield from _specs([item for item in get_args(annotation) if item is not annotation])
            source = getattr(annotation, "json_schema_input_type", None)
            if source is not None:
                yield from _specs([source])


def _default(field: FieldInfo) -> str:
    value = default_of(field)
    if isinstance(value, dict):
        return "all defaults"
    if value is None:
        return "none"
    text = json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value
    return code(text) if text else "empty"


def _type(field: FieldInfo, schema: Schema) -> str:
    member = next((item for item in field.metadata if isinstance(item, MemberOf)), None)
    named = next((item for item in field.metadata if isinstance(item, Named)), None)
    kinds = [f"a [{member.base.family}](#family-{member.base.family})"] if member else []
    inside = [
        f"[{spec.__name__}](#{anchor(spec)})" for spec in dict.fromkeys(_specs([field.annotation, *field.metadata]))
    ]
    if named:
        return ", or ".join([f"name of a file, for example in `configs/{named.subfolder}`", *kinds, *inside])
    if kinds:
        return kinds[0]
    if inside:
        many = _is_list(field.annotation)
        return f"{'list of ' if many else ''}{' or '.join(inside)}"
    return _plain(schema)


def _is_list(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) is tuple or any(_is_list(item) for item in get_args(annotation))


def _plain(schema: Schema) -> str:
    """Describe a JSON Schema in words."""
    example = (schema.get("examples") or [""])[0]
    if example in _DIMENSION:
        dimension = _DIMENSION[example]
        si = DIMENSIONS[dimension].si
        unit = f" (in Python: {si})" if si else ""
        return f"{dimension}, for example {' or '.join(map(code, example.split(' or ')))}{unit}"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_plain(item) for item in schema["anyOf"] if item.get("type") != "null"))
    if "enum" in schema:
        return " or ".join(code(item) for item in schema["enum"])
    if "const" in schema:
        return code(schema["const"])
    if schema.get("type") == "array":
        items = schema.get("prefixItems") or [schema.get("items", {})]
        inner = ", ".join(_plain(item) for item in items)
        return f"[{inner}]" if "prefixItems" in schema else f"list of {inner}"
    names = {"integer": "whole number", "number": "number", "string": "text", "boolean": "`true` or `false`"}
    return names.get(schema.get("type", ""), "mapping") + _bounds(schema)


def _bounds(schema: Schema) -> str:
    limits = (("minimum", "from"), ("exclusiveMinimum", "above"), ("maximum", "to"), ("exclusiveMaximum", "below"))
    found = [f"{word} {schema[key]:,}" for key, word in limits if key in schema and abs(schema[key]) < _MANY]
    return f", {' '.join(found)}" if found else ""
