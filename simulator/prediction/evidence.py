"""What a prediction rests on, its interval, and its warnings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from simulator.engine.plan.plan import Plan
from simulator.loading.documents import read_document
from simulator.loading.finding import find_shipped
from simulator.models.curves import Floats
from simulator.scenario.scenario import Scenario
from simulator.units import count_of

NORMAL_95 = 1.6449
"""Standard deviations between the median and the 95th percentile of a normal distribution."""
DEVIATION = math.sqrt(math.pi / 2)
"""Standard deviation of a normal error whose mean absolute value is 1."""
MODEL_ERROR = "configs/model_error.yaml"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that a prediction rests on: a curve, a law, a term, or the model itself.

    `held_out_mape`: its mean absolute relative error on measurements that it was not fitted to. `in_range`: whether it
    was used only at sizes that were measured. `seconds`: the part of the iteration that it decides.
    """

    what: str
    id: str
    held_out_mape: float | None
    in_range: bool
    seconds: float

    def as_row(self) -> dict[str, Any]:
        """The evidence as an entry of the result document."""
        return {
            "what": self.what,
            "id": self.id,
            "held_out_mape": self.held_out_mape,
            "in_range": self.in_range,
        }


@dataclass(frozen=True, slots=True)
class ModelError:
    """What measured iterations differ from predictions by, beyond the stated errors of curves, laws and terms.

    `error`: mean absolute relative error, from `rows` measured iterations; `without`: the same from all set-ups but
    one, by which the predictions of that one are judged.
    """

    rows: int
    error: float
    without: Mapping[str, float]


@cache
def model_error() -> ModelError | None:
    """The model's own error as it ships with the package (`sparsim validate --model-error`); None where it does not."""
    path = find_shipped(MODEL_ERROR)
    if path is None:
        return None
    data = read_document(path).data
    return ModelError(int(data["rows"]), float(data["error"]), dict(data["without"]))


def collect_evidence(scenario: Scenario, plan: Plan, breakdown: Mapping[str, float]) -> list[Evidence]:
    """What a prediction rests on: each curve, law and term with its held-out error, last the model itself."""
    gpu, network, runtime = scenario.cluster.gpu, scenario.cluster.network, scenario.cluster.runtime
    items: list[Evidence] = []
    for kernel, use in sorted(plan.work.kernels.items()):
        curve = gpu.curve(kernel)
        if curve is not None:
            inside = curve.in_range((use.smallest, use.largest))
            items.append(Evidence(f"kernel {kernel}", f"{gpu.name}/{kernel}", curve.held_out_mape, inside, use.seconds))
    exposed, whole = breakdown["communication_exposed"], math.fsum(breakdown.values())
    for name, (measured, inside) in plan.prices.curves.items():
        items.append(Evidence("collective", f"{network.name}/{name}", measured.held_out_mape, inside, exposed))
    if runtime.held_out_mape is not None and scenario.cluster.workers > 1:
        items.append(Evidence("runtime terms", runtime.name, runtime.held_out_mape, True, whole))
    if plan.prices.folded or plan.prices.flowed or plan.live:
        share = 0.0 if plan.prices.curves else exposed
        items.append(Evidence("link law", network.name, network.held_out_mape, True, share))
    own = model_error()
    # A scenario on an ideal GPU describes no machine whose time could be measured.
    real = not gpu.ideal or any(item.held_out_mape for item in items)
    if own is not None and scenario.cluster.workers > 1 and real:
        items.append(Evidence("model", f"{own.rows} measured iterations", own.error, True, whole))
    return items


def prediction_interval(times: Floats, evidence: Sequence[Evidence]) -> list[float]:
    """[p5, p95] from the spread over the iterations, and from each held-out error on the seconds that it decides.

    A normal error whose mean absolute value is m has the standard deviation m sqrt(pi/2). Errors are taken as
    independent.
    """
    sigma = DEVIATION * math.hypot(*((item.held_out_mape or 0.0) * item.seconds for item in evidence))
    mean = float(times.mean())
    low, high = np.percentile(times, (5, 95)).tolist() if len(times) > 1 else (mean, mean)
    below, above = math.hypot(mean - low, NORMAL_95 * sigma), math.hypot(high - mean, NORMAL_95 * sigma)
    return [max(0.0, mean - below), mean + above]


def collect_warnings(scenario: Scenario, plan: Plan, time: float) -> list[str]:
    """What a reader of the prediction should know: which of its times were extrapolated or estimated."""
    network, gpu = scenario.cluster.network, scenario.cluster.gpu
    warnings, estimated = list[str](), dict[str, float]()
    for kernel, use in sorted(plan.work.kernels.items()):
        curve = gpu.curve(kernel)
        if curve is None:
            estimated[kernel] = use.seconds
        elif curve.range is not None and use.extrapolated:
            asked, measured = (f"{low:,.0f} to {high:,.0f}" for low, high in ((use.smallest, use.largest), curve.range))
            warnings.append(
                f"{kernel} time extrapolated for {use.extrapolated} of {count_of(use.calls, 'call')} "
                f"({asked} elements; measured from {measured} on {gpu.name})"
            )
    for name, (_, inside) in plan.prices.curves.items():
        if not inside:
            warnings.append(f"{name} on {network.name} was measured at other sizes only; the link law gives the rest")
    if plan.live and plan.alone:
        named = {primitive for primitive, _ in plan.prices.algorithms}
        found = (network.measured_curve(name, scenario.topology.kind, plan.wiring.layout) for name in sorted(named))
        unused = [item.id for item in found if item is not None]
        if unused:
            why = "exchanges share links" if plan.streams > 1 else "an exchange depends on those before it"
            warnings.append(f"{', '.join(unused)} on {network.name} is not used, since {why}; the link law is used")
    foreign = [item.id for item in network.foreign_curves() if item.workers == scenario.cluster.workers]
    if foreign:
        warnings.append(
            f"{', '.join(foreign)} on {network.name} was measured at another bandwidth or latency; the link law is used"
        )
    if estimated and not gpu.ideal:
        share = f" ({100 * math.fsum(estimated.values()) / time:.0f} % of this iteration)" if time else ""
        warnings.append(
            f"not measured on {gpu.name}; estimated from memory bandwidth, which is usually too fast: "
            f"{', '.join(estimated)}{share}"
        )
    return warnings
