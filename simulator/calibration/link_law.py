"""The link law: bandwidth and start-up of links, fitted to whole collectives that are folded over a fabric."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from simulator.calibration.collectives import Key
from simulator.calibration.fits.families import Repeats, robust_log_fit
from simulator.component import build
from simulator.engine.plan.phases import collective_rounds
from simulator.engine.rounds.fold import fold
from simulator.fabrics.base import Fabric
from simulator.models.curves import Floats
from simulator.models.exchange import Layout
from simulator.records import Record
from simulator.topologies.base import Rounds, Topology, ring_pass

FREE = ("bandwidth", "latency", "intra_node.bandwidth", "intra_node.latency", "collective_start_up", "copy_bandwidth")
"""Terms of a fabric that can be fitted."""
CALL_TERMS = FREE[-2:]
"""What each call of a collective takes besides the links; only several worker counts can separate the two."""


def with_terms(fabric: Fabric, values: Mapping[str, float]) -> Fabric:
    """The fabric with other values of the terms named, each one of `FREE`."""
    own: dict[str, Any] = {
        name: value if value < math.inf else None for name, value in values.items() if "." not in name
    }
    inner = {name.partition(".")[2]: value for name, value in values.items() if "." in name}
    if inner and fabric.intra_node is not None:
        own["intra_node"] = fabric.intra_node.model_copy(update=inner)
    return fabric.model_copy(update=own)


def term_of(fabric: Fabric, name: str) -> float:
    """The value of a term of `FREE`; infinite for a copy bandwidth that is not set."""
    owner, _, own = name.rpartition(".")
    value = getattr(getattr(fabric, owner) if owner else fabric, own)
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
        rounds = self._rounds(key, nbytes, key.layout)
        factor = self.fabric.protocol_factor(nbytes, key.workers)
        wiring, ready = self.fabric.wire(key.layout), np.zeros(key.layout.places)
        times: Floats = fold(rounds, wiring, ready, factor=factor).max(axis=1)
        return times

    def _rounds(self, key: Key, nbytes: Floats, layout: Layout) -> Rounds:
        if self.algorithm == IN_SWITCH:
            # A reduced read sends all and gets a part, a multicast write sends a part and gets the rest: S (1 + 1/p).
            return ring_pass(np.arange(key.workers), nbytes[:, None] * (1 + 1 / key.workers), 1)
        payload = nbytes[:, None] / key.workers + np.zeros(key.workers) if key.primitive == "all_gather" else nbytes
        return collective_rounds(key.primitive, payload, _topology(self.algorithm), self.fabric, layout)


@lru_cache(maxsize=16)
def _topology(kind: str) -> Topology:
    return build(Topology, kind)


def fit_law(series: Mapping[Key, Repeats], base: Fabric, algorithm: str, free: Sequence[str]) -> LinkLaw:
    """Fit the terms `free` of `base` to series, on relative error, robustly.

    Every series counts with up to 40 sizes, evenly spaced on the log axis. With one worker count the data do not
    separate the start-up of a call from latency, nor copies from links. A weak penalty then attributes the time to
    `collective_start_up` and to the links: 5 % of the share of time that latency and copies would take.
    """
    thin = {key: _thin_out(item) for key, item in series.items()}
    start = _start_values(thin, base, free)
    names, origin = list(start), np.log(np.array(list(start.values())))
    measured = [np.log(item.seconds) for item in thin.values()]

    def law(parameters: Floats) -> LinkLaw:
        held = np.exp(np.clip(parameters, origin - _FARTHEST, origin + _FARTHEST))
        return LinkLaw(with_terms(base, dict(zip(names, held.tolist(), strict=True))), algorithm)

    def residuals(parameters: Floats) -> Floats:
        made = law(parameters)
        rows = [
            np.log(made.time(key, item.sizes)) - logs for (key, item), logs in zip(thin.items(), measured, strict=True)
        ]
        pulls = _pull_residuals(made, thin) if set(CALL_TERMS) <= set(names) else np.zeros(0)
        return np.concatenate([*rows, _PULL * (parameters - origin), pulls])

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
    rates, hops = [], []
    for key, item in series.items():
        rates.append(float((key.passes * item.sizes / key.workers / item.seconds).max()))
        hops.append(float(item.seconds.min()) / key.passes)
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
    usual = np.concatenate([whole.time(key, item.sizes) for key, item in series.items()])
    unseen = []
    for place, name in enumerate(names):
        most = 0.0
        for factor in (0.5, 2.0):
            other = found.copy()
            other[place] += np.log(factor)
            times = [law(other).time(key, item.sizes) for key, item in series.items()]
            most = max(most, float(np.abs(np.concatenate(times) / usual - 1).max()))
        if most < _UNSEEN:
            unseen.append(name)
    kept = [name for name in unseen if not name.endswith("bandwidth") or name in CALL_TERMS]
    fabric = with_terms(whole.fabric, {name: term_of(base, name) for name in kept})
    return LinkLaw(fabric, whole.algorithm, tuple(unseen))


def _thin_out(item: Repeats) -> Repeats:
    if len(item.sizes) <= MOST_SIZES:
        return item
    logs = np.log(item.sizes)
    wanted = np.linspace(logs[0], logs[-1], MOST_SIZES)
    places = np.unique(np.abs(logs[:, None] - wanted).argmin(axis=0))
    return item.at(places)
