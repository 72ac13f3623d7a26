"""Versions that a result depends on: of this package, of Python and of what computes."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def engine_version() -> str:
    """Version of this package."""
    try:
        return version("sparsim")
    except PackageNotFoundError:
        return "0+unknown"


@cache
def _dependency_versions() -> tuple[tuple[str, str], ...]:
    return tuple((name, version(name)) for name in ("simpy", "numpy", "pydantic"))


def versions() -> dict[str, str]:
    """Versions that a result depends on."""
    return {"sparsim": engine_version(), "python": platform.python_version(), **dict(_dependency_versions())}
