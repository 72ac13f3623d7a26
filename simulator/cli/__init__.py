"""The command line: parse, call one function, print. Each module adds its commands to `main`."""

from importlib import import_module

from simulator.cli.root import main

__all__ = ["main"]

_MODULES = "calibration listing new papers record reports runs studies traces"

for _module in _MODULES.split():
    import_module(f"simulator.cli.{_module}")
