"""Versions that a result depends on: of this package, of Python and of what computes."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

VERSIONED = {"sparsim": "sparsim", "python": "Python", "simpy": "SimPy", "numpy": "NumPy", "pydantic": "pydantic"}
"""What a result depends on, and what people call it."""


@cache
def _version_of(package: str) -> str:
    try:
        return platform.python_version() if package == "python" else version(package)
    except PackageNotFoundError:
        return "0+unknown"


def versions() -> dict[str, str]:
    """Versions that a result depends on."""
    return {name: _version_of(name) for name in VERSIONED}
