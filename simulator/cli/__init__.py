"""The command line: parse, call one function, print. Each module adds its commands to `main`."""

from simulator.cli import calibration, completion, kernels, papers, record, reports, runs, studies, traces
from simulator.cli.root import main

__all__ = ["calibration", "completion", "kernels", "main", "papers", "record", "reports", "runs", "studies", "traces"]
