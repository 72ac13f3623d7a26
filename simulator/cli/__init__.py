"""The command line: parse, call one function, print. Each module adds its commands to `main`."""

from importlib import import_module

from simulator.cli.root import main

__all__ = ["main"]

for _module in (
    *(
        "calibration",
        "collective",
        "completion",
        "kernels",
        "link",
        "new",
        "papers",
        "plan",
        "quality",
        "record",
        "reports",
        "runs",
    ),
    *("schedule", "serve", "studies", "traces", "train", "workload"),
):
    import_module(f"simulator.cli.{_module}")
