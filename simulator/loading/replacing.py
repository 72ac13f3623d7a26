"""Dotted keys: read `key=value`, and replace one value in parsed data, also in files given by name; JSON Schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import copy
from pathlib import Path
from typing import Any

from simulator.aliases import file_of
from simulator.errors import InputError, Problem, format_value
from simulator.loading.documents import MAX_DEPTH, parse_document, read_document
from simulator.loading.finding import CONFIG_FILE, find_file

MAX_KEY = 1000
"""Most characters of a dotted key."""


def parse_setting(text: str, example: str) -> tuple[str, Any]:
    """The dotted key and the value of `key=value`. Raises InputError, with an example, for anything else."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise InputError(Problem(f"--set {text}", "key=value", format_value(text), f"for example {example}"))
    return key, parse_document(value, f"--set {key}").data


def plain_value_at(data: Any, key: str, near: Path | None = None) -> Any:
    """The value at a dotted key of parsed data (an empty key: all of it); None where there is none.

    With `near`, also inside of files that are named, which are looked up there first.
    """
    above = ""
    for part in filter(None, key.split(".")):
        if near is not None and isinstance(data, str):
            data = _read_named(data, above, near)
        above = part
        if isinstance(data, list):
            data = data[int(part)] if part.isdecimal() and int(part) < len(data) else None
        else:
            data = data.get(part) if isinstance(data, dict) else None
    return data


def replace_key(data: Any, key: str, value: Any, near: Path | None, where: str = "") -> Any:
    """A copy of `data` with the dotted `key` set; a name on the path is replaced by the mapping that it names.

    `where`: what messages call the key; `--set KEY` if left out.
    """
    parts, where = key.split("."), where or f"--set {key}"
    if len(parts) > MAX_DEPTH or len(key) > MAX_KEY:
        raise InputError(Problem(where, f"a dotted key of at most {MAX_DEPTH} parts", str(len(parts))))
    place = changed = copy(data)
    for depth, part in enumerate(parts[:-1]):
        child = _child(place, part, where)
        if isinstance(child, str):
            child = _read_named(child, part, near)
        if child is None:
            child = {}
        if not isinstance(child, dict | list):
            above = ".".join(parts[: depth + 1])
            raise InputError(Problem(where, f"a mapping at {above}", format_value(child)))
        child = copy(child)
        place[int(part) if isinstance(place, list) else part] = child
        place = child
    _child(place, parts[-1], where)  # refuses an index that is not there
    place[int(parts[-1]) if isinstance(place, list) else parts[-1]] = value
    return changed


def _child(place: Any, part: str, where: str) -> Any:
    if isinstance(place, dict):
        return place.get(part)
    if not (part.isascii() and part.isdecimal() and len(part) < 10) or int(part) >= len(place):
        raise InputError(Problem(where, f"an index below {len(place)}", part))
    return place[int(part)]


def _read_named(name: str, key: str, near: Path | None) -> Any:
    """The mapping in the config with a name, also a short one of what the key stands for, or `{kind: name}` where there
    is no such config."""
    path = find_file(name, near) or find_file(file_of(f"{key}s", name), near)
    if path is None:
        return {"kind": name}
    data = wrap_config(read_document(path).data, name, path)
    if isinstance(data, dict) and isinstance(data.get("layers"), str):
        data = {**data, "layers": str((path.parent / data["layers"]).resolve())}
    return data


def wrap_config(data: Any, name: str, path: Path) -> Any:
    """What a named file holds, but of the config.json of a model what a workload would say of it."""
    described = path.name == CONFIG_FILE or (isinstance(data, dict) and "model_type" in data)
    return {"config": name, "batch_size": 1} if described else data


def alternatives(schema: Mapping[str, Any], place: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """All schemas that one stands for, with references followed."""
    if "$ref" in place:
        yield from alternatives(schema, schema["$defs"][place["$ref"].rpartition("/")[2]])
    yield place
    for word in ("anyOf", "oneOf", "allOf"):
        for inner in place.get(word, ()):
            yield from alternatives(schema, inner)
