"""The configs of a GPU, runtime or network whose constants were fitted to whole iterations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simulator.calibration.configs import About, config_text
from simulator.calibration.yaml_text import percent_text
from simulator.component import Spec
from simulator.hardware.cost_widths import FACTOR_COSTS
from simulator.hardware.gpu import Gpu
from simulator.hardware.runtime import Runtime
from simulator.models.curves import Curve
from simulator.models.widths import width_of_deviation
from simulator.prediction.run import plan_of
from simulator.scenario.scenario import Scenario
from simulator.studies.fit.iteration_fit import FittedConstant, IterationFit, distinct_scenarios
from simulator.studies.fit.iteration_model import UPDATE
from simulator.units import count_of

_NAMED = 8
"""Rows that the source of a config names."""


def fitted_configs(fit: IterationFit, about: About) -> dict[str, str]:
    """The text of a config for each owner of fitted constants: `gpu`, `runtime`, `network`.

    What was not fitted is as in the config that the rows name. `held_out_mape` of a curve is the mean absolute error
    of its constant, that of a runtime the error of whole iterations that were left out.
    """
    scenarios = distinct_scenarios([item.row for item in fit.fitted])
    made = {}
    for owner in dict.fromkeys(item.constant.owner for item in fit.constants):
        own = [item for item in fit.constants if item.constant.owner == owner]
        changed = scenarios[0]
        for item in own:
            changed = item.constant.put(changed, item.value)
        base, spec = getattr(scenarios[0].cluster, owner), getattr(changed.cluster, owner)
        source = f"{about.source} {_words(fit, own)}; all else as in {base.name or 'the scenarios'}."
        spec = _with_evidence(spec, base, fit, own, scenarios).model_copy(update={"name": about.name, "source": source})
        made[owner] = config_text(owner, spec, about.comment())
    return made


def _words(fit: IterationFit, own: Sequence[FittedConstant]) -> str:
    errors = ["" if item.error is None else f" (within {percent_text(item.error)})" for item in own]
    constants = ", ".join(f"{item.constant.name}{error}" for item, error in zip(own, errors, strict=True))
    named = [f"{item.row.scenario.name} ({item.row.quantity.replace('_', ' ')})" for item in fit.fitted]
    rows = "; ".join(named[:_NAMED]) + (f"; and {len(named) - _NAMED} more" if len(named) > _NAMED else "")
    return f"Fitted to whole iterations: {constants}. Rows: {rows}"


def _with_evidence(
    spec: Spec, base: Spec, fit: IterationFit, own: Sequence[FittedConstant], scenarios: Sequence[Scenario]
) -> Spec:
    if isinstance(spec, Runtime):
        errors = {item.constant.name.removeprefix("runtime."): item.error for item in own}
        widths = {name: width_of_deviation(error) for name, error in errors.items() if error and name in FACTOR_COSTS}
        changes: dict[str, Any] = {
            "held_out_mape": fit.held_out_mape,
            "widths": spec.widths | {name: float(f"{width:.3g}") for name, width in widths.items()},
            "fitted_rows": spec.fitted_rows | dict.fromkeys(errors, len(fit.fitted)),
        }
        if any(item.constant.name == "runtime.compute_slowdown" for item in own):
            changes["slowdown_width"] = 0.0  # no longer an estimate
        return spec.model_copy(update=changes)
    if not isinstance(spec, Gpu) or not isinstance(base, Gpu):
        error = _largest_error(own)
        return spec.model_copy(update={"held_out_mape": error, "measured": ()})
    kernels: dict[str, Curve] = dict(spec.kernels)
    for kernel in dict.fromkeys(item.constant.name.split(".")[1] for item in own):
        items = [item for item in own if item.constant.name.split(".")[1] == kernel]
        parts = ", ".join(item.constant.name.rpartition(".")[2] for item in items)
        source = f"{parts}: fitted to whole iterations ({count_of(len(fit.fitted), 'time')}, as above)"
        old = base.curve(kernel)
        source += "; before: " + " ".join(old.source.split()) if old else "; the rest is an estimate"
        update: dict[str, Any] = {"held_out_mape": _largest_error(items), "derived": True, "source": source}
        update["range"] = _sizes(scenarios, kernel)
        kernels[kernel] = kernels[kernel].model_copy(update=update)
    return spec.model_copy(update={"kernels": kernels})


def _largest_error(items: Sequence[FittedConstant]) -> float | None:
    errors = [item.mean_error for item in items]
    known = [error for error in errors if error is not None]
    return min(1.0, max(known)) if len(known) == len(errors) else None


def _sizes(scenarios: Sequence[Scenario], kernel: str) -> tuple[float, float] | None:
    """The smallest and largest call of a kernel in the rows, in elements."""
    uses = [plan_of(scenario).work.kernels.get(kernel) for scenario in scenarios]
    sizes = [size for use in uses if use for size in (use.smallest, use.largest)]
    if kernel == UPDATE:
        sizes += [float(size) for scenario in scenarios for size in scenario.workload.numels]
    return (max(1.0, min(sizes)), max(1.0, *sizes)) if sizes else None
