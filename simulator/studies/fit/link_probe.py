"""A link from one measured synchronisation: the rate at which the whole exchange takes as long as it did."""

from __future__ import annotations

import math
from typing import Final

from scipy.optimize import brentq

from simulator.errors import InputError, Problem
from simulator.fabrics.base import Fabric
from simulator.fabrics.collectives import FittedLaw
from simulator.prediction.run import run
from simulator.scenario.changes import with_value
from simulator.scenario.scenario import Scenario
from simulator.studies.validate.measured_rows import predicted_value
from simulator.units import show_bandwidth, show_time

ERROR: Final = 0.02
"""Error of other numbers of local steps at the link that was probed: 0.1, 0.4 and 2.6 % for H = 8, 1 Gbit/s, 200 Mbit/s
and without a shaper (scenarios/validation/4xl40s-diloco)."""
_RANGE = 1e6
_TIGHT = 1e-9


def probe_link(scenario: Scenario, seconds: float) -> tuple[Fabric, float]:
    """The scenario's network with the bandwidth at which a synchronisation takes `seconds`, as it was measured.

    What a shaper or several sockets lose is then part of the bandwidth. Other numbers of local steps, and the same
    bytes in other buckets, follow from it. Also the synchronisation that the scenario predicted without it.

    Raises InputError for a scenario without local steps or with one node, and for seconds that no bandwidth gives.
    """
    if scenario.scheduler.period is None or scenario.cluster.nodes < 2:
        hint = "run your training with `scheduler: {kind: local_sgd, inner_steps: 1}` or DiLoCo at H = 1"
        raise InputError(Problem(f"scenario '{scenario.name}'", "local steps on several nodes", "none", hint))
    network = scenario.cluster.network
    predicted = _synchronisation(scenario, network)
    plain = network
    if network.transport is not None:
        free = {"shaper": None, "streams": 1, "stream_bandwidth": None, "cpu_bandwidth": None, "prior_width": None}
        plain = network.model_copy(update={"transport": network.transport.model_copy(update=free)})
    low, high = network.bandwidth / _RANGE, network.bandwidth * _RANGE
    ends = [_synchronisation(scenario, with_value(plain, "bandwidth", end)) for end in (high, low)]
    if not ends[0] < seconds < ends[1]:
        what = f"a synchronisation longer than {show_time(ends[0])}, what its kernels and start-ups take"
        raise InputError(Problem("synchronisation", what, show_time(seconds)))

    def too_long(log: float) -> float:
        return _synchronisation(scenario, with_value(plain, "bandwidth", math.exp(log))) - seconds

    rate = math.exp(brentq(too_long, math.log(low), math.log(high), xtol=_TIGHT))
    fitted = FittedLaw(
        nodes=scenario.cluster.nodes,
        gpus_per_node=scenario.cluster.gpus_per_node,
        bandwidth=rate,
        latency=network.latency,
        rate=ERROR,
    )
    source = (
        f"One synchronisation of {show_time(seconds)}, measured; scenario '{scenario.name}' predicted "
        f"{show_time(predicted)} at {show_bandwidth(network.bandwidth)}. All else as in "
        f"{network.name or 'the scenario'}."
    )
    found = {"bandwidth": rate, "fitted_for": fitted, "source": source, "held_out_mape": None}
    return plain.model_copy(update=found), predicted


def _synchronisation(scenario: Scenario, network: Fabric) -> float:
    prediction = run(with_value(scenario, "cluster.network", network), intervals=False)
    return predicted_value("synchronisation", prediction)
