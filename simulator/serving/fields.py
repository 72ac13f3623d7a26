"""Fields of a form from JSON Schema: what a key may be, and so how a person enters it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from simulator.records import Record, replace

_SHORT_FORMS = {"gpu": "GPU", "gpus": "GPUs", "nics": "NICs", "mape": "error (MAPE)", "fp16": "FP16"}
Schema = Mapping[str, Any]
_BULLET = re.compile(r"^- `(\w+)`: (.*(?:\n  .*)*)", re.MULTILINE)


class Field(Record):
    """One key of a scenario and how it is entered: `choice`, `number`, `switch` or `text`.

    `example` is shown where nothing is entered; `optional`: an empty field leaves the key out.
    """

    key: str
    label: str
    control: str
    about: str = ""
    choices: tuple[str, ...] = ()
    example: str = ""
    least: float | None = None
    most: float | None = None
    optional: bool = True


def fields_below(schema: Schema, place: Schema, parent: str) -> Iterator[Field]:
    """The fields of a mapping's keys that hold one value each, in the order of the schema.

    `place` is the schema of the mapping, `parent` its dotted key.
    """
    bullets = _BULLET.findall(place.get("description", ""))
    about = {name: " ".join(text.split()).replace("`", "") for name, text in bullets}
    for name, inner in place.get("properties", {}).items():
        made = field_of(schema, inner, f"{parent}.{name}" if parent else name, about.get(name, ""))
        if made is not None:
            yield replace(made, optional=name not in place.get("required", ()))


def field_of(schema: Schema, place: Schema, key: str, about: str = "") -> Field | None:
    """The field of a key with this schema; None where its value is a list, a mapping or any text."""
    parts = [part for part in alternatives(schema, place) if part.get("type") != "null"]
    label = " ".join(_SHORT_FORMS.get(word, word) for word in key.rpartition(".")[2].split("_"))
    words = tuple(str(word) for part in parts for word in part.get("enum", ()) if isinstance(word, str))
    examples = [str(part["examples"][0]) for part in parts if part.get("examples")]
    numbers = [part for part in parts if part.get("type") in ("integer", "number")]
    if words:
        return Field(key, label, "choice", about, tuple(dict.fromkeys(words)))
    if any(part.get("type") == "boolean" for part in parts):
        return Field(key, label, "switch", about, ("true", "false"))
    if examples or any("pattern" in part for part in parts):
        return Field(key, label, "text", about, example=examples[0] if examples else "")
    if numbers:
        least = next((part[word] for part in numbers for word in ("minimum", "exclusiveMinimum") if word in part), None)
        most = next((part[word] for part in numbers for word in ("maximum", "exclusiveMaximum") if word in part), None)
        return Field(key, label, "number", about, least=least, most=most)
    return None


def alternatives(schema: Schema, place: Schema) -> Iterator[Schema]:
    """All schemas that one stands for, with references followed."""
    if "$ref" in place:
        yield from alternatives(schema, schema["$defs"][place["$ref"].rpartition("/")[2]])
    yield place
    for word in ("anyOf", "oneOf", "allOf"):
        for inner in place.get(word, ()):
            yield from alternatives(schema, inner)


def schema_at(schema: Schema, key: str, data: Any) -> Schema | None:
    """The schema of the mapping at a dotted key, chosen by the keys and the kind that `data` has there."""
    place: Schema = schema
    for part in key.split(".") if key else ():
        data = data.get(part) if isinstance(data, dict) else None
        inner = place.get("properties", {}).get(part)
        chosen = None if inner is None else _chosen(schema, inner, data)
        if chosen is None:
            return None
        place = chosen
    return place


def _chosen(schema: Schema, place: Schema, data: Any) -> Schema | None:
    """The mapping among the alternatives that `data` is one of: that of its kind, or the first with all its keys."""
    mappings = [part for part in alternatives(schema, place) if "properties" in part]
    kind = data.get("kind") if isinstance(data, dict) else data
    keys = set(data) if isinstance(data, dict) else set()
    for part in mappings:
        if part["properties"].get("kind", {}).get("const") == kind and isinstance(kind, str):
            return part
    fitting = [part for part in mappings if keys <= set(part["properties"]) and set(part.get("required", ())) <= keys]
    return next(iter(fitting or mappings), None)
