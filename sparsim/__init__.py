"""The public functions of `simulator` under the name of the program.

    import sparsim

    scenario = sparsim.load("quickstart", ("cluster.nodes=16",))
    sparsim.run(scenario).document["iteration_time_s"]

Everything else is imported from `simulator`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import simulator

if TYPE_CHECKING:
    from simulator import Scenario, advise, draw, explain, load, run, sweep, validate

__all__ = ["Scenario", "advise", "draw", "explain", "load", "run", "sweep", "validate"]


def __getattr__(name: str) -> Any:
    """A function of `simulator`, imported when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(simulator, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
