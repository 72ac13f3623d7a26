"""A workload as a YAML file that a scenario can name."""

from __future__ import annotations

from pathlib import Path

import yaml

from simulator.architectures.describing import written
from simulator.files import write_text
from simulator.models.layers import Workload


def write_workload(path: Path, workload: Workload) -> None:
    """Write a workload: a described model as its description, any other with its layers and their times."""
    made = written(workload)
    text = yaml.safe_dump(
        made or workload.model_dump(mode="json", exclude_defaults=True),
        sort_keys=False,
        default_flow_style=None,
        width=120,
        allow_unicode=True,
    )
    write_text(path, text)
