"""What a plan may change: bandwidth, local steps, density or number of machines."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError

from simulator.errors import InputError, Problem, suggest_nearest
from simulator.loading.documents import Document, problems_of
from simulator.records import replace
from simulator.scenario.changes import value_at
from simulator.scenario.cluster import Cluster
from simulator.scenario.scenario import Scenario
from simulator.studies.variants.crossing import VariedKey
from simulator.units import show_bandwidth

_MOST_NODES = 1024
_MOST_FOLLOWED = 64
"""GPUs that are tried where every message is followed: a run takes about as long as their square."""
_RATES = ("cluster.network.between.rate", "cluster.network.bandwidth")
"""Where the bandwidth stands that limits exchanges: of the lines between sites, where there are any, or of the NICs."""
NAMES = ("bandwidth", "inner_steps", "density", "nodes")


class Unknown(VariedKey, kw_only=True):
    """An axis of the scenario, its name, and whether as little as possible is wanted.

    `least`: whether the least value that meets the target is asked for, or the most; of nodes, whichever end of their
    range meets it.
    """

    name: str
    least: bool

    def at(self, scenario: Scenario, value: float) -> Scenario:
        """The scenario with that value. Raises InputError where it does not fit the others."""
        made = VariedKey.at(self, scenario, value)
        if self.name != "nodes":
            return made
        try:
            return Scenario.model_validate(made.resolved())
        except ValidationError as error:
            raise InputError(problems_of(error, Document(f"with {round(value)} nodes", None, {}))) from None

    def with_few_nodes(self, cluster: Cluster) -> Unknown:
        """Up to twice the nodes of a cluster, or `_MOST_FOLLOWED` GPUs, where it is their number."""
        most = max(2 * cluster.nodes, _MOST_FOLLOWED // cluster.gpus_per_node)
        return replace(self, tried=tuple(value for value in self.tried if self.name != "nodes" or value <= most))

    def show(self, value: float) -> str:
        """A value with its unit."""
        if self.name == "bandwidth":
            return show_bandwidth(value)
        return f"{round(value):,}" if self.whole else f"{value:.4g}"


class Fixed(Unknown, kw_only=True):
    """An axis that a scenario does not have, along which it stays as it is."""

    def at(self, scenario: Scenario, value: float) -> Scenario:
        """The scenario as it is."""
        return scenario


def unknowns_of(scenario: Scenario, wanted: Sequence[str] = ()) -> list[Unknown]:
    """The unknowns of those names that the scenario has; without names all of them.

    Raises InputError for an unknown name, and for one that the scenario has no value of.
    """
    wrong = [name for name in wanted if name not in NAMES]
    if wrong:
        raise InputError(
            [Problem("vary", f"one of {', '.join(NAMES)}", f"'{n}'", suggest_nearest(n, NAMES)) for n in wrong]
        )
    known = {item.name: item for item in _all(scenario)}
    absent = [name for name in wanted if name not in known]
    if absent:
        hints = {
            "inner_steps": f"scheduler {scenario.scheduler.kind} exchanges gradients in every step",
            "density": f"sparsifier {scenario.sparsifier.kind} has no density",
        }
        raise InputError(
            [Problem("vary", f"a scenario with {n}", f"'{scenario.name}'", hints.get(n, "")) for n in absent]
        )
    return [known[name] for name in (wanted or known)]


def _all(scenario: Scenario) -> list[Unknown]:
    cluster, rates, made = scenario.cluster, tuple(10 ** (exponent / 2) for exponent in range(6, 29)), list[Unknown]()
    if cluster.nodes > 1:
        key = next(key for key in _RATES if value_at(scenario, key) is not None)
        made.append(Unknown(key, rates, name="bandwidth", least=True))
    if value_at(scenario, "scheduler.inner_steps") is not None:
        steps = tuple(float(2**power) for power in range(20))
        made.append(Unknown("scheduler.inner_steps", steps, whole=True, name="inner_steps", least=True))
    if value_at(scenario, "sparsifier.density") is not None:
        densities = tuple(10 ** (power / 2) for power in range(-12, 1))
        made.append(Unknown("sparsifier.density", densities, name="density", least=False))
    most = max(_MOST_NODES // cluster.gpus_per_node, 2)
    nodes = tuple(float(2**power) for power in range(1, 11) if 2**power <= most)
    made.append(Unknown("cluster.nodes", nodes, whole=True, name="nodes", least=True))
    return made
