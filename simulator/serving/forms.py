"""The form of a scenario: its fields, how a person enters each by its JSON Schema, their values and their changes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import yaml
from pydantic import TypeAdapter

from simulator.component import Component, discover
from simulator.errors import InputError
from simulator.files import as_yaml
from simulator.loading.documents import parse_document, parse_scalar
from simulator.loading.finding import known_names
from simulator.loading.replacing import alternatives, plain_value_at, replace_key
from simulator.records import Record, replace
from simulator.scenario.catalogue import FAMILIES
from simulator.scenario.changes import value_at
from simulator.scenario.reading import parse_scenario
from simulator.scenario.scenario import NOTES, WHOLE_JOB, Scenario
from simulator.units import show_quantity

NAMED = {
    "workload": ("model", "workloads"),
    "cluster.gpu": ("GPU", "gpus"),
    "cluster.network": ("network", "networks"),
    "cluster.runtime": ("software", "runtimes"),
}
"""Keys whose value may be the name of a file, what they are called, and the folder of `configs` that it is in."""
BASES = {base.family: base for base in FAMILIES}
_CHOSEN = {"sparsifier": "method", "scheduler": "schedule", "topology": "topology"}
"""Parts that are chosen by their kind, and what they are called."""
_MAIN = (
    *("workload", "workload.batch_size", "cluster.gpu", "cluster.gpus_per_node", "cluster.network", "cluster.runtime"),
    *("sparsifier.kind", "scheduler.kind", "topology.kind"),
)
"""Keys whose fields are always shown."""
_GROUPS = {
    "Model": ("workload",),
    "Cluster": ("cluster", "cluster.stragglers", "cluster.loading"),
    "Network": ("cluster.network", "cluster.network.intra_node"),
    "Method": ("sparsifier",),
    "Schedule": ("scheduler",),
    "Topology": ("topology",),
    "Software": ("cluster.runtime",),
    "Simulation": ("",),
}
"""Mappings whose fields belong together."""
IN_TEXT = "written out in the text"
"""What a choice shows where the part is written out in place."""
_SHORT = 12
"""Longest list of digits of a value."""
_SHORT_FORMS = {"gpu": "GPU", "gpus": "GPUs", "nics": "NICs", "mape": "error (MAPE)", "fp16": "FP16"}
_BULLET = re.compile(r"^- `(\w+)`: (.*(?:\n  .*)*)", re.MULTILINE)
Schema = Mapping[str, Any]


class Field(Record):
    """One key of a scenario and how it is entered: `choice`, `number`, `switch`, `text` or `slider`.

    `example` is shown where nothing is entered; `optional`: an empty field leaves the key out. A slider has a
    logarithmic scale from `least` to `most`, in SI; its `unit` is `bandwidth`, `share` or `count`.
    """

    key: str
    label: str
    control: str
    about: str = ""
    choices: tuple[str, ...] = ()
    example: str = ""
    optional: bool = True
    least: float = 0.0
    most: float = 0.0
    unit: str = ""


class Form(Record):
    """The fields that are always shown, the sliders, and the other fields in groups by their titles."""

    main: tuple[Field, ...]
    sliders: tuple[Field, ...]
    groups: dict[str, list[Field]]


@cache
def scenario_schema() -> Schema:
    """The JSON Schema of a scenario, with installed plug-ins."""
    return TypeAdapter(Scenario).json_schema(mode="validation")


def form_of(data: dict[str, Any], scenario: Scenario | None) -> Form:
    """The form of parsed data; `scenario` is what it stands for where it is valid."""
    stated, cluster = data, data.get("cluster")
    if scenario is not None and isinstance(cluster, dict):
        # A part that is given by its name has the keys of what it names.
        network = cluster.get("network")
        kind = {"kind": scenario.cluster.network.kind} if isinstance(network, str) else network
        stated = stated | {"cluster": cluster | {"network": kind}}
    if isinstance(data.get("workload"), str):
        stated = stated | {"workload": {"trace": data["workload"]}}
    groups = {title: [field for key in keys for field in _fields_at(key, stated)] for title, keys in _GROUPS.items()}
    known = {field.key: field for fields in groups.values() for field in fields}
    for key, (label, folder) in NAMED.items():
        traces = known_names("traces") if key == "workload" else ()
        names = *known_names(folder), *(f"traces/{name.removeprefix('traces/')}" for name in traces)
        known[key] = Field(key, label, "choice", choices=names, optional=False)
    for family, label in _CHOSEN.items():
        kinds = tuple(discover(BASES[family]))
        known[f"{family}.kind"] = Field(f"{family}.kind", label, "choice", choices=kinds, optional=False)
    main, sliders = tuple(known[key] for key in _MAIN if key in known), tuple(_sliders(scenario))
    # Some are parts of their own.
    shown = {*(field.key for field in (*main, *sliders)), *NAMED, *_CHOSEN, "versus"}
    kept = {title: [field for field in fields if field.key not in shown] for title, fields in groups.items()}
    return Form(main, sliders, {title: fields for title, fields in kept.items() if fields})


def bandwidth_key(scenario: Scenario) -> str:
    """The key of the bandwidth that matters: that inside of a node, where there is only one."""
    inside = scenario.cluster.nodes == 1 and scenario.cluster.network.intra_node is not None
    return "cluster.network.intra_node.bandwidth" if inside else "cluster.network.bandwidth"


def _sliders(scenario: Scenario | None) -> Iterator[Field]:
    key = bandwidth_key(scenario) if scenario else "cluster.network.bandwidth"
    label = f"bandwidth {'inside' if 'intra' in key else 'of'} a node"
    about = "What a node sends and receives per second."
    yield Field(key, label, "slider", about, least=1.25e6, most=1.25e11, unit="bandwidth")
    most = 1024 // max(1, (scenario.cluster.gpus_per_node if scenario else 1) // 4)
    about = "Workers are nodes times GPUs of a node."
    yield Field("cluster.nodes", "nodes", "slider", about, least=1, most=most, unit="count")
    if scenario is None or hasattr(scenario.sparsifier, "density"):
        about = "The share of the gradient's elements that a worker sends."
        yield Field("sparsifier.density", "density", "slider", about, least=1e-5, most=1.0, unit="share")


def _fields_at(parent: str, data: Any) -> Iterator[Field]:
    """The fields of the keys, in the order of the schema, that hold one value each in the mapping at a dotted key."""
    place = _schema_at(parent, data)
    bullets = _BULLET.findall(place.get("description", ""))
    about = {name: " ".join(text.split()).replace("`", "") for name, text in bullets}
    for name, inner in place.get("properties", {}).items():
        field = _field_of(inner, f"{parent}.{name}" if parent else name, about.get(name, ""))
        if field is None:
            continue
        label = field.label
        if parent.count(".") > 0 and not parent.endswith(("network", "runtime")):
            # Of keys inside a part of a part, the last word alone says too little.
            label = f"{parent.rpartition('.')[2]} {label}".replace("_", " ").replace("intra node", "inside a node:")
        yield replace(field, label=label, optional=name not in place.get("required", ()))


def _field_of(place: Schema, key: str, about: str) -> Field | None:
    """The field of a key with this schema; None where its value is a list, a mapping or any text."""
    parts = [part for part in alternatives(scenario_schema(), place) if part.get("type") != "null"]
    label = " ".join(_SHORT_FORMS.get(word, word) for word in key.rpartition(".")[2].split("_"))
    words = tuple(str(word) for part in parts for word in part.get("enum", ()) if isinstance(word, str))
    examples = [str(part["examples"][0]) for part in parts if part.get("examples")]
    if words:
        return Field(key, label, "choice", about, tuple(dict.fromkeys(words)))
    if any(part.get("type") == "boolean" for part in parts):
        return Field(key, label, "switch", about, ("true", "false"))
    if examples or any("pattern" in part for part in parts):
        return Field(key, label, "text", about, example=examples[0] if examples else "")
    numbers = any(part.get("type") in ("integer", "number") for part in parts)
    return Field(key, label, "number", about) if numbers else None


def _schema_at(key: str, data: Any) -> Schema:
    """The schema of the mapping at a dotted key; or nothing.

    Of alternatives it is that of the kind that `data` has there, or the first one with all of its keys.
    """
    place = scenario_schema()
    for name in key.split(".") if key else ():
        data = data.get(name) if isinstance(data, dict) else None
        inner = alternatives(scenario_schema(), place.get("properties", {}).get(name, {}))
        mappings = [part for part in inner if "properties" in part]
        kind, keys = (data.get("kind"), set(data)) if isinstance(data, dict) else (data, set())
        same = [part for part in mappings if kind and part["properties"].get("kind", {}).get("const") == kind]
        fits = [part for part in mappings if keys <= part["properties"].keys() and keys >= {*part.get("required", ())}]
        place = next(iter(same or fits or mappings), {})
    return place


def values_of(form: Form, data: dict[str, Any], scenario: Scenario | None) -> dict[str, dict[str, Any]]:
    """Of each field, the value that the text states and the one that it stands for: `text`, `shown`, `si`."""
    resolved = (
        scenario.model_dump(mode="json", exclude={"workload": {"layers"}, "cluster": {"gpu"}}) if scenario else {}
    )
    made = {}
    for key in (each.key for fields in (form.main, form.sliders, *form.groups.values()) for each in fields):
        stated = plain_value_at(data, key)
        if key == "workload":
            stated = stated if isinstance(stated, str) else plain_value_at(data, "workload.trace")
            stated = stated or IN_TEXT
        elif key in NAMED and isinstance(stated, dict):
            # A part that was written out when one of its values changed is called as its own `name` says.
            stated = f"{IN_TEXT}: {name}" if isinstance(name := stated.get("name"), str) and name else IN_TEXT
        elif key.endswith(".kind") and stated is None:
            stated = plain_value_at(data, key.removesuffix(".kind"))
        value: dict[str, Any] = {"text": _as_text(stated), "shown": show_value(plain_value_at(resolved, key))}
        number = value_at(scenario, key) if scenario is not None else None
        if isinstance(number, int | float) and not isinstance(number, bool):
            value["si"] = number
        if key in NAMED and scenario is not None:
            value["about"] = value_at(scenario, key).name
        if key.endswith(".kind"):
            member = discover(BASES[key.removesuffix(".kind")]).get(str(stated))
            value["about"] = member.summary().replace("`", "") if member else ""
        made[key] = value
    return made


def _as_text(value: Any) -> str:
    if value is None or isinstance(value, dict | list):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.{_SHORT}g}" if isinstance(value, float) else str(value)


def show_value(value: Any) -> str:
    """A value of a resolved scenario as a person writes it: quantities in suitable units."""
    return show_quantity(_as_text(value))


PLACE = "scenario"
"""What problems call the text, where they name a file otherwise."""
_FIRST_DENSITY = 0.01
"""Where a method needs a density and the one before had none."""


def change_text(text: str, changes: Sequence[tuple[str, str]]) -> str:
    """The text with the changes: dotted keys, and new values as text, of which an empty one removes the key.

    Where one value takes the place of another, the rest of the text stays as it is. Otherwise the scenario is written
    anew, without comments; so it is where a measurement has to say first of which job it is. Raises InputError for text
    that is no scenario, and for keys that cannot be set.
    """
    for key, value in changes:
        before = parse_scenario(text, PLACE).data
        data = _changed_data(before if key.partition(".")[0] in NOTES else _with_measured_job(before), key, value)
        text = _change_in_place(text, key, data) or as_yaml(data, default_flow_style=None)
    return text


def _with_measured_job(data: dict[str, Any]) -> dict[str, Any]:
    """The data whose measurement says of which job it is: of the one that they describe, before anything is changed."""
    measured = data.get("measured")
    if not isinstance(measured, dict):
        return data
    at = measured.get("at") or {}
    if not isinstance(at, dict) or WHOLE_JOB in at:
        return data
    job = {key: value for key, value in data.items() if key == "name" or key not in NOTES}
    return data | {"measured": {**measured, "at": {WHOLE_JOB: job, **at}}}


def rename(text: str, name: str) -> str:
    """The text with another name and without its question, which no longer holds."""
    data = {key: value for key, value in parse_scenario(text, PLACE).data.items() if key != "question"}
    lines = [line for line in text.splitlines(keepends=True) if not line.startswith("question:")]
    data = {"name": name} | data | {"name": name}
    return _change_in_place("".join(lines), "name", data) or as_yaml(data, default_flow_style=None)


def _changed_data(data: Any, key: str, text: str) -> Any:
    head, _, rest = key.partition(".")
    value = parse_scalar(text.strip())
    if key == "workload":
        return data | {"workload": {"trace": value}}
    if head == "workload" and isinstance(data.get("workload"), str):
        data = data | {"workload": {"trace": data["workload"]}}
    if head in BASES and rest == "kind":
        return data | {head: _with_kind(data.get(head), value, BASES[head])}
    if text.strip():
        return replace_key(data, key, value, None)
    above, _, last = key.rpartition(".")
    part = plain_value_at(data, above)
    left = {name: item for name, item in part.items() if name != last} if isinstance(part, dict) else part
    return data if left == part else replace_key(data, above, left, None) if above else left


def _with_kind(part: Any, kind: Any, base: type[Component]) -> Any:
    """A part with another kind, and those of its parameters that the new kind has too; a word where it has none."""
    member = discover(base).get(kind) if isinstance(kind, str) else None
    fields, known = member.model_fields if member else {}, part if isinstance(part, dict) else {}
    kept = {name: value for name, value in known.items() if name != "kind" and name in fields}
    if "density" in fields.keys() - kept.keys() and fields["density"].is_required():
        kept = {"density": _FIRST_DENSITY} | kept
    return {"kind": kind, **kept} if kept else kind


def _change_in_place(text: str, key: str, wanted: Any) -> str:
    """The text with the scalar at the key replaced; empty where that does not give the data that is wanted."""
    value, node = plain_value_at(wanted, key), yaml.compose(text, Loader=yaml.SafeLoader)
    for part in key.split("."):
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
