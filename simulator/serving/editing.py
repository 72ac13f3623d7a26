"""The text of a scenario with values changed by dotted keys; comments stay where the text can be changed in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from simulator.component import Component, discover
from simulator.errors import InputError
from simulator.loading.documents import parse_document, parse_scalar
from simulator.loading.replacing import replace_key
from simulator.scenario.reading import parse_scenario

PLACE = "scenario"
"""What problems call the text, where they name a file otherwise."""
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

Change = tuple[str, str]
"""A dotted key and its new value as text; an empty one removes the key."""


def change_text(text: str, changes: Sequence[Change], families: dict[str, type[Component]]) -> str:
    """The text with the changes; `families` are the bases of the parts that are given by a kind.

    Where one value takes the place of another, the rest of the text stays as it is. Otherwise the scenario is written
    anew, without comments. Raises InputError for text that is no scenario, and for keys that cannot be set.
    """
    for key, value in changes:
        data = _changed_data(parse_scenario(text, PLACE).data, key, value, families)
        text = _change_in_place(text, key, data) or write_scenario(data)
    return text


def rename(text: str, name: str) -> str:
    """The text with another name and without its question, which no longer holds."""
    data = {key: value for key, value in parse_scenario(text, PLACE).data.items() if key != "question"}
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith("question:")]
    data = {"name": name} | data | {"name": name}
    return _change_in_place("".join(lines), "name", data) or write_scenario(data)


def write_scenario(data: Any) -> str:
    """A scenario as YAML: one line for each part without parts of its own."""
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None)


def _changed_data(data: Any, key: str, text: str, families: dict[str, type[Component]]) -> Any:
    head, _, rest = key.partition(".")
    value = parse_scalar(text.strip())
    if key == "workload":
        return data | {"workload": {"trace": value}}
    if head == "workload" and isinstance(data.get("workload"), str):
        data = data | {"workload": {"trace": data["workload"]}}
    if head in families and rest == "kind":
        return data | {head: _with_kind(data.get(head), value, families[head])}
    if not text.strip():
        return _without_key(data, key.split("."))
    return replace_key(data, key, value, None)


def _with_kind(part: Any, kind: Any, base: type[Component]) -> Any:
    """A part with another kind, and those of its parameters that the new kind has too; a word where it has none."""
    member = discover(base).get(kind) if isinstance(kind, str) else None
    fields, known = member.model_fields if member else {}, part if isinstance(part, dict) else {}
    kept = {name: value for name, value in known.items() if name != "kind" and name in fields}
    required = {name for name in fields.keys() - kept.keys() if fields[name].is_required()}
    needed = {name: value for name, value in _FIRST.items() if name in required}
    return {"kind": kind, **needed, **kept} if needed or kept else kind


_FIRST = {"density": 0.01}
"""Values that a required parameter starts from where the method before had none."""


def _without_key(data: Any, parts: Sequence[str]) -> Any:
    if not isinstance(data, dict) or parts[0] not in data:
        return data
    if len(parts) == 1:
        return {key: value for key, value in data.items() if key != parts[0]}
    return data | {parts[0]: _without_key(data[parts[0]], parts[1:])}


def _change_in_place(text: str, key: str, wanted: Any) -> str:
    """The text with the scalar at the key replaced; empty where that does not give the data that is wanted."""
    value: Any = wanted
    node: Any = yaml.compose(text, Loader=_LOADER)
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        node = next((inner for name, inner in pairs if name.value == part), None)
    if not isinstance(node, yaml.ScalarNode) or value is None or isinstance(value, dict | list):
        return ""
    written = yaml.safe_dump(value, allow_unicode=True, default_flow_style=True, width=10**6)
    written = written.removesuffix("\n").removesuffix("...").strip()
    changed = text[: node.start_mark.index] + written + text[node.end_mark.index :]
    try:
        return changed if parse_document(changed, PLACE).data == wanted else ""
    except InputError:
        return ""
