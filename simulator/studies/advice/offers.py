"""Which combinations the scenario's framework offers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simulator.component import Component
from simulator.scenario.scenario import Scenario
from simulator.studies.advice.availability import availability_of, frameworks_of
from simulator.studies.advice.candidates import Candidate


class Offers:
    """Whether `availability_of` calls a candidate offered; parts are looked up once, since a grid repeats them."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self._known: dict[str, frozenset[str] | None] = {}

    def __call__(self, candidate: Candidate) -> bool:
        """Raises a validation error for parameters that a member refuses."""
        own = self.scenario.cluster.runtime.framework
        if candidate.runtime:
            made = availability_of(candidate.of(self.scenario), self.scenario.topology.kind)
            return made.status == "offered"
        method = {"sparsifier": candidate.sparsifier, "density": candidate.density}
        found = [
            self._frameworks("sparsifier", method),
            self._frameworks("scheduler", {"scheduler": candidate.scheduler}),
            self._frameworks("topology", {"topology": candidate.topology}),
        ]
        known = [item for item in found if item is not None]
        if len(known) < len(found):
            return False
        common = frozenset.intersection(*known)
        return bool(common) if own == "none" else own in common

    def _frameworks(self, family: str, changes: Mapping[str, Any]) -> frozenset[str] | None:
        key = repr(changes)
        if key not in self._known:
            member: Component = getattr(Candidate(**changes).of(self.scenario), family)
            self._known[key] = frameworks_of(member, self.scenario)
        return self._known[key]
