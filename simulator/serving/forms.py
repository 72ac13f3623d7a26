"""The form of a scenario: which fields it has, and their values."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from simulator.component import discover
from simulator.loading.finding import known_names
from simulator.loading.replacing import plain_value_at
from simulator.records import Record, replace
from simulator.scenario.catalogue import FAMILIES
from simulator.scenario.changes import value_at
from simulator.scenario.scenario import Scenario
from simulator.serving.fields import Field, fields_below, schema_at
from simulator.units import show_quantity

NAMED = {"workload": "workloads", "cluster.gpu": "gpus", "cluster.network": "networks", "cluster.runtime": "runtimes"}
"""Keys whose value may be the name of a file, and the folder of `configs` that it is in."""
BASES = {base.family: base for base in FAMILIES}
_CHOSEN = ("sparsifier", "scheduler", "topology")
"""Parts that are chosen by their kind."""
_MAIN = (
    *("workload", "workload.batch_size", "cluster.gpu", "cluster.gpus_per_node", "cluster.network", "cluster.runtime"),
    *("sparsifier.kind", "scheduler.kind", "topology.kind"),
)
"""Keys whose fields are always shown."""
IN_TEXT = "written out in the text"
"""What a choice shows where the part is written out in place."""
_SHORT = 12
"""Longest list of digits of a value."""


class Slider(Record):
    """A value on a logarithmic scale from `least` to `most`, in SI; `unit`: `bandwidth`, `share` or `count`."""

    key: str
    label: str
    least: float
    most: float
    unit: str
    about: str


class Group(Record):
    """Fields that belong together."""

    title: str
    fields: tuple[Field, ...]


class Form(Record):
    """The fields that are always shown, the sliders, and the other fields in groups."""

    main: tuple[Field, ...]
    sliders: tuple[Slider, ...]
    groups: tuple[Group, ...]

    @property
    def keys(self) -> list[str]:
        """The keys of all fields."""
        keys = [item.key for item in self.main] + [item.key for item in self.sliders]
        return keys + [item.key for group in self.groups for item in group.fields]


@cache
def scenario_schema() -> dict[str, Any]:
    """The JSON Schema of a scenario, with installed plug-ins."""
    return TypeAdapter(Scenario).json_schema(mode="validation")


def form_of(data: dict[str, Any], scenario: Scenario | None) -> Form:
    """The form of parsed data; `scenario` is what it stands for where it is valid."""
    groups = [(title, list(fields)) for title, fields in _groups(data, scenario)]
    known = {field.key: field for _, fields in groups for field in fields}
    known |= {key: _named_field(key) for key in NAMED} | {f"{name}.kind": _kind_field(name) for name in _CHOSEN}
    main = tuple(known[key] for key in _MAIN if key in known)
    sliders = tuple(_sliders(scenario))
    shown = {item.key for item in main} | {item.key for item in sliders}
    shown |= {*NAMED, *_CHOSEN, "versus"}  # these are parts of their own
    kept = (Group(title, tuple(field for field in fields if field.key not in shown)) for title, fields in groups)
    return Form(main, sliders, tuple(group for group in kept if group.fields))


def _named_field(key: str) -> Field:
    names = known_names(NAMED[key])
    if key == "workload":
        names += [f"traces/{name.removeprefix('traces/')}" for name in known_names("traces")]
    label = {"workload": "model", "cluster.gpu": "GPU", "cluster.runtime": "software"}.get(key, "network")
    return Field(key, label, "choice", choices=tuple(names), optional=False)


def _kind_field(family: str) -> Field:
    label = {"sparsifier": "method", "scheduler": "schedule"}.get(family, family)
    return Field(f"{family}.kind", label, "choice", choices=tuple(discover(BASES[family])), optional=False)


def _sliders(scenario: Scenario | None) -> Iterator[Slider]:
    inside = scenario is not None and scenario.cluster.nodes == 1 and scenario.cluster.network.intra_node is not None
    place = "cluster.network.intra_node.bandwidth" if inside else "cluster.network.bandwidth"
    label = "bandwidth inside a node" if inside else "bandwidth of a node"
    yield Slider(place, label, 1.25e6, 1.25e11, "bandwidth", "What a node sends and receives per second.")
    each = scenario.cluster.gpus_per_node if scenario else 1
    yield Slider(
        "cluster.nodes", "nodes", 1, 1024 // max(1, each // 4), "count", "Workers are nodes times GPUs of a node."
    )
    if scenario is None or hasattr(scenario.sparsifier, "density"):
        about = "The share of the gradient's elements that a worker sends."
        yield Slider("sparsifier.density", "density", 1e-5, 1.0, "share", about)


def _groups(data: dict[str, Any], scenario: Scenario | None) -> Iterator[tuple[str, Iterator[Field]]]:
    schema = scenario_schema()
    cluster = data.get("cluster")
    known: dict[str, Any] = data
    if scenario is not None and isinstance(cluster, dict):
        # A part that is given by its name has the keys of what it names.
        network = cluster.get("network")
        kind = {"kind": scenario.cluster.network.kind} if isinstance(network, str) else network
        known = data | {"cluster": cluster | {"network": kind}}
    if isinstance(data.get("workload"), str):
        known = known | {"workload": {"trace": data["workload"]}}
    places = {
        "Model": ("workload",),
        "Cluster": ("cluster", "cluster.stragglers", "cluster.loading"),
        "Network": ("cluster.network", "cluster.network.intra_node"),
        "Method": ("sparsifier",),
        "Schedule": ("scheduler",),
        "Topology": ("topology",),
        "Software": ("cluster.runtime",),
        "Simulation": ("",),
    }
    for title, keys in places.items():
        yield title, _fields_of(schema, known, keys)


def _fields_of(schema: dict[str, Any], data: dict[str, Any], keys: tuple[str, ...]) -> Iterator[Field]:
    for key in keys:
        place = schema_at(schema, key, data)
        if place is None:
            continue
        for field in fields_below(schema, place, key):
            # Of keys inside a part of a part, the last word alone says too little.
            deep = key.count(".") > 0 and not key.endswith(("network", "runtime"))
            label = f"{key.rpartition('.')[2]} {field.label}".replace("_", " ").replace("intra node", "inside a node:")
            yield replace(field, label=label) if deep else field


def values_of(form: Form, data: dict[str, Any], scenario: Scenario | None) -> dict[str, dict[str, Any]]:
    """Of each field, the value that the text states and the one that it stands for: `text`, `shown`, `si`."""
    resolved = (
        scenario.model_dump(mode="json", exclude={"workload": {"layers"}, "cluster": {"gpu"}}) if scenario else {}
    )
    made = {}
    for key in form.keys:
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
