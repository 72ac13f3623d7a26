"""Results on disk: written whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from simulator.errors import InputError, Problem
from simulator.scenario import Scenario


def store(folder: Path, scenario: Scenario, document: dict[str, Any]) -> None:
    """Write `result.json` and the resolved `scenario.yaml`. Raises InputError where the folder can't be written."""
    write_text(folder / "scenario.yaml", f"# digest {scenario.digest}\n{as_yaml(scenario.resolved())}")
    write_text(folder / "result.json", json.dumps(document, indent=2, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a file atomically: a reader sees the old one or the new one, never a part."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(name, 0o644)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(Problem(str(path), "a place that can be written", error.strerror or str(error))) from None


def as_yaml(data: Any) -> str:
    """A resolved scenario as YAML that `run` reads again: quantities carry their SI unit."""
    import yaml

    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=110)
