"""Warnings about the training framework: constants that nobody measured here, and the slowdown of compute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simulator.hardware.runtime import RUNTIME_COSTS
from simulator.prediction.uncertainty.inputs import UncertainInput
from simulator.prediction.uncertainty.software import ABSENT, STATED, is_slowdown_unknown, slowdown_spread
from simulator.prediction.warnings.sizes import FACTORS, Sizes, list_factors
from simulator.prediction.warnings.warning import SizedWarning
from simulator.units import show_bytes


def warn_of_software(sizes: Sizes) -> Iterator[SizedWarning]:
    """What is not known of the runtime's costs in this iteration."""
    absent = sizes.inputs(ABSENT)
    stated = [item for item in sizes.inputs(STATED) if item.level != "measured" or not item.in_range]
    if text := _describe_transport(sizes) or _describe_costs(sizes, stated):
        yield sizes.warning(text, stated)
    if absent:
        yield _taken_as_nothing(sizes, absent)
    if is_slowdown_unknown(sizes.scenario, sizes.plan):
        yield _slowdown(sizes)


def _slowdown(sizes: Sizes) -> SizedWarning:
    """That the slowdown is not known of this model. Its ends are a spread above and below, and it is not below 0."""
    scenario, value, spread = sizes.scenario, sizes.plan.slowdown, slowdown_spread(sizes.scenario)
    known = [apart for item in sizes.inputs("prior") if (apart := sizes.apart(item)) is not None]
    what = "the middle of what other set-ups show"
    if not scenario.cluster.runtime.slowdown_width:
        what = f"that of {scenario.cluster.runtime.name} with other models, or taken as 0 since nobody measured it"
    return sizes.warning(
        f"how much collectives slow kernels down was not measured here; {100 * value:.0f} % is {what}, and may be "
        f"wrong by {100 * spread:.0f} percentage points either way",
        sizes.inputs("prior"),
        sum(known) * value / (spread + min(spread, value)) if known and value else None,
    )


def _describe_costs(sizes: Sizes, costs: list[UncertainInput]) -> str:
    """Which costs of the runtime are assumed, or used outside what they were fitted to."""
    runtime, named = sizes.scenario.cluster.runtime, [(_label(item), item.width) for item in sizes.by_effect(costs)]
    return f"not measured for {runtime.name}: {list_factors(named)} ({FACTORS})" if named else ""


def _taken_as_nothing(sizes: Sizes, costs: Sequence[UncertainInput]) -> SizedWarning:
    """Which costs the runtime does not state although they arise: the iteration may be longer, and touches none."""
    runtime, labels = sizes.scenario.cluster.runtime, [_label(item) for item in sizes.by_effect(costs)]
    text = f"taken as 0, since nobody measured it for {runtime.name}, and sized by the largest of other set-ups"
    made = sizes.warning(f"{', '.join(labels)}: {text}", costs)
    return made._replace(seconds=None, less=made.less or 0.0)


def _label(cost: UncertainInput) -> str:
    return RUNTIME_COSTS[cost.id.rpartition("/")[2]].label


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
