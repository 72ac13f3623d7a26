"""The command line: parse, call one function, print. Each module adds its commands to `main`."""

from simulator.cli import (
    answers,
    calibration,
    compare,
    completion,
    figures,
    record,
    reports,
    runs,
    sweeps,
    timeline,
    traces,
)
from simulator.cli.root import main

__all__ = [
    "answers",
    "calibration",
    "compare",
    "completion",
    "figures",
    "main",
    "record",
    "reports",
    "runs",
    "sweeps",
    "timeline",
    "traces",
]
