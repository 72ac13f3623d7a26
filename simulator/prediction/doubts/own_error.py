"""Doubts about the model itself: what measured iterations differ by beyond the widths of all other doubts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cache

from simulator.answers import read_answer
from simulator.fabrics.base import Fabric
from simulator.hardware.kernels import KERNELS
from simulator.loading.documents import read_document
from simulator.loading.finding import find_shipped
from simulator.models.timeline import BREAKDOWN
from simulator.models.widths import mape_of_width
from simulator.prediction.doubts.doubt import Change, Doubt
from simulator.prediction.doubts.network import BETWEEN, INSIDE, RATE, START_UP, scaled, scaled_curve, scaled_links
from simulator.prediction.doubts.spread import NORMAL, Tails
from simulator.prediction.simulated import Simulated
from simulator.records import Record
from simulator.scenario.changes import scale_compute, scale_curve, with_value
from simulator.scenario.scenario import Scenario

MODEL = "model"
"""What these doubts are called in a result's `calibration`."""
FILE = "configs/model_error.yaml"
_OTHERS = {"communication": ("communication_exposed",), "method": ("selection", "combine")}
PARTS: dict[str, tuple[str, ...]] = {
    # Who waits, waits for the compute of others.
    "compute": tuple(term for term in BREAKDOWN if not any(term in terms for terms in _OTHERS.values())),
    **_OTHERS,
}
"""The terms of an iteration whose errors go together."""


class Errors(Tails, kw_only=True):
    """What measured iterations showed of predictions: how all errors together are distributed, and the factor by which
    each part of an iteration may be off beyond its doubts."""

    width: float


class ModelError(Record):
    """The errors from `rows` measured iterations of all set-ups; `without`: from all but one, by which the predictions
    of that one are judged."""

    rows: int
    errors: Errors
    without: Mapping[str, Errors]

    def of(self, set_up: str) -> Errors:
        """The errors by which a set-up is judged: its own rows have no part in them."""
        return self.without.get(set_up, self.errors)


@cache
def model_error() -> ModelError | None:
    """The model's own error as it ships with the package (`sparsim validate --model-error`); None where it does not."""
    path = find_shipped(FILE)
    return None if path is None else read_answer(read_document(path).data, ModelError, FILE)


def shipped_tails() -> Tails:
    """How errors of predictions are distributed, as it ships with the package; normal where nothing does."""
    own = model_error()
    return NORMAL if own is None else own.errors


def doubt_model(made: Simulated) -> Iterator[Doubt]:
    """Doubts about the model, part by part: its own error, which every prediction rests on.

    Two predictions of one set-up compute the same, so that they share the error of compute; they share that of
    communication and of the method where they use the same method. A scenario on an ideal GPU describes no machine
    whose time could be measured, and one worker exchanges nothing.
    """
    own, scenario = model_error(), made.scenario
    if own is not None and scenario.cluster.workers > 1 and not scenario.cluster.gpu.ideal:
        yield from doubt_parts(own.errors.width, scenario, made.figures.timed)


def doubt_parts(width: float, scenario: Scenario, breakdown: Mapping[str, float]) -> Iterator[Doubt]:
    """Doubts about the parts of an iteration that may be off by a factor each."""
    source, mape = "measured iterations, each set-up predicted from the others", mape_of_width(width)
    for part, terms in PARTS.items():
        seconds = math.fsum([breakdown[term] for term in terms])
        if seconds and width > 1:
            name = f"{part} of {scenario.workload.name if part == 'compute' else scenario.sparsifier.kind}"
            doubt = Doubt(MODEL, name, "transferred", width, source, held_out_mape=mape, inside=True).over(seconds)
            yield doubt._replace(shift=_scaled(part, width))


def _scaled(part: str, width: float) -> Change:
    """The scenario with a part of its iteration longer by the width to the power of the end: all compute; the rates,
    start-ups and measured collectives of its links; or the kernels of its method."""

    def change(scenario: Scenario, end: float) -> Scenario:
        if part == "compute":
            return scale_compute(scenario, width**end)
        if part == "method":
            gpu = scenario.cluster.gpu
            kernels = {name: scale_curve(curve, width**end) for name in KERNELS if (curve := gpu.curve(name))}
            return with_value(scenario, "cluster.gpu.kernels", {**gpu.kernels, **kernels})
        network = scenario.cluster.network
        made = scaled.get((network,), lambda: _scaled_network(network, width, end), part, width, end)
        return with_value(scenario, "cluster.network", made)

    return change


def _scaled_network(network: Fabric, width: float, end: float) -> Fabric:
    for place in (BETWEEN, INSIDE) if network.intra_node is not None else (BETWEEN,):
        for law in (RATE, START_UP):
            network = scaled_links(network, place, law, width, end)
    for item in network.measured:
        network = scaled_curve(network, item.id, width**end)
    return network
