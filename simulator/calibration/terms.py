"""Terms of a fabric that can be fitted, by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from simulator.fabrics.base import Fabric

FREE = ("bandwidth", "latency", "intra_node.bandwidth", "intra_node.latency", "collective_start_up", "copy_bandwidth")
"""Terms of a fabric that can be fitted."""
CALL_TERMS = FREE[-2:]
"""What each call of a collective takes besides the links; only several worker counts can separate the two."""


def with_terms(fabric: Fabric, values: Mapping[str, float]) -> Fabric:
    """The fabric with other values of the terms named, each one of `FREE`."""
    own: dict[str, Any] = {
        name: value if value < math.inf else None for name, value in values.items() if "." not in name
    }
    inner = {name.partition(".")[2]: value for name, value in values.items() if "." in name}
    if inner and fabric.intra_node is not None:
        own["intra_node"] = fabric.intra_node.model_copy(update=inner)
    return fabric.model_copy(update=own)


def term_of(fabric: Fabric, name: str) -> float:
    """The value of a term of `FREE`; infinite for a copy bandwidth that is not set."""
    owner, _, own = name.rpartition(".")
    value = getattr(getattr(fabric, owner) if owner else fabric, own)
    return math.inf if value is None else float(value)
