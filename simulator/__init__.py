"""Simulator of data-parallel training with gradient sparsification.

    import simulator

    result = simulator.run("quickstart", cluster={"nodes": 16})
    result.iteration_time, result.breakdown, result.verdict
    simulator.explain("quickstart").terms
    simulator.advise("quickstart").ranking
    simulator.sweep("quickstart", {"cluster.nodes": [2, 4, 8]})
    simulator.draw("break_even_map", simulator.sweep("break_even_map")).savefig("map.png")

Nothing heavy is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator import record as record
    from simulator.api.result import Result, run
    from simulator.api.simulating import simulation
    from simulator.api.studies import advise, explain, quality, validate
    from simulator.api.sweeping import sweep
    from simulator.errors import InputError
    from simulator.reporting.figures.making import draw
    from simulator.scenario.reading import load
    from simulator.scenario.scenario import Scenario

__all__ = [
    "InputError", "Result", "Scenario", "advise", "draw", "explain", "load", "quality", "run", "simulation", "sweep",
    "validate",
]  # fmt: skip

_PLACES = {
    "InputError": "simulator.errors",
    "Result": "simulator.api.result",
    "Scenario": "simulator.scenario.scenario",
    "advise": "simulator.api.studies",
    "draw": "simulator.reporting.figures.making",
    "explain": "simulator.api.studies",
    "load": "simulator.scenario.reading",
    "quality": "simulator.api.studies",
    "run": "simulator.api.result",
    "simulation": "simulator.api.simulating",
    "sweep": "simulator.api.sweeping",
    "validate": "simulator.api.studies",
}


def __getattr__(name: str) -> Any:
    """One of the functions above, or `record`, imported when it is first asked for."""
    if name == "record":
        return import_module("simulator.record")
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "record"})
