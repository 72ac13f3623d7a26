"""What could be used instead: methods, schedules and topologies, as the keys that would be changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from simulator.component import Component, build, discover, required_fields
from simulator.scenario.scenario import Scenario
from simulator.schedulers.base import Scheduler
from simulator.sparsifiers.base import Sparsifier
from simulator.topologies.base import Topology

DENSITIES = (0.1, 0.01, 0.001)
DEFAULT_DENSITY = 0.01
BUCKETS = ("1 MiB", "4 MiB", "25 MiB", "64 MiB")
PARTITIONS = ("1 MB", "4 MB", "16 MB")
_SIZED: dict[str, list[dict[str, Any]]] = {
    "bucketed": [{"bucket_size": size} for size in BUCKETS],
    "decoupled": [{"bucket_size": size} for size in BUCKETS[1:3]],
    "priority": [{"partition": size, "credit": size} for size in PARTITIONS],
    "wfbp": [{}, {"partition": "4 MB"}],
    "sequential": [{}],
    "lags": [],
}
_BASES: dict[str, type[Component]] = {"sparsifier": Sparsifier, "scheduler": Scheduler, "topology": Topology}

Change = Mapping[str, Any] | None
"""A component as a person writes it; None: the scenario's own."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A scenario with other parts: each as it would be written, None for the scenario's own; `density` for its own."""

    sparsifier: Change = None
    scheduler: Change = None
    topology: Change = None
    density: float | None = None

    @property
    def key(self) -> tuple[str, ...]:
        """What tells candidates apart."""
        return tuple(repr(part) for part in (self.sparsifier, self.scheduler, self.topology, self.density))

    @property
    def method(self) -> tuple[str, str]:
        """What tells methods apart."""
        return repr(self.sparsifier), repr(self.density)

    @property
    def overrides(self) -> dict[str, Any]:
        """Dotted keys and values that make it of the scenario, as for `--set`."""
        parts = {"sparsifier": self.sparsifier, "scheduler": self.scheduler, "topology": self.topology}
        made = {name: dict(part) if len(part) > 1 else part["kind"] for name, part in parts.items() if part is not None}
        return made if self.density is None else {**made, "sparsifier.density": self.density}

    def of(self, scenario: Scenario) -> Scenario:
        """The scenario with these parts. Raises a validation error for parameters that a member refuses."""
        parts = {"sparsifier": self.sparsifier, "scheduler": self.scheduler, "topology": self.topology}
        update: dict[str, Any] = {
            name: build(_BASES[name], dict(part)) for name, part in parts.items() if part is not None
        }
        if self.density is not None:
            update["sparsifier"] = scenario.sparsifier.model_copy(update={"density": self.density})
        return scenario.model_copy(update={**update, "measured": None})


@dataclass(frozen=True, slots=True)
class Grid:
    """The methods, schedules and topologies to combine; the scenario's own comes first in each.

    `left_out`: what is not among them, and why.
    """

    methods: tuple[Candidate, ...]
    schedulers: tuple[Change, ...]
    topologies: tuple[Change, ...]
    left_out: tuple[str, ...] = field(default=())

    @property
    def points(self) -> int:
        """Combinations."""
        return len(self.methods) * len(self.schedulers) * len(self.topologies)


def density_of(scenario: Scenario) -> float | None:
    """The scenario's own density; None for a method without one."""
    return getattr(scenario.sparsifier, "density", None)


def candidates(scenario: Scenario, density: float) -> Grid:
    """Everything registered that fits the scenario, sparsifiers at `density`.

    Only topologies of the style that the scenario's software has (collectives, or push and pull) are taken, since the
    other style's software costs are not part of it.
    """
    methods, missing = _methods(scenario, density)
    schedulers = [None, *_schedulers(scenario)]
    topologies, foreign = _topologies(scenario)
    left_out = [f"{', '.join(missing)}: parameters of their own would have to be given"] if missing else []
    left_out.append("scheduler lags: it changes the density")
    if foreign:
        servers = scenario.topology.style == "collective"
        style = "push and pull" if servers else "collectives"
        left_out.append(f"{', '.join(foreign)}: the runtime says nothing of what the software of {style} costs")
    return Grid(tuple(methods), tuple(schedulers), (None, *topologies), tuple(left_out))


def _methods(scenario: Scenario, density: float) -> tuple[list[Candidate], list[str]]:
    own, made, missing = scenario.sparsifier, list[Candidate](), list[str]()
    if density_of(scenario) is None or density_of(scenario) == density:
        made.append(Candidate())
    else:
        made.append(Candidate(density=density))
    for kind, member in discover(Sparsifier).items():
        needed = set(required_fields(member))
        if needed - {"density"}:
            missing.append(kind)
        elif kind != own.kind:
            made.append(Candidate(sparsifier={"kind": kind} | ({"density": density} if needed else {})))
    return made, missing


def _schedulers(scenario: Scenario) -> list[Change]:
    made: list[Change] = []
    for kind, member in discover(Scheduler).items():
        if not set(required_fields(member)):
            made += [{"kind": kind} | parameters for parameters in _SIZED.get(kind, [{}])]
    return [item for item in made if item and build(Scheduler, dict(item)) != scenario.scheduler]


def _topologies(scenario: Scenario) -> tuple[list[Change], list[str]]:
    made: list[Change] = []
    foreign = []
    own = scenario.topology
    for kind, member in discover(Topology).items():
        if set(required_fields(member)) or not issubclass(member, Topology):
            continue
        if member.style != own.style:
            foreign.append(kind)
        elif kind == own.kind:
            continue
        elif kind != "hierarchical" or scenario.cluster.gpus_per_node > 1:
            made.append({"kind": kind})
    if "placement" in type(own).model_fields:
        described = own.described("json")
        other = "sharded" if described["placement"] == "round_robin" else "round_robin"
        made.append({**described, "placement": other})
    return made, foreign
