"""A scenario with something changed: one value, or a whole cost removed."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from simulator.bounds import BOUNDS
from simulator.hardware.runtime import RUNTIME_COSTS
from simulator.models.exchange import Bucket, Selection
from simulator.models.overlap import ScaleMixture
from simulator.prediction.run import plan_of
from simulator.scenario.changes import INFINITE, with_value, without_spread
from simulator.scenario.cluster import Stragglers
from simulator.scenario.scenario import Mixture, Scenario
from simulator.sparsifiers.base import Sparsifier, Style
from simulator.sparsifiers.implementation import GOOD, Steps


def with_infinite_network(scenario: Scenario) -> Scenario:
    """Infinite bandwidth and no latency on every link, and no other traffic."""
    network = scenario.cluster.network
    changes: dict[str, Any] = {"bandwidth": INFINITE, "latency": 0.0, "measured": (), "incast": (), "transport": None}
    changes |= {"collective_start_up": 0.0, "copy_bandwidth": None}
    for key, value in (("hop_latency", 0.0), ("uplink", INFINITE), ("host", INFINITE), ("oversubscription", 1.0)):
        if getattr(network, key, None) is not None:
            changes[key] = value
    changes |= network.times(INFINITE, 0.0)
    inside = network.intra_node
    if inside is not None:
        update = {"bandwidth": INFINITE, "latency": 0.0, "host": INFINITE if inside.host is not None else None}
        changes["intra_node"] = inside.model_copy(update=update)
    runtime = scenario.cluster.runtime.model_copy(update={"endpoint_bandwidth": None, "server_bandwidth": None})
    cluster = {"network": network.model_copy(update=changes), "runtime": runtime, "links": (), "background": ()}
    cluster |= {"link_trace": None}
    return with_value(scenario, "cluster", scenario.cluster.model_copy(update=cluster))


def with_free_selection(scenario: Scenario) -> Scenario:
    """The scenario with a selection that takes no time."""
    sparsifier = scenario.sparsifier
    fields = {name: getattr(sparsifier, name) for name in type(sparsifier).model_fields}
    return with_value(scenario, "sparsifier", _without_selection(type(sparsifier)).model_construct(**fields))


@lru_cache(maxsize=64)
def _without_selection(kind: type[Sparsifier]) -> type[Sparsifier]:
    class Free(kind):  # type: ignore[misc, valid-type]
        """A method without kernels before its exchange."""

        def carry_out(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> Steps:
            return [], kind.carry_out(self, selection, bucket, workers, style)[1]

    Free.__qualname__ = f"Free{kind.__name__}"  # the name is part of a spec's fingerprint
    return Free


def with_good_implementation(scenario: Scenario) -> Scenario:
    """The scenario with one fused call per kernel, one gather per payload, and no reads by the host."""
    return with_value(scenario, "sparsifier.implementation", GOOD)


def without_software(scenario: Scenario) -> Scenario:
    """No negotiation, launch or copy around an exchange."""
    free = dict.fromkeys((name for name, cost in RUNTIME_COSTS.items() if cost.per_call), 0.0)
    return with_value(scenario, "cluster.runtime", scenario.cluster.runtime.model_copy(update=free))


def without_stragglers(scenario: Scenario) -> Scenario:
    """All workers alike in every iteration: no jitter, slow workers, other GPUs or kernels whose time varies."""
    cluster = {"stragglers": Stragglers(), "gpu": without_spread(scenario.cluster.gpu), "other_gpus": ()}
    return with_value(scenario, "cluster", scenario.cluster.model_copy(update=cluster))


def without_replay(scenario: Scenario) -> tuple[Scenario, str]:
    """The scenario with selections in closed form, for studies of many runs, and a note that says so.

    The overlap law fitted to its trace replaces the replay, unless the scenario states one.
    """
    if not scenario.workload.gradients:
        return scenario, ""
    note = "selections from a formula instead of a replay of the trace"
    bare = with_value(scenario, "workload.gradients", "")
    if scenario.cluster.workers == 1 or scenario.overlap_concentration is not None or scenario.overlap_mixture:
        return bare, note
    from simulator.prediction.recorded_inputs import fitted_law

    law = fitted_law(scenario, plan_of(scenario).work.buckets)
    if isinstance(law, ScaleMixture) and law.spread > 0:
        bare = with_value(bare, "overlap_mixture", Mixture(spread=law.spread, core=law.core, silent=law.silent))
    elif isinstance(law, float):
        bare = with_value(bare, "overlap_concentration", min(law, BOUNDS["concentration"].largest))
    else:
        return bare, note
    return bare, f"{note}, with the overlap law fitted to that trace"
