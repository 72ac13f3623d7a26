"""Simulator of data-parallel training with gradient sparsification.

    import simulator

    scenario = simulator.load("quickstart", ("cluster.nodes=16",))
    simulator.run(scenario).document["iteration_time_s"]
    simulator.explain(scenario)["terms"]
    simulator.advise(scenario)["ranking"]
    simulator.draw("break_even_map", simulator.sweep("break_even_map")).savefig("map.png")

Nothing heavy is imported before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.prediction.run import run
    from simulator.reporting.figures.making import draw
    from simulator.scenario.reading import load
    from simulator.scenario.scenario import Scenario
    from simulator.studies.advice.advice import advise
    from simulator.studies.explain.explanation import explain
    from simulator.studies.sweep.sweep import sweep
    from simulator.studies.validate.validation import validate

__all__ = ["Scenario", "advise", "draw", "explain", "load", "run", "sweep", "validate"]

_PLACES = {
    "Scenario": "simulator.scenario.scenario",
    "advise": "simulator.studies.advice.advice",
    "draw": "simulator.reporting.figures.making",
    "explain": "simulator.studies.explain.explanation",
    "load": "simulator.scenario.reading",
    "run": "simulator.prediction.run",
    "sweep": "simulator.studies.sweep.sweep",
    "validate": "simulator.studies.validate.validation",
}


def __getattr__(name: str) -> Any:
    """One of the functions above, imported when it is first asked for."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
