"""Placeholder until measured."""

from __future__ import annotations

from typing import Literal, NamedTuple

from simulator.hardware.runtime import Runtime, TransportKind


class ConstantWidth(NamedTuple):
    """Factor by which a constant may be wrong."""

    width: float
    level: Literal["measured", "transferred", "assumed"]
    source: str


def constant_width(runtime: Runtime, name: str, transport: TransportKind | None) -> ConstantWidth:
    """Placeholder."""
    return ConstantWidth(max(1.3, runtime.width_over(transport)), "assumed", "prior")
