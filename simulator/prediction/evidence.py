"""What a prediction rests on, its interval, and its warnings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from simulator.engine.clock.iterations import simulate
from simulator.engine.plan.plan import Plan
from simulator.hardware.kernels import HOST_KERNELS
from simulator.hardware.precision import widths_of
from simulator.loading.documents import read_document
from simulator.loading.finding import find_shipped
from simulator.models.curves import Floats
from simulator.models.widths import DEVIATION, NORMAL_95
from simulator.scenario.scenario import Scenario

MODEL_ERROR = "configs/model_error.yaml"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that a prediction rests on: a curve, a law, a term, or the model itself.

    `held_out_mape`: its mean absolute relative error on measurements that it was not fitted to. `in_range`: whether it
    was used only at sizes that were measured. `seconds`: the part of the iteration that it decides. `shared`: errors of
    entries with the same text are taken to be the same way and add up; those of all others are independent.
    """

    what: str
    id: str
    held_out_mape: float | None
    in_range: bool
    seconds: float
    shared: str = ""

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
    widths = widths_of(scenario.workload.precision, scenario.sparsifier.has_residual)
    for kernel, use in sorted(plan.work.kernels.items()):
        curve, where = gpu.curve(kernel), f"{gpu.name}/{kernel}"
        if gpu.ideal or kernel in HOST_KERNELS:
            continue
        what = f"kernel {kernel}" + ("" if widths.share(kernel) == 1 else ", scaled from fp32")
        if curve is not None and not curve.derived:
            inside = curve.in_range((use.smallest, use.largest))
            items.append(Evidence(what, where, curve.held_out_mape, inside, use.seconds))
        else:
            error, level = mean_error(gpu.width(kernel)), gpu.level(kernel)
            items.append(Evidence(f"{what}, {level}", where, error, False, use.on_gpu, gpu.name))
    exposed, whole = breakdown["communication_exposed"], math.fsum(breakdown.values())
    for name, (measured, inside) in plan.prices.curves.items():
        items.append(Evidence("collective", f"{network.name}/{name}", measured.held_out_mape, inside, exposed))
    if runtime.held_out_mape is not None and scenario.cluster.workers > 1:
        items.append(Evidence("runtime terms", runtime.name, runtime.held_out_mape, True, whole))
    items += _priors(scenario, exposed)
    if is_slowdown_estimated(scenario, plan):
        error = runtime.slowdown_width / NORMAL_95 / DEVIATION
        slowed = _seconds_of_slowdown(plan)
        items.append(Evidence("prior", "slowdown of compute by communication", error, False, slowed))
    if plan.prices.folded or plan.prices.flowed or plan.live:
        share = 0.0 if plan.prices.curves else exposed
        items.append(Evidence("link law", network.name, network.held_out_mape, True, share))
    own = model_error()
    # A scenario on an ideal GPU describes no machine whose time could be measured.
    real = not gpu.ideal or any(item.held_out_mape for item in items)
    if own is not None and scenario.cluster.workers > 1 and real:
        items.append(Evidence("model", f"{own.rows} measured iterations", own.error, True, whole))
    return items


def is_slowdown_estimated(scenario: Scenario, plan: Plan) -> bool:
    """Whether compute is slowed by exchanges as an estimate says that other set-ups gave."""
    stated = scenario.workload.compute_slowdown is not None
    slowed = plan.slowdown > 0 and plan.overlap and scenario.cluster.workers > 1
    return slowed and scenario.cluster.runtime.slowdown_width > 0 and not stated


def _seconds_of_slowdown(plan: Plan) -> float:
    """By how much the slowdown of compute makes an iteration longer, where all workers are alike."""
    return max(0.0, simulate(plan).time - simulate(replace(plan, slowdown=0.0)).time)


def _priors(scenario: Scenario, exposed: float) -> list[Evidence]:
    """Estimates that stand for what nobody measured: of a transport, and of a runtime over another transport.

    They decide the `exposed` seconds of communication.
    """
    network, runtime = scenario.cluster.network, scenario.cluster.runtime
    if scenario.cluster.nodes == 1:
        return []
    widths = dict[str, float]()
    if network.transport is not None and network.transport.prior_width is not None:
        widths[f"{network.name} over {network.transport.kind}"] = network.transport.prior_width
    if runtime.is_prior_over(network.transport_kind):
        widths[f"{runtime.name} over {network.transport_kind}"] = runtime.width_over(network.transport_kind)
    return [Evidence("prior", name, mean_error(width), False, exposed) for name, width in widths.items()]


def mean_error(width: float) -> float:
    """Mean absolute relative error of what is right within a factor w in nine of ten cases.

    The standard deviation of its logarithm is ln(w) / 1.645.
    """
    return math.log(width) / NORMAL_95 / DEVIATION


def prediction_interval(times: Floats, evidence: Sequence[Evidence]) -> list[float]:
    """[p5, p95] from the spread over the iterations, and from each held-out error on the seconds that it decides.

    A normal error whose mean absolute value is m has the standard deviation m sqrt(pi/2). Errors are taken as
    independent, except those of kernels that nobody timed on one GPU, which may all be wrong the same way.
    """
    seconds: dict[str, float] = {}
    for i, item in enumerate(evidence):
        key = item.shared or str(i)
        seconds[key] = seconds.get(key, 0.0) + (item.held_out_mape or 0.0) * item.seconds
    sigma = DEVIATION * math.hypot(*seconds.values())
    mean = float(times.mean())
    low, high = np.percentile(times, (5, 95)).tolist() if len(times) > 1 else (mean, mean)
    below, above = math.hypot(mean - low, NORMAL_95 * sigma), math.hypot(high - mean, NORMAL_95 * sigma)
    return [max(0.0, mean - below), mean + above]
