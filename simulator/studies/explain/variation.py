"""A scenario with something changed: one value, or a whole cost taken away."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

from simulator.component import Spec
from simulator.models.curves import Affine, Curve, NLogN
from simulator.models.exchange import Bucket, Compute, Selection
from simulator.models.hardware import Gpu
from simulator.models.overlap import INDEPENDENT, ScaleMixture
from simulator.prediction.recorded_inputs import fitted_law
from simulator.prediction.run import plan_of
from simulator.scenario.cluster import Stragglers
from simulator.scenario.scenario import Mixture, Scenario
from simulator.sparsifiers.base import Sparsifier

AnySpec = TypeVar("AnySpec", bound=Spec)
ENDLESS = 1e18
"""Bytes per second that stand for an infinite bandwidth."""


def put(spec: AnySpec, key: str, value: Any) -> AnySpec:
    """A copy with the dotted `key` set to a value that is valid already."""
    head, _, rest = key.partition(".")
    return spec.model_copy(update={head: put(getattr(spec, head), rest, value) if rest else value})


def get(spec: Spec, key: str) -> Any:
    """What stands at a dotted key; None where something on the way is absent."""
    value: Any = spec
    for part in key.split("."):
        value = getattr(value, part, None)
    return value


def without_curves(scenario: Scenario) -> Scenario:
    """By the link law alone: a measured collective holds at one bandwidth and latency only."""
    return put(scenario, "cluster.network.measured", ())


def infinite_network(scenario: Scenario) -> Scenario:
    """Every link endless and instant, nobody else on it."""
    network = scenario.cluster.network
    changes: dict[str, Any] = {"bandwidth": ENDLESS, "latency": 0.0, "measured": (), "incast": ()}
    changes |= {"collective_start_up": 0.0, "copy_bandwidth": None}
    for key, value in (("hop_latency", 0.0), ("uplink", ENDLESS), ("host", ENDLESS), ("oversubscription", 1.0)):
        if getattr(network, key, None) is not None:
            changes[key] = value
    inside = network.intra_node
    if inside is not None:
        update = {"bandwidth": ENDLESS, "latency": 0.0, "host": ENDLESS if inside.host is not None else None}
        changes["intra_node"] = inside.model_copy(update=update)
    runtime = scenario.cluster.runtime.model_copy(update={"endpoint_bandwidth": None})
    cluster = {"network": network.model_copy(update=changes), "runtime": runtime, "links": (), "background": ()}
    return scenario.model_copy(update={"cluster": scenario.cluster.model_copy(update=cluster)})


def free_selection(scenario: Scenario) -> Scenario:
    """The same method, whose selection takes no time."""
    sparsifier = scenario.sparsifier
    fields = {name: getattr(sparsifier, name) for name in type(sparsifier).model_fields}
    return scenario.model_copy(update={"sparsifier": _free(type(sparsifier)).model_construct(**fields)})


@lru_cache(maxsize=64)
def _free(kind: type[Sparsifier]) -> type[Sparsifier]:
    class Free(kind):  # type: ignore[misc, valid-type]
        """A method without kernels before its exchange."""

        def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
            return []

    Free.__qualname__ = f"Free{kind.__name__}"  # the name is part of a spec's fingerprint
    return Free


def no_software(scenario: Scenario) -> Scenario:
    """Nothing to negotiate, to launch or to copy around an exchange."""
    free = dict.fromkeys(("negotiation", "cycle_time", "collective_launch", "gather_overhead", "message_overhead"), 0.0)
    return put(scenario, "cluster.runtime", scenario.cluster.runtime.model_copy(update=free))


def no_stragglers(scenario: Scenario) -> Scenario:
    """All workers alike in every iteration: no jitter, no slow worker, no other GPUs, no kernel that varies."""
    cluster = {"stragglers": Stragglers(), "gpu": _steady(scenario.cluster.gpu), "other_gpus": ()}
    return scenario.model_copy(update={"cluster": scenario.cluster.model_copy(update=cluster)})


def calm(scenario: Scenario) -> Scenario:
    """Without what is random from iteration to iteration, so that one iteration stands for all."""
    cluster = scenario.cluster
    others = tuple(item.model_copy(update={"gpu": _steady(item.gpu)}) for item in cluster.other_gpus)
    stragglers = cluster.stragglers.model_copy(update={"jitter": 0.0})
    changes = {"stragglers": stragglers, "gpu": _steady(cluster.gpu), "other_gpus": others}
    return scenario.model_copy(update={"cluster": cluster.model_copy(update=changes)})


def _steady(gpu: Gpu) -> Gpu:
    if not any(curve.spread for curve in gpu.kernels.values()):
        return gpu
    kernels = {name: curve.model_copy(update={"spread": 0.0}) for name, curve in gpu.kernels.items()}
    return gpu.model_copy(update={"kernels": kernels})


def scaled_curve(curve: Curve, factor: float) -> Curve:
    """A curve whose every time is `factor` times as long."""
    if isinstance(curve, Affine):
        return curve.model_copy(update={"intercept": curve.intercept * factor, "slope": curve.slope * factor})
    if isinstance(curve, NLogN):
        update = {"intercept": curve.intercept * factor, "coefficient": curve.coefficient * factor}
        return curve.model_copy(update=update)
    return curve.model_copy(update={"points": tuple((size, seconds * factor) for size, seconds in curve.points)})


def scaled_compute(scenario: Scenario, factor: float) -> Scenario:
    """A model whose step takes `factor` times as long on one GPU."""
    workload = scenario.workload
    if workload.compute_time is not None:
        return put(scenario, "workload.compute_time", workload.compute_time * factor)
    layers = tuple(
        layer.model_copy(update={"forward": layer.forward * factor, "backward": layer.backward * factor})
        for layer in workload.layers
    )
    return put(scenario, "workload.layers", layers)


def closed_form(scenario: Scenario) -> tuple[Scenario, str]:
    """The scenario without replay, for studies of many runs, and a note that says so.

    The overlap law fitted to its trace takes the replay's place, unless the scenario states one.
    """
    if not scenario.workload.gradients:
        return scenario, ""
    note = "selection in closed form, not replayed on the trace"
    bare = put(scenario, "workload.gradients", "")
    if scenario.cluster.workers == 1 or scenario.overlap_concentration is not None or scenario.overlap_mixture:
        return bare, note
    law = fitted_law(scenario, plan_of(scenario).work.buckets)
    if isinstance(law, ScaleMixture) and law.spread > 0:
        changes: dict[str, Any] = {"overlap_mixture": Mixture(spread=law.spread, core=law.core)}
    elif isinstance(law, float) and law < INDEPENDENT:
        changes = {"overlap_concentration": law}
    else:
        return bare, note
    return bare.model_copy(update=changes), f"{note}; unions by the law fitted to it"
