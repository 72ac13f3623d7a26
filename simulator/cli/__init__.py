"""The command line: parse, call one function, print. Each module adds its commands to `main`."""

from simulator.cli import calibration, completion, kernels, quality, record, reports, runs, studies, traces, train
from simulator.cli.root import main

__all__ = [
    "calibration",
    "completion",
    "kernels",
    "main",
    "quality",
    "record",
    "reports",
    "runs",
    "studies",
    "traces",
    "train",
]
