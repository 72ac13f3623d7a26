"""Layers of a workload from a CSV file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simulator.errors import InputError, Problem
from simulator.traces.format.texts import read_layers as read_trace_layers


def read_layers(path: Path) -> list[dict[str, Any]]:
    """Rows of a `layers.csv` (name, numel, forward_s, backward_s) as layer mappings.

    Raises InputError that names file, row and column.
    """
    problems: list[Problem] = []
    layers, _ = read_trace_layers(path, problems, needed=("name", "numel", "forward_s", "backward_s"))
    if problems:
        raise InputError(problems)
    return [
        {"name": item.name, "numel": item.numel, "forward": f"{item.forward!r} s", "backward": f"{item.backward!r} s"}
        for item in layers
    ]
