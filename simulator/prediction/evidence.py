"""What a prediction rests on, how sure it is, and what it warns of."""

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

NORMAL_95 = 1.6449
"""Standard deviations between the median and the 95th percentile of a normal distribution."""
DEVIATION = math.sqrt(math.pi / 2)
"""Standard deviation of a normal error whose mean absolute value is 1."""
MODEL_ERROR = "configs/model_error.yaml"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that a prediction rests on: its mean absolute relative error on what it was not fitted to, whether it
    was asked within what was measured, and the seconds of the iteration that hang on it."""

    what: str
    id: str
    held_out_mape: float | None
    in_range: bool
    seconds: float

    def shown(self) -> dict[str, Any]:
        """As it stands in a result."""
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


def evidence_of(scenario: Scenario, plan: Plan, breakdown: Mapping[str, float]) -> list[Evidence]:
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
    # A thought experiment on an ideal GPU is compared with no machine.
    real = not gpu.ideal or any(item.held_out_mape for item in items)
    if own is not None and scenario.cluster.workers > 1 and real:
        items.append(Evidence("model", f"{own.rows} measured iterations", own.error, True, whole))
    return items


def interval(times: Floats, evidence: Sequence[Evidence]) -> list[float]:
    """[p5, p95]: spread over the iterations, and each held-out error on the seconds that hang on it.

    A mean absolute error m of a normal error means a standard deviation of m sqrt(pi/2); errors are taken as
    independent.
    """
    sigma = DEVIATION * math.hypot(*((item.held_out_mape or 0.0) * item.seconds for item in evidence))
    mean = float(times.mean())
    low, high = np.percentile(times, (5, 95)).tolist() if len(times) > 1 else (mean, mean)
    below, above = math.hypot(mean - low, NORMAL_95 * sigma), math.hypot(high - mean, NORMAL_95 * sigma)
    return [max(0.0, mean - below), mean + above]


def warnings_of(scenario: Scenario, plan: Plan, evidence: Sequence[Evidence]) -> list[str]:
    """What a reader of the prediction should know: what was evaluated out of range, or without a measurement."""
    warnings = [
        f"{item.what} {item.id}: evaluated outside its measured range" for item in evidence if not item.in_range
    ]
    network, gpu = scenario.cluster.network, scenario.cluster.gpu
    foreign = [item.id for item in network.foreign_curves() if item.workers == scenario.cluster.workers]
    if foreign:
        warnings.append(f"curves {', '.join(foreign)} were measured at another bandwidth or latency: link law used")
    if not gpu.ideal:
        bare = sorted(kernel for kernel in plan.work.kernels if gpu.curve(kernel) is None)
        if bare:
            warnings.append(f"no measured curve for {', '.join(bare)} on {gpu.name}: priced by memory traffic")
    return warnings
