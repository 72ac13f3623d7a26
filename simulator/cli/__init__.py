"""The command line: parse, call one function, print. Each module adds its commands to `main`."""

from simulator.cli import (
    calibration,
    completion,
    kernels,
    link,
    new,
    papers,
    plan,
    quality,
    record,
    reports,
    runs,
    schedule,
    serve,
    studies,
    traces,
    train,
    workload,
)
from simulator.cli.root import main

__all__ = [
    "calibration",
    "completion",
    "kernels",
    "link",
    "main",
    "new",
    "papers",
    "plan",
    "quality",
    "record",
    "reports",
    "runs",
    "schedule",
    "serve",
    "studies",
    "traces",
    "train",
    "workload",
]
