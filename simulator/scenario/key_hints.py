"""Which key of a scenario was meant, for keys that it does not have."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.component import Component, Spec, discover
from simulator.errors import suggest_nearest
from simulator.fabrics.base import Fabric
from simulator.hardware.gpu import Gpu
from simulator.hardware.runtime import Runtime
from simulator.scenario.cluster import Cluster
from simulator.scenario.named_parts import WorkloadSource
from simulator.scenario.scenario import Scenario
from simulator.schedulers.base import Scheduler
from simulator.sparsifiers.base import Sparsifier
from simulator.topologies.base import Topology

_PARTS: dict[str, type[Spec]] = {
    "cluster": Cluster,
    "workload": WorkloadSource,
    "sparsifier": Sparsifier,
    "scheduler": Scheduler,
    "topology": Topology,
    "cluster.network": Fabric,
    "cluster.gpu": Gpu,
    "cluster.runtime": Runtime,
}
"""The mappings of a scenario, those that are most often changed first."""


def suggest_key(name: str) -> str:
    """A hint for a key that a scenario does not have: the key below one of its parts, or the nearest of its own.

    >>> suggest_key("nodes"), suggest_key("density"), suggest_key("sparsifer")
    ("did you mean 'cluster.nodes'?", "did you mean 'sparsifier.density'?", "did you mean 'sparsifier'?")
    """
    found = next((f"{part}.{name}" for part in _PARTS if name in _keys_of(_PARTS[part])), None)
    return f"did you mean '{found}'?" if found else suggest_nearest(name, Scenario.model_fields)


def _keys_of(part: type[Spec]) -> Iterator[str]:
    """The keys of a part, of every kind where it has kinds."""
    yield from part.model_fields
    if issubclass(part, Component):
        for member in discover(part).values():
            yield from member.model_fields
