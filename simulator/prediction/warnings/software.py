"""Warnings about the training framework: constants that nobody measured here, and the slowdown of compute."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.hardware.runtime import RUNTIME_COSTS
from simulator.prediction.uncertainty.inputs import UncertainInput
from simulator.prediction.uncertainty.software import is_slowdown_estimated
from simulator.prediction.warnings.sizes import FACTORS, Sizes, list_factors
from simulator.prediction.warnings.warning import SizedWarning
from simulator.units import show_bytes


def warn_of_software(sizes: Sizes) -> Iterator[SizedWarning]:
    """What is not known of the runtime's costs in this iteration."""
    constants = [item for item in sizes.inputs("constant") if item.level != "measured" or not item.in_range]
    text = _describe_transport(sizes) or _describe_constants(sizes, constants)
    if text:
        yield sizes.warning(text, constants)
    if is_slowdown_estimated(sizes.scenario, sizes.plan):
        yield _slowdown(sizes)


def _slowdown(sizes: Sizes) -> SizedWarning:
    """That the slowdown is an estimate. Its ends are a share of it above and below, and it is not below 0."""
    share = sizes.scenario.cluster.runtime.slowdown_width
    known = [apart for item in sizes.inputs("prior") if (apart := sizes.apart(item)) is not None]
    return sizes.warning(
        f"how much collectives slow kernels down was not measured here; {100 * sizes.plan.slowdown:.0f} % is the "
        f"middle of what other set-ups show, and may be wrong by {100 * share:.0f} % of it either way",
        sizes.inputs("prior"),
        sum(known) / (share + min(1.0, share)) if known else None,
    )


def _describe_constants(sizes: Sizes, constants: list[UncertainInput]) -> str:
    """Which constants of the runtime are assumed, or used outside what they were fitted to."""
    named = [(RUNTIME_COSTS[item.id.rpartition("/")[2]].label, item.width) for item in sizes.by_effect(constants)]
    runtime = sizes.scenario.cluster.runtime
    return f"not measured for {runtime.name}: {list_factors(named)} ({FACTORS})" if named else ""


def _describe_transport(sizes: Sizes) -> str:
    """That the runtime was fitted over another transport than that of the network."""
    cluster = sizes.scenario.cluster
    network, runtime = cluster.network, cluster.runtime
    if cluster.nodes == 1 or runtime.fitted_for is None or not runtime.is_prior_over(network.transport_kind):
        return ""
    kind = network.transport_kind
    where = f"{runtime.name} was fitted over {runtime.fitted_for.transport}, and this network is {kind}"
    prior, bare, width = runtime.prior_over(kind), runtime.over(kind), runtime.width_over(kind)
    if runtime.endpoint_bandwidth == bare.endpoint_bandwidth:
        return f"{where}: its costs may be wrong by a factor of {width:g} either way"
    instead = "only the network limits its endpoints"
    if prior is not None and prior.endpoint_bandwidth is not None:
        instead = f"{show_bytes(prior.endpoint_bandwidth)}/s per endpoint is estimated from the hardware"
    return f"{where}: {instead}, which may be wrong by a factor of {width:g}"
