"""Versions that a result depends on: of this package, of Python and of what computes."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

_LIBRARIES = {"simpy": "SimPy", "numpy": "NumPy", "pydantic": "pydantic"}
VERSIONED = {"sparsim": "sparsim", "python": "Python", **_LIBRARIES}
"""What a result depends on, and what people call it."""


@cache
def engine_version() -> str:
    """Version of this package."""
    try:
        return version("sparsim")
    except PackageNotFoundError:
        return "0+unknown"


@cache
def _dependency_versions() -> tuple[tuple[str, str], ...]:
    return tuple((name, version(name)) for name in _LIBRARIES)


def versions() -> dict[str, str]:
    """Versions that a result depends on."""
    return {"sparsim": engine_version(), "python": platform.python_version(), **dict(_dependency_versions())}
