"""A workload by itself: by its name, from its file or from a config.json, with some of its keys replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simulator.architectures.describing import written
from simulator.loading.documents import Document
from simulator.loading.finding import find_file, missing_file_error
from simulator.loading.problems import validate_document
from simulator.loading.replacing import parse_setting, replace_key
from simulator.models.layers import Workload
from simulator.scenario.named_parts import WORKLOADS


def read_workload(name: str, overrides: tuple[str, ...] = (), batch_size: int | None = None) -> Workload:
    """A workload by its name, its YAML file, or the config.json of a model, with `key=value` overrides applied.

    `batch_size`: samples of a step; none: those of the workload, and 1 for a config.json. Raises InputError with every
    problem.
    """
    workload = _replaced(_written(name, batch_size), overrides, name)
    if batch_size is None or batch_size == workload.batch_size:
        return workload
    if workload.origin is not None:
        return with_overrides(workload, (f"batch_size={batch_size}",))
    return workload.rescaled(batch_size)


def with_overrides(workload: Workload, overrides: tuple[str, ...]) -> Workload:
    """A described workload with `key=value` overrides applied. Raises InputError with every problem."""
    return _replaced(written(workload), overrides, workload.name) if overrides else workload


def _replaced(value: Any, overrides: tuple[str, ...], name: str) -> Workload:
    data: dict[str, Any] = {"workload": value}
    for item in overrides:
        key, changed = parse_setting(item, "layers=16")
        data = replace_key(data, f"workload.{key}", changed, Path())
    made: Workload = validate_document(WORKLOADS.validate_python, Document(name, data["workload"], {}))
    return made


def _written(name: str, batch_size: int | None) -> Any:
    """What would stand for this workload in a scenario."""
    path = Path(name)
    if path.name.endswith(".json") or (path.is_dir() and (path / "config.json").is_file()):
        return {"config": name, "batch_size": batch_size or 1}
    for candidate in (name, f"workloads/{name}"):
        if find_file(candidate, None) is not None:
            return candidate
    raise missing_file_error(name if name.startswith("workloads/") else f"workloads/{name}", "workloads", "MODEL")
