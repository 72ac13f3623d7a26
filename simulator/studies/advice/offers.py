"""Which combinations the scenario's framework offers."""

from __future__ import annotations

from simulator.component import Component
from simulator.scenario.scenario import Scenario
from simulator.studies.advice.availability import availability_of, frameworks_of
from simulator.studies.advice.candidates import Candidate


class Offers:
    """Whether `availability_of` calls a candidate offered; parts are looked up once, since a grid repeats them."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self._known: dict[tuple[str, ...], frozenset[str] | None] = {}

    def __call__(self, candidate: Candidate) -> bool:
        """Raises a validation error for parameters that a member refuses."""
        own = self.scenario.cluster.runtime.framework
        if candidate.runtime:
            made = availability_of(candidate.of(self.scenario), self.scenario.topology.kind)
            return made.status == "offered"
        parts = {
            "sparsifier": Candidate(sparsifier=candidate.sparsifier, density=candidate.density),
            "scheduler": Candidate(scheduler=candidate.scheduler),
            "topology": Candidate(topology=candidate.topology),
        }
        found = [self._frameworks(family, part) for family, part in parts.items()]
        known = [item for item in found if item is not None]
        if len(known) < len(found):
            return False
        common = frozenset.intersection(*known)
        return bool(common) if own == "none" else own in common

    def _frameworks(self, family: str, part: Candidate) -> frozenset[str] | None:
        key = (family, *part.key)
        if key not in self._known:
            member: Component = getattr(part.of(self.scenario), family)
            self._known[key] = frameworks_of(member, self.scenario)
        return self._known[key]
