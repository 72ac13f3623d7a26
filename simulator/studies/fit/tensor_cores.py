"""Efficiencies of tensor cores from whole trainings, by what the simulator adds to the compute of described models."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from simulator.architectures.describing import description_of
from simulator.calibration.fits.accuracy import root_mean_square, width_left_out
from simulator.calibration.operators import TimedOperators, fit_rates
from simulator.errors import InputError, Problem
from simulator.hardware.operator_times import OperatorRates, TensorCores
from simulator.hardware.widths import same_device
from simulator.models.curves import Floats
from simulator.models.groups import group_by, leave_out
from simulator.prediction.run import run_batch
from simulator.records import replace
from simulator.scenario.changes import with_value
from simulator.scenario.scenario import Scenario
from simulator.studies.validate.measured_rows import measured_rows

SOFT = 0.05
"""Logarithmic errors beyond which a row counts less: some trainings were slowed down by what nobody states."""
PUBLISHED_ATTENTION = {"NVIDIA H100": (0.35, 0.56)}
"""Shares of the data sheet's rate that the second and third generation of fused attention reach on a GPU (Shah et al.
2024, 2407.08608: 35 %, and 1.5 to 1.75 times as much, backward passes as the lesser). The first is that of forward
passes alone; where trainings with the second generation are at hand, it is fitted to them."""
_START = {"matrix_byte": 1e-12, "early_attention": 0.3}
"""Where the search begins; it may end far from here."""
_RANGE = math.log(20)
"""How far from its start a rate is searched, either way."""


def read_trainings(scenarios: Sequence[Scenario]) -> list[TimedOperators]:
    """The trainings of described models on tensor cores to whose iteration times constants are fitted.

    What is not compute is simulated with the rates that ship. Raises InputError where there are none.
    """
    rows = [row for row in measured_rows(scenarios) if row.fitted and row.scenario.workload.origin is not None]
    made = []
    unaware = [with_value(row.scenario, "measured", None) for row in rows]
    for row, prediction in zip(rows, run_batch(unaware, intervals=False), strict=True):
        if isinstance(prediction, InputError):
            raise prediction
        workload, gpu = row.scenario.workload, row.scenario.cluster.gpu
        description = description_of(workload.origin.architecture, workload.pass_size, workload.precision)
        if description.arithmetic == "fp32" or not gpu.tensor_rates:
            continue
        one = Counter([*description.forward, *description.backward])
        operators = Counter({each: workload.micro_batches * count for each, count in one.items()})
        beside = prediction.spread.time - (workload.forward_time + workload.backward_time)
        model = f"{gpu.device}, {workload.origin.architecture.layers} x {workload.origin.architecture.hidden}"
        made.append(TimedOperators(gpu, description.arithmetic, model, operators, beside, row.seconds))
    if not made:
        hint = "rows with `used_in_fit` of models that are described, in 16 bits, on GPUs with tensor cores"
        raise InputError(Problem("trainings", "at least one training to fit to", "none", hint))
    return made


def fit_tensor_cores(trainings: Sequence[TimedOperators], rates: OperatorRates, source: str) -> OperatorRates:
    """Rates with what products take in addition, and the efficiency of attention on each GPU, that fit these trainings.

    Least squares of logarithms, in which single slow rows count little; attention of the second generation after all
    else. The width of a GPU is what it leaves on each model (layers and width) when that is left out.
    """
    found, left_out = _fit(trainings, rates), dict[str, list[float]]()
    for _, held, rest in leave_out(trainings, lambda item: item.model):
        others = _fit(rest, rates)
        left_out.setdefault(held[0].gpu.device, []).append(root_mean_square([item.error(others) for item in held]))
    devices = {
        name: replace(
            item,
            width=width_left_out(left_out.get(name, []), left_out),
            count=sum(each.gpu.device == name for each in trainings),
            source=f"{source} on {name}, models left out in turn",
        )
        for name, item in found.tensor_devices.items()
    }
    return replace(found, tensor_devices=devices)


def _fit(trainings: Sequence[TimedOperators], rates: OperatorRates) -> OperatorRates:
    groups = group_by(trainings, lambda item: ("attention", "fused") in {(o.kind, o.attention) for o in item.operators})
    made, later = _fit_products(groups.get(False, []), rates), groups.get(True, [])
    for name, cores in made.tensor_devices.items():
        here = [item for item in later if same_device(name, item.gpu.device)]
        made = _fit_attention(here, made, name) if here and cores.attention else made
    return made


def _fit_attention(trainings: Sequence[TimedOperators], rates: OperatorRates, name: str) -> OperatorRates:
    cores = rates.tensor_devices[name]

    def rates_at(logs: Floats) -> OperatorRates:
        found = replace(cores, attention=math.exp(logs[0]))
        return replace(rates, tensor_devices={**rates.tensor_devices, name: found})

    return fit_rates(trainings, rates_at, np.log([0.5]), SOFT, _RANGE)


def _fit_products(trainings: Sequence[TimedOperators], rates: OperatorRates) -> OperatorRates:
    known = {item.gpu.device: item.gpu.product_share or rates.tensor.value for item in trainings}
    devices = sorted(known)

    def rates_at(logs: Floats) -> OperatorRates:
        each, *early = np.exp(logs).tolist()
        cores = {name: _cores(name, known[name], share) for name, share in zip(devices, early, strict=True)}
        return replace(rates, matrix_byte=each, tensor_devices=cores)

    start = np.log([_START["matrix_byte"], *[_START["early_attention"]] * len(devices)])
    return fit_rates(trainings, rates_at, start, SOFT, _RANGE)


def _cores(device: str, value: float, early: float) -> TensorCores:
    published = next((shares for name, shares in PUBLISHED_ATTENTION.items() if same_device(name, device)), None)
    fused, late = (share / value for share in published) if published else (None, None)
    return TensorCores(value, early, 1.0, 0, "", attention=fused, late_attention=late)
