"""The command line: parse, call one function, print. Each module adds its commands to `main`."""

from simulator.cli import answers, calibration, figures, record, reports, runs, sweeps, traces
from simulator.cli.root import main

__all__ = ["answers", "calibration", "figures", "main", "record", "reports", "runs", "sweeps", "traces"]
