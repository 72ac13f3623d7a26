"""The public functions of `simulator` under the name of the program.

    import sparsim

    sparsim.run("quickstart", cluster={"nodes": 16}).iteration_time

Everything else is imported from `simulator`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import simulator

if TYPE_CHECKING:
    from simulator import (
        InputError,
        Result,
        Scenario,
        advise,
        draw,
        explain,
        load,
        quality,
        run,
        simulation,
        sweep,
        validate,
    )
    from simulator import record as record

__all__ = [
    "InputError", "Result", "Scenario", "advise", "draw", "explain", "load", "quality", "run", "simulation", "sweep",
    "validate",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """A function of `simulator`, or `record`, imported when it is first used."""
    if name != "record" and name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(simulator, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "record"})
