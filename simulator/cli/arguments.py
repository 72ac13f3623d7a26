"""Arguments and options of several commands; scenarios, sweeps, dotted keys and their values complete in the shell."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from glob import escape, glob
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import click
from click.shell_completion import CompletionItem

from simulator.cli.signatures import written
from simulator.loading.finding import find_file, known_names

_FOLDERS = {
    "workload": ("workloads", "traces"),
    "trace": ("workloads", "traces"),
    "gpu": ("gpus",),
    "network": ("networks",),
    "runtime": ("runtimes",),
}
"""By the last part of a key, the folders whose files it can name."""


class FileName(click.types.StringParamType):
    """The name of a shipped file of `folder`, or a path."""

    def __init__(self, name: str, folder: str) -> None:
        self.name, self.folder = name, folder

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Names and YAML files that begin with the text; any file where there are none."""
        known = known_names(self.folder)
        if "/" not in incomplete:  # a name without its folder is accepted, too, and is shorter
            known = [*known, *(name.rpartition("/")[2] for name in known if incomplete and "/" in name)]
        names = [name for name in known if name.startswith(incomplete)]
        names += sorted(path for path in glob(f"{escape(incomplete)}*.yaml") if path not in names)
        return [CompletionItem(name) for name in names] or [CompletionItem(incomplete, type="file")]


class FiniteRange(click.FloatRange):
    """A number in a range, which click's own says of what is no number, too."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number. Fails where it is none, or is infinite."""
        made = super().convert(value, param, ctx)
        return made if isfinite(made) else self.fail(f"{value!r} is not a finite number.", param, ctx)


class _KeyValue(click.types.StringParamType):
    """`KEY=VALUE` for a dotted key of a scenario."""

    name = "key=value"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Before `=` the keys of the scenario's schema (with `.` where a key has keys itself), after it the values."""
        key, equals, _ = incomplete.partition("=")
        made = (f"{key}={item}" for item in values_of(key)) if equals else keys_below(key.rpartition(".")[0])
        return [CompletionItem(item) for item in made if item.startswith(incomplete)]


SCENARIO = FileName("scenario", "scenarios")
KEY_VALUE = _KeyValue()
SET = written("--set", metavar="KEY=VALUE")

ScenarioName = Annotated[str, SCENARIO]
GpuName = Annotated[str, FileName("gpu", "gpus")]
ModelName = Annotated[str, FileName("model", "workloads")]
Folder = Annotated[Path, click.Path(file_okay=False, path_type=Path)]
OutFolder = Annotated[Folder, "Folder to write."]
Count = Annotated[int, click.IntRange(1)]
CountOrZero = Annotated[int, click.IntRange(0)]
Share = Annotated[float, FiniteRange(0, 1, min_open=True)]
Shape = Annotated[str, "Shape of a sample, for a model without inputs: 3x224x224, tokens:128.", written("--input")]
Overrides = Annotated[tuple[str, ...], KEY_VALUE, "Set a dotted key of the scenario; may be repeated.", SET]
Where = Annotated[tuple[str, ...], "Use only these rows of tables; may be repeated.", written(metavar="COLUMN=VALUE")]
IgnoreMemory = Annotated[bool, "Predict a training that does not fit into the memory of its GPUs, too."]
IGNORED = ("ignore_memory=true",)
"""The override that `--ignore-memory` stands for."""
AsJson = Annotated[bool, "Print one JSON document and nothing else.", written("--json")]
Processes = Annotated[Count | None, "Processes on this machine.  [default: one per core]"]
Task = Annotated[str, "The task of the trainings, where there are several."]
TrainedWorkers = Annotated[
    Count | None, "At how many workers iterations are looked up in the trainings.  [default: the scenario's]"
]
TrainedBatch = Annotated[Count | None, "At which batch of a worker.  [default: the one that was run]"]


def keys_below(parent: str) -> list[str]:
    """Dotted keys one level below `parent`: each with `=`, and again with `.` where it has keys itself."""
    names = {name for part in _schemas_at(parent) for name in part.get("properties", {})}
    keys = [f"{parent}.{name}" if parent else name for name in names]
    mappings = (key for key in keys if any(part.get("properties") for part in _schemas_at(key)))
    return sorted([*(f"{key}=" for key in keys), *(f"{key}." for key in mappings)])


def values_of(key: str) -> list[str]:
    """Values that a key may have: kinds, names of configs, and words."""
    words: set[str] = set()
    for part in _schemas_at(key):
        words |= {item for item in (*part.get("enum", ()), part.get("const")) if isinstance(item, str)}
        words |= {"true", "false"} if part.get("type") == "boolean" else set()
    folders = _FOLDERS.get(key.rpartition(".")[2], ())
    return sorted(words.union(*(known_names(folder) for folder in folders)))


@cache
def _scenario_schema() -> Mapping[str, Any]:
    path = find_file("schema/scenario.json", None)
    return {} if path is None else dict(json.loads(path.read_text(encoding="utf-8")))


def _schemas_at(key: str) -> list[Mapping[str, Any]]:
    """All schemas of the scenario that the value of a dotted key may have, with references followed."""
    from simulator.loading.replacing import alternatives

    schema = _scenario_schema()
    parts: list[Any] = [*alternatives(schema, schema)]
    for name in key.split(".") if key else ():
        inner = (part.get("items") if name.isdecimal() else part.get("properties", {}).get(name) for part in parts)
        parts = [each for part in inner if isinstance(part, dict) for each in alternatives(schema, part)]
    return parts
