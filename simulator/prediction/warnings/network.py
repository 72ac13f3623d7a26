"""Warnings about the network: laws and curves that were not measured as they are used, and NICs that carry nothing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator.engine.plan.prices import price_steps
from simulator.fabrics.wide_area import WideArea
from simulator.models.linear_algebra import weigh
from simulator.prediction.uncertainty.inputs import Level, UncertainInput
from simulator.prediction.warnings.sizes import FACTORS, Sizes, list_factors
from simulator.prediction.warnings.warning import SizedWarning
from simulator.records import replace
from simulator.topologies.nccl import Nccl
from simulator.units import count_of, join_words, show_time

_LEVELS: dict[Level, str] = {
    "measured": "measured at other sizes",
    "transferred": "carried over from other networks",
    "assumed": "assumed",
}


def warn_of_network(sizes: Sizes) -> Iterator[SizedWarning]:
    """What is not known of the times of exchanges: one warning for all reasons, and one for NICs that are idle."""
    if sizes.scenario.cluster.workers == 1:
        return
    laws = sizes.inputs("link law")
    unknown = [item for item in laws if item.level != "measured" or not item.in_range]
    curves = [*_curves_beyond_sizes(sizes), *_unused_curves(sizes), *_foreign_curves(sizes)]
    transport = _unmeasured_transport(sizes)
    reasons = [*curves, *(transport or _unmeasured_laws(sizes, unknown))]
    if reasons:
        beyond = [item for item in sizes.inputs("collective") if not item.in_range]
        about = [*beyond, *(laws if curves else unknown)]
        yield sizes.warning("; ".join(reasons), about, sizes.seconds_of("communication_exposed"))
    yield from _idle_nics(sizes)
    yield from _short_trace(sizes)
    yield from _empty_sites(sizes)


def _curves_beyond_sizes(sizes: Sizes) -> Iterator[str]:
    """Measured collectives that were measured at other sizes."""
    names = [name for name, (_, inside) in sizes.plan.prices.curves.items() if not inside]
    if names:
        where = f"{', '.join(names)} on {sizes.scenario.cluster.network.title}"
        yield f"{where} was measured at other sizes only; the link law gives the rest"


def _unused_curves(sizes: Sizes) -> Iterator[str]:
    """That a measured curve is not used, since exchanges meet others, or their own past, on the links."""
    scenario, plan = sizes.scenario, sizes.plan
    if not (plan.live and plan.alone):
        return
    network, named = scenario.cluster.network, {primitive for primitive, _ in plan.prices.algorithms}
    found = (network.measured_curve(name, scenario.topology.kind, plan.wiring.layout) for name in sorted(named))
    unused = [item.id for item in found if item is not None]
    why = "exchanges share links" if plan.streams > 1 else "an exchange depends on those before it"
    if unused:
        yield f"{', '.join(unused)} on {network.title} is not used, since {why}; the link law is used"


def _foreign_curves(sizes: Sizes) -> Iterator[str]:
    """Curves of this number of workers that were measured at another bandwidth or latency."""
    cluster = sizes.scenario.cluster
    foreign = [item.id for item in cluster.network.foreign_curves() if item.workers == cluster.workers]
    if foreign:
        where = f"{', '.join(foreign)} on {cluster.network.title}"
        yield f"{where} was measured at another bandwidth or latency; the link law is used"


def _unmeasured_transport(sizes: Sizes) -> list[str]:
    """That what a transport leaves of the NIC's rate was not measured."""
    cluster = sizes.scenario.cluster
    transport = cluster.network.transport
    if cluster.nodes == 1 or transport is None or transport.prior_width is None:
        return []
    return [
        f"the transport {transport.kind} was not measured on {cluster.network.title}; what it leaves "
        f"of the NIC's rate is an estimate that may be wrong by a factor of {transport.prior_width:g} either way"
    ]


def _unmeasured_laws(sizes: Sizes, laws: list[UncertainInput]) -> list[str]:
    """Which parts of the link law were not measured on this network as they are used here, and how they are known."""
    known = sizes.by_effect(laws)
    parts = [
        f"{list_factors((item.id.rpartition('/')[2], item.width) for item in items)}, {words}"
        for level, words in _LEVELS.items()
        if (items := [item for item in known if item.level == level])
    ]
    where = f"{sizes.scenario.cluster.network.title} was not measured as it is used here"
    return [f"{where}: {'; '.join(parts)} ({FACTORS})"] if parts else []


def _idle_nics(sizes: Sizes) -> Iterator[SizedWarning]:
    """NICs that carry nothing although GPUs of the job sit beside them, and what that costs.

    The time is right for this topology; one that uses all NICs saves at most the difference of the exchanges, and no
    more than what is exposed of them.
    """
    scenario, plan = sizes.scenario, sizes.plan
    cluster, wiring = scenario.cluster, plan.wiring
    beside = min(cluster.network.nics_per_node, cluster.gpus_per_node)
    if beside < 2 or cluster.nodes < 2 or plan.live or scenario.topology.style != "collective":
        return
    out = [number for number, name in enumerate(wiring.names) if name.startswith("node 0 NIC") and name.endswith("out")]
    used = int((plan.prices.traffic.links[out] > 0).sum())
    if not 0 < used < beside:
        return
    times = np.bincount([step for _, step in plan.work.uses], minlength=len(plan.work.steps)).astype(float)
    own = weigh(times, plan.prices.seconds)
    wide = weigh(times, price_steps(plan.work.steps, (), replace(plan.network, topology=Nccl())).seconds)
    exposed = sizes.seconds_of("communication_exposed")
    saved = min(max(0.0, own - wide), exposed)
    yield SizedWarning(
        f"{scenario.topology.kind} uses {used} of {count_of(beside, 'NIC')} of a node: its exchanges take "
        f"{show_time(own)} in an iteration, and over all of them, as topology nccl sends, {show_time(wide)}",
        sizes.spread.time,
        exposed if saved else 0.0,
        saved,
        0.0,
    )


def _short_trace(sizes: Sizes) -> Iterator[SizedWarning]:
    """That an iteration, or a period of local steps, lasts longer than the recorded bandwidths of its links."""
    trace, time = sizes.scenario.cluster.link_trace, sizes.plan.steps * sizes.spread.time
    if trace is not None and time > trace.length:
        what = "a period" if sizes.plan.steps > 1 else "an iteration"
        yield SizedWarning(
            f"{what} lasts {show_time(time)}, but the recorded bandwidths end after {show_time(trace.length)}; "
            "the last of them holds from then on",
            sizes.spread.time,
            min(sizes.seconds_of("communication_exposed"), (time - trace.length) / sizes.plan.steps),
        )


def _empty_sites(sizes: Sizes) -> Iterator[SizedWarning]:
    """That sites of the network have no node, so that exchanges never cross the lines to them."""
    cluster = sizes.scenario.cluster
    if isinstance(cluster.network, WideArea) and (empty := cluster.network.empty_sites(cluster.nodes)):
        nodes, time = count_of(cluster.nodes, "node"), sizes.spread.time
        yield SizedWarning(
            f"no node is at {join_words(empty)}: {nodes} fill the sites of the network in order", time, time
        )
