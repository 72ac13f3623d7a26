"""Laws of networks fitted to whole collectives: links over which rounds are folded, and NCCL by its steps and hops."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from simulator.calibration.collectives import Key
from simulator.calibration.fits.families import Repeats, robust_log_fit
from simulator.component import build
from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.phases import collective_rounds
from simulator.engine.plan.prices import price_steps
from simulator.engine.rounds.fold import fold
from simulator.fabrics.base import Fabric
from simulator.models.curves import Floats
from simulator.models.exchange import PRIMITIVES
from simulator.records import Record, replace
from simulator.scenario.changes import value_at, with_value
from simulator.topologies.base import Topology, ring_pass
from simulator.topologies.nccl import Nccl

FREE = ("bandwidth", "latency", "intra_node.bandwidth", "intra_node.latency", "collective_start_up", "copy_bandwidth")
"""Terms of a fabric that can be fitted."""
CALL_TERMS = FREE[-2:]
"""What each call of a collective takes besides the links; only several worker counts can separate the two."""


def with_terms(fabric: Fabric, values: Mapping[str, float]) -> Fabric:
    """The fabric with other values of the terms named, each one of `FREE`."""
    for name, value in values.items():
        fabric = with_value(fabric, name, value if value < math.inf else None)
    return fabric


def term_of(fabric: Fabric, name: str) -> float:
    """The value of a term of `FREE`; infinite for a copy bandwidth that is not set."""
    value = value_at(fabric, name)
    return math.inf if value is None else float(value)


IN_SWITCH = "in_switch"
"""Algorithm without a topology in the simulator: the switch computes the sum (NVLink SHARP, NCCL's NVLS)."""
MOST_SIZES = 40
_SLIGHT = 0.05
_UNSEEN = 0.01
_PULL = 1e-3
_FARTHEST = 12.0


class LinkLaw(Record):
    """Seconds of a collective: the cost of the call, and the fold of its rounds over `fabric`.

    `unseen`: terms that the measurements do not determine.
    """

    fabric: Fabric
    algorithm: str
    unseen: tuple[str, ...] = ()

    def time(self, key: Key, nbytes: Floats) -> Floats:
        """Seconds for payloads (b,)."""
        return self.fabric.added_seconds(nbytes) + self.folded(key, nbytes)

    def folded(self, key: Key, nbytes: Floats) -> Floats:
        """Seconds on the links, with all workers ready at once."""
        if self.algorithm == IN_SWITCH:
            # A reduced read sends all and gets a part, a multicast write sends a part and gets the rest: S (1 + 1/p).
            rounds = ring_pass(np.arange(key.workers), nbytes[:, None] * (1 + 1 / key.workers), 1)
        else:
            gathers = key.primitive == "all_gather"
            payload = nbytes[:, None] / key.workers + np.zeros(key.workers) if gathers else nbytes
            topology = build(Topology, self.algorithm)
            rounds = collective_rounds(key.primitive, payload, topology, self.fabric, key.layout)
        factor = self.fabric.protocol_factor(nbytes, key.workers)
        wiring, ready = self.fabric.wire(key.layout), np.zeros(key.layout.places)
        times: Floats = fold(rounds, wiring, ready, factor=factor).max(axis=1)
        return times


def all_times(law: LinkLaw | NcclLaw, series: Mapping[Key, Repeats]) -> Floats:
    """Seconds of a law at every size of the series."""
    return np.concatenate([law.time(key, item.sizes) for key, item in series.items()])


def all_seconds(series: Mapping[Key, Repeats]) -> Floats:
    """Measured seconds at every size of the series."""
    return np.concatenate([item.seconds for item in series.values()])


def fit_law(series: Mapping[Key, Repeats], base: Fabric, algorithm: str, free: Sequence[str]) -> LinkLaw:
    """Fit the terms `free` of `base` to series, on relative error, robustly.

    Every series counts with up to 40 sizes, evenly spaced on the log axis. With one worker count the data do not
    separate the start-up of a call from latency, nor copies from links. A weak penalty then attributes the time to
    `collective_start_up` and to the links: 5 % of the share of time that latency and copies would take.
    """
    thin = {key: _thin_out(item) for key, item in series.items()}
    start = _start_values(thin, base, free)
    names, origin = list(start), np.log(np.array(list(start.values())))
    measured = np.log(all_seconds(thin))

    def law(parameters: Floats) -> LinkLaw:
        held = np.exp(np.clip(parameters, origin - _FARTHEST, origin + _FARTHEST))
        return LinkLaw(with_terms(base, dict(zip(names, held.tolist(), strict=True))), algorithm)

    def residuals(parameters: Floats) -> Floats:
        made = law(parameters)
        pulls = _pull_residuals(made, thin) if set(CALL_TERMS) <= set(names) else np.zeros(0)
        return np.concatenate([np.log(all_times(made, thin)) - measured, _PULL * (parameters - origin), pulls])

    found = robust_log_fit(residuals, origin)
    return _settle_unseen_terms(law, found, base, names, thin)


def _pull_residuals(law: LinkLaw, series: Mapping[Key, Repeats]) -> Floats:
    """The penalties: the share of latency in the smallest payload's time, and of copies in the largest payload's."""
    key, item = max(series.items(), key=lambda pair: pair[0].workers)
    ends = item.sizes[[0, -1]]
    whole, on_links = law.time(key, ends), law.folded(key, ends)
    bare = LinkLaw(with_terms(law.fabric, {"latency": 0.0}), law.algorithm).folded(key, ends)
    copied = whole[1] - on_links[1] - law.fabric.collective_start_up
    return _SLIGHT * np.array([(on_links[0] - bare[0]) / whole[0], copied / whole[1]])


def _start_values(series: Mapping[Key, Repeats], base: Fabric, free: Sequence[str]) -> dict[str, float]:
    """Starting values: the highest bus bandwidth seen, and start-ups from the time of the smallest payload."""
    rates = [float((key.passes * item.sizes / key.workers / item.seconds).max()) for key, item in series.items()]
    hops = [float(item.seconds.min()) / key.passes for key, item in series.items()]
    slopes = np.concatenate([item.seconds / item.sizes for item in series.values()])
    guess = {
        "bandwidth": max(rates),
        "latency": 0.5 * float(np.median(hops)),
        "collective_start_up": 0.3 * min(float(item.seconds.min()) for item in series.values()),
        "copy_bandwidth": 10 / float(np.median(slopes)),
    }
    inner = {name: term_of(base, name) for name in free if "." in name}
    return {name: inner.get(name) or guess[name.rpartition(".")[2]] for name in free}


def _settle_unseen_terms(
    law: Callable[[Floats], LinkLaw], found: Floats, base: Fabric, names: Sequence[str], series: Mapping[Key, Repeats]
) -> LinkLaw:
    """The law at `found`; terms that change no prediction by 1 % when halved or doubled are marked as unseen.

    An unseen start-up or copy bandwidth keeps its value in `base`: an arbitrary one would add time elsewhere.
    """
    whole = law(found)
    usual, unseen = all_times(whole, series), []
    for place, name in enumerate(names):
        step = np.log(2.0) * (np.arange(len(found)) == place)
        if all((np.abs(all_times(law(found + turn), series) / usual - 1) < _UNSEEN).all() for turn in (-step, step)):
            unseen.append(name)
    kept = [name for name in unseen if not name.endswith("bandwidth") or name in CALL_TERMS]
    fabric = with_terms(whole.fabric, {name: term_of(base, name) for name in kept})
    return LinkLaw(fabric, whole.algorithm, tuple(unseen))


def _thin_out(item: Repeats) -> Repeats:
    if len(item.sizes) <= MOST_SIZES:
        return item
    logs = np.log(item.sizes)
    nearest = np.abs(logs[:, None] - np.linspace(logs[0], logs[-1], MOST_SIZES)).argmin(axis=0)
    return item.at(np.unique(nearest))


_LARGEST = 8.0  # sizes within this factor of the largest show the rate
_FASTER = 1.02
_LEAST_STEPS = 6  # timings of rings, below which the time of a step is not fitted
_WINDOW = 1.01  # octaves on either side from which the time of a step is the median
_SAME = 0.05
_WIDTH = 0.7  # prior standard deviation of a start-up or efficiency, on a log scale
_VERSION = re.compile(r"nccl[ _]v?(\d+)[._](\d+)", re.IGNORECASE)
_NVLS = "nvls Simple"
_LIBRARY = Nccl()


class NcclLaw(Record):
    """Seconds of NCCL's collectives on `fabric`, by the algorithms and protocols that NCCL chooses on it.

    `unseen`: terms of the fabric that the measurements say nothing about.
    """

    fabric: Fabric
    device: str = ""
    unseen: tuple[str, ...] = ()
    algorithm: ClassVar[str] = "nccl"

    def time(self, key: Key, nbytes: Floats) -> Floats:
        """Seconds for payloads (b,)."""
        network = NetworkSetup(_LIBRARY, self.fabric, self.fabric.wire(key.layout), device=self.device)
        parts = nbytes / key.workers if key.primitive == "all_gather" else nbytes
        return price_steps([PRIMITIVES[key.primitive](size) for size in parts.tolist()], (), network).seconds

    def labels(self, key: Key, nbytes: Floats) -> list[str]:
        """Algorithm and protocol of each payload (b,)."""
        made, machine = [""] * len(nbytes), self.fabric.machine(key.layout, self.device)
        for choice in _LIBRARY.choices(key.primitive, nbytes, key.layout, machine):
            for place in np.flatnonzero(choice.mask).tolist():
                made[place] = choice.label
        return made

    def with_library(self, **terms: Any) -> NcclLaw:
        """The law with other terms of the library."""
        return replace(self, fabric=_with_terms_of_nccl(self.fabric, **terms))


def describe_library(base: Fabric, settings: Sequence[str], reported: bool) -> Fabric:
    """The base with what decides NCCL's choices, as far as it is not given.

    The version is read from the settings. `reported`: the bandwidth of the base is that of the hardware, which is what
    a NIC reports to NCCL, whatever sockets reach of it.
    """
    found = _VERSION.search(" ".join(settings))
    known = base.nccl
    version = known.version or (f"{found[1]}.{found[2]}" if found else None)
    rate = base.bandwidth if reported and known.reported_bandwidth is None else known.reported_bandwidth
    return _with_terms_of_nccl(base, version=version, reported_bandwidth=rate)


def _with_terms_of_nccl(fabric: Fabric, **terms: Any) -> Fabric:
    return fabric.model_copy(update={"nccl": fabric.nccl.model_copy(update=terms)})


def fit_nccl_law(series: Mapping[Key, Repeats], base: Fabric, device: str = "") -> NcclLaw:
    """Fit what NCCL's collectives show of a network, for any mixture of sizes, worker counts and nodes.

    First the rates of the links inside nodes, from series of one node, and of the NICs, from the largest payloads; then
    the time of one step of a ring beyond its bytes at that rate, by the bytes of the step, since transports treat
    messages of each size in their own way; then the start-up of a hop for each protocol and the efficiency of the other
    algorithms, with NCCL's constants as priors.
    """
    start = NcclLaw(_with_terms_of_nccl(base.model_copy(update={"measured": ()}), latency=base.latency), device)
    across = {key: item for key, item in series.items() if key.nodes > 1}
    inside = {key: item for key, item in series.items() if key not in across}
    return _with_hops(across, _with_steps(across, _with_rate(across, _with_rate(inside, start))))


def summed_in_switch(series: Mapping[Key, Repeats], law: NcclLaw, settings: Sequence[str] = ()) -> dict[Key, Repeats]:
    """The series whose largest payloads NCCL sums in the switch of a node (NVLS), rather than along rings.

    None where it was told not to (NCCL_NVLS_ENABLE=0 in the settings).
    """
    if any("NCCL_NVLS_ENABLE=0" in setting.split(", ") for setting in settings):
        return {}
    return {key: item for key, item in series.items() if law.labels(key, item.sizes[-1:]) == [_NVLS]}


def with_sums_in_switch(series: Mapping[Key, Repeats], law: NcclLaw) -> NcclLaw:
    """The law with the share of the links' rate that sums in the switch reach for the largest payloads."""
    shares = []
    for key, item in series.items():
        large = _largest(item)
        whole, half = (law.with_library(efficiency={_NVLS: share}).time(key, large.sizes) for share in (1.0, 0.5))
        # The time is a start-up and bytes / share, which takes as long again at half the share.
        shares += ((half - whole) / np.maximum(large.seconds - (2 * whole - half), 1e-9)).tolist()
    return law.with_library(efficiency={_NVLS: float(np.clip(np.median(shares), 0.01, 1.0))})


def fit_sums_in_switch(series: Mapping[Key, Repeats], base: Fabric, device: str, hardware: bool) -> NcclLaw:
    """The law where all was summed in the switch: the share of the links' rate that such sums reach.

    They do not show the rate itself, since a ring moves other bytes over the links than a switch that adds. It is the
    base's where that describes the machine (`hardware`), and otherwise the rate of which the sums would reach the share
    that NCCL assumes (`NVLS_EFFICIENCY`).
    """
    start = NcclLaw(base.model_copy(update={"measured": ()}), device, ("bandwidth", "latency"))
    return with_sums_in_switch(series, start if hardware else _with_rate(series, start))


def split_seconds(law: Any, key: Key, sizes: Floats, rates: Sequence[str]) -> tuple[Floats, Floats]:
    """Seconds by a law, and those of them that bytes take on the links with these rates, by name.

    They are in proportion to 1 / rate, so that what a slightly higher rate saves says how long they are.
    """
    faster = with_terms(law.fabric, {name: term_of(law.fabric, name) * _FASTER for name in rates})
    whole = law.time(key, sizes)
    return whole, (whole - replace(law, fabric=faster).time(key, sizes)) / (1 - 1 / _FASTER)


def _largest(item: Repeats) -> Repeats:
    """The sizes that show the rate."""
    return item.at(item.sizes >= item.sizes[-1] / _LARGEST)


def _with_rate(series: Mapping[Key, Repeats], law: NcclLaw) -> NcclLaw:
    """The law with the rates at which the largest payloads take no less than measured.

    That of the NICs where they are the bottleneck; otherwise that of the links inside a node.
    """
    terms = ("bandwidth", "intra_node.bandwidth") if law.fabric.intra_node else ("bandwidth",)
    found: dict[str, list[float]] = {}
    for key, item in series.items():
        large = _largest(item)
        for term in terms:
            once, wire = split_seconds(law, key, large.sizes, (term,))
            if (wire > 0.5 * once).all():
                rate = term_of(law.fabric, term) * float(np.quantile(wire / large.seconds, 0.75))
                found.setdefault(term, []).append(rate)
                break
    return replace(law, fabric=with_terms(law.fabric, {term: max(rates) for term, rates in found.items()}))


def _with_steps(series: Mapping[Key, Repeats], law: NcclLaw) -> NcclLaw:
    """The law with the time of a step beyond its bytes: medians over rings, by octaves of the step's bytes."""
    free, octave, rest = law.with_library(step_overhead=((1.0, 0.0),)), list[float](), list[float]()
    for key, item in series.items():
        across = key.passes / key.gpus_per_node
        rings = [label.startswith("ring") for label in free.labels(key, item.sizes)]
        if key.primitive != "broadcast" and any(rings):
            beyond = (item.seconds - free.time(key, item.sizes)) / across
            rest += np.maximum(0.0, beyond)[rings].tolist()
            octave += np.log2(item.sizes / key.workers)[rings].tolist()
    if len(rest) < _LEAST_STEPS:
        return law
    knots, steps_at = np.unique(np.round(octave)), np.array(octave)
    points = [(float(2**knot), float(np.median(np.array(rest)[np.abs(steps_at - knot) <= _WINDOW]))) for knot in knots]
    return law.with_library(step_overhead=_needed(points))


def _needed(points: list[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """The points without those that the straight line between their neighbours gives within 5 %."""
    kept = list(points)
    for point in points[1:-1]:
        place = kept.index(point)
        (low, before), (high, after) = kept[place - 1], kept[place + 1]
        share = np.log(point[0] / low) / np.log(high / low)
        if abs(before + share * (after - before) - point[1]) <= _SAME * max(point[1], 1e-9):
            kept.remove(point)
    return tuple(kept)


def _with_hops(series: Mapping[Key, Repeats], law: NcclLaw) -> NcclLaw:
    """The law with start-ups of hops by protocol, and efficiencies of the algorithms that steps do not explain."""
    labels = {label for key, item in series.items() for label in law.labels(key, item.sizes)}
    by_steps = bool(law.fabric.nccl.step_overhead)
    hops = sorted({label.split()[1] for label in labels if not (by_steps and label.startswith("ring"))})
    pairs = sorted(
        label
        for label in labels
        if label in ("tree LL", "nvls_tree Simple") or (not by_steps and label.startswith(("ring", "tree")))
    )
    if not hops and not pairs:
        return law
    start = np.log(np.array([max(2e-6, law.fabric.latency)] * len(hops) + [0.5] * len(pairs)))
    prior = np.array([0.2] * len(hops) + [1.0 / _WIDTH] * len(pairs))

    def made(parameters: Floats) -> NcclLaw:
        values = np.exp(np.clip(parameters, start - 6, start + 6)).tolist()
        shares = {pair: min(1.0, value) for pair, value in zip(pairs, values[len(hops) :], strict=True)}
        return law.with_library(hop_latency=dict(zip(hops, values, strict=False)), efficiency=shares)

    def residuals(parameters: Floats) -> Floats:
        off = np.log(all_times(made(parameters), series)) - np.log(all_seconds(series))
        return np.concatenate([off, prior * (parameters - start)])

    return made(robust_log_fit(residuals, start))
