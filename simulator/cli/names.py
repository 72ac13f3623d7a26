"""Arguments that a shell can complete: scenarios, sweeps, and dotted keys of a scenario with their values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from glob import escape, glob
from typing import Any

import click
from click.shell_completion import CompletionItem

_FOLDERS = {
    "workload": "workloads",
    "cluster.gpu": "gpus",
    "cluster.network": "networks",
    "cluster.runtime": "runtimes",
}


class _Named(click.types.StringParamType):
    """The name of a file of `folder`, or a path."""

    def __init__(self, name: str, folder: str) -> None:
        self.name, self.folder = name, folder

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Names that start so; where there is none, files."""
        from simulator.loading.finding import known_names

        names = [name for name in known_names(self.folder) if name.startswith(incomplete)]
        names += sorted(path for path in glob(f"{escape(incomplete)}*.yaml") if path not in names)
        return [CompletionItem(name) for name in names] or [CompletionItem(incomplete, type="file")]


class _KeyValue(click.types.StringParamType):
    """`KEY=VALUE` for a dotted key of a scenario."""

    name = "key=value"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Keys of the scenario's schema, `.` behind those that have keys of their own; behind `=`, kinds and names."""
        key, equals, _ = incomplete.partition("=")
        made = (f"{key}={item}" for item in values_of(key)) if equals else keys_below(key.rpartition(".")[0])
        return [CompletionItem(item) for item in made if item.startswith(incomplete)]


SCENARIO = _Named("scenario", "scenarios")
SWEEP = _Named("sweep", "scenarios/sweeps")
KEY_VALUE = _KeyValue()


def keys_below(parent: str) -> list[str]:
    """Dotted keys of a scenario one level below `parent`; every one with `=`, and with `.` where it has keys itself."""
    schema = _schema()
    made = []
    for name, inner in _properties(_at(schema, parent), schema).items():
        key = f"{parent}.{name}" if parent else name
        made.append(f"{key}=")
        if any(_properties([item], schema) for item in inner):
            made.append(f"{key}.")
    return sorted(made)


def values_of(key: str) -> list[str]:
    """Kinds, names of configs, and words that a key may have."""
    from simulator.loading.finding import known_names

    schema = _schema()
    words: set[str] = set()
    for part in _alternatives(_at(schema, key), schema):
        words |= {item for item in (*part.get("enum", ()), part.get("const")) if isinstance(item, str)}
        words |= {"true", "false"} if part.get("type") == "boolean" else set()
    return sorted(words | set(known_names(_FOLDERS[key]) if key in _FOLDERS else ()))


def _schema() -> dict[str, Any]:
    from simulator.loading.finding import find_file

    path = find_file("schema/scenario.json", None)
    return {} if path is None else dict(json.loads(path.read_text(encoding="utf-8")))


def _at(schema: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """The schemas that a dotted key may have."""
    parts: list[dict[str, Any]] = [schema]
    for name in key.split(".") if key else ():
        if name.isdecimal():
            parts = [part["items"] for part in _alternatives(parts, schema) if isinstance(part.get("items"), dict)]
        else:
            parts = _properties(parts, schema).get(name, [])
    return parts


def _properties(parts: list[dict[str, Any]], schema: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Keys of a mapping, each with the schemas that it may have."""
    made: dict[str, list[dict[str, Any]]] = {}
    for part in _alternatives(parts, schema):
        for name, inner in part.get("properties", {}).items():
            made.setdefault(name, []).append(inner)
    return made


def _alternatives(parts: list[dict[str, Any]], schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The schemas themselves: references followed, alternatives one after the other."""
    for part in parts:
        if "$ref" in part:
            yield from _alternatives([schema["$defs"][part["$ref"].rpartition("/")[2]]], schema)
        yield part
        for word in ("anyOf", "oneOf", "allOf"):
            yield from _alternatives(part.get(word, []), schema)
