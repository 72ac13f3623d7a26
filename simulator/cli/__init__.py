"""The command line: parse, call one function, print. Each module adds its commands to `main`."""

from simulator.cli import calibration, record, runs, sweeps, traces
from simulator.cli.root import main

__all__ = ["calibration", "main", "record", "runs", "sweeps", "traces"]
