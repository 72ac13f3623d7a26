"""The command line: parse, call one function, print. Each module adds its commands to `main`."""

from simulator.cli import answers, calibration, compare, completion, figures, record, runs, sweeps, timeline, traces
from simulator.cli.root import main

__all__ = [
    "answers",
    "calibration",
    "compare",
    "completion",
    "figures",
    "main",
    "record",
    "runs",
    "sweeps",
    "timeline",
    "traces",
]
