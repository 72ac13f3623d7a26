"""The command line: parse, call one function, print. `simulator.cli.root` says which module has which command."""

from simulator.cli.root import main

__all__ = ["main"]
