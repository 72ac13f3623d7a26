"""How operators of models run on GPUs: rates from measured operators, with the error on GPUs and models left out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from simulator.calibration.fits.accuracy import root_mean_square, width_left_out
from simulator.errors import InputError, Problem
from simulator.hardware.compute_widths import same_device
from simulator.hardware.gpu import QUEUED_START, Gpu
from simulator.hardware.operator_times import Efficiency, OperatorClock, OperatorRates
from simulator.loading.csv_tables import Row, read_rows
from simulator.models.curves import Curve
from simulator.models.groups import group_by, leave_out
from simulator.models.operators import Operator
from simulator.records import Record, replace
from simulator.scenario.named_parts import shipped_gpus

_NUMBERS = ("fp32_rate", "memory_bandwidth", "multiprocessors", "batch", "m", "n", "k", "nbytes", "seconds")
COLUMNS = ("device", "model", "measurement", "kind", *_NUMBERS)
"""Columns of a table of measured operators; `measurement` names what was timed together, whose seconds are those of all
of its operators."""
_KINDS = ("product", "streaming", "rows")
FUSED_ATTENTION = 0.65
"""Rate of fused attention over that of large products: 50 to 73 % of an A100's rate, where products reach 80 to 90 %
(Dao 2023, 2307.08691, section 1)."""
_PLAIN = OperatorRates(
    depth=32.0,
    tail=0.1,
    rows=1.0,
    attention=FUSED_ATTENTION,
    convolution=1.0,
    fp32=Efficiency(0.9, 1.0, 0, ""),
    tensor=Efficiency(1.0, 1.0, 0, ""),
)
_MOST = 20_000


class MeasuredOperators(Record):
    """What was timed together on a GPU in fp32: operators of a model, and their seconds as one call."""

    gpu: Gpu
    model: str
    operators: tuple[Operator, ...]
    seconds: float


def read_operators(path: Path) -> list[MeasuredOperators]:
    """The measurements of a table. Raises InputError with every problem and its place."""
    problems: list[Problem] = []
    found: dict[tuple[str, str, str], MeasuredOperators] = {}
    for row in read_rows(path, COLUMNS, problems):
        made = _measured(row)
        if made is not None:
            key = (row.cells["device"], row.cells["model"], row.cells["measurement"])
            before = found.get(key)
            found[key] = replace(made, operators=(*before.operators, *made.operators)) if before else made
        if len(found) > _MOST:
            problems.append(Problem(str(path), f"at most {_MOST} measurements", "more"))
            break
    if problems or not found:
        raise InputError(problems or Problem(str(path), "at least one measured operator", "none"))
    return list(found.values())


def _measured(row: Row) -> MeasuredOperators | None:
    numbers = {
        name: row.convert(name, float, "a number, 0 or more", lambda value: 0 <= value < 1e21) for name in _NUMBERS
    }
    kind = row.convert("kind", str, f"one of {', '.join(_KINDS)}", lambda value: value in _KINDS)
    if kind is None or None in numbers.values():
        return None
    for name in ("fp32_rate", "memory_bandwidth", "multiprocessors", "seconds"):
        if numbers[name] <= 0:
            row.note(name, "a number above 0", row.cells[name])
            return None
    sizes = {name: numbers[name] for name in ("batch", "m", "n", "k", "nbytes")}
    if kind == "product" and min(sizes.values()) <= 0:
        row.note("m", "a product with sizes above 0", row.cells["m"])
        return None
    operator = Operator(kind, kind, **sizes)
    return MeasuredOperators(_gpu(row.cells["device"], numbers), row.cells["model"], (operator,), numbers["seconds"])


def _gpu(device: str, numbers: Mapping[str, Any]) -> Gpu:
    """The GPU of a row, with the element-wise kernel of the same model in the package, if there is one."""
    return Gpu(
        name=device,
        device=device,
        fp32_rate=numbers["fp32_rate"],
        memory_bandwidth=numbers["memory_bandwidth"],
        multiprocessors=int(numbers["multiprocessors"]),
        kernels=_elementwise(device),
    )


@cache
def _elementwise(device: str) -> dict[str, Curve]:
    for gpu in shipped_gpus().values():
        if gpu.device and same_device(gpu.device, device) and "elementwise" in gpu.kernels:
            return {"elementwise": gpu.kernels["elementwise"]}
    return {}


class OperatorFit(Record):
    """Rates from measured operators, and predicted over measured seconds of whole models that were left out.

    `other_gpu`: by device and model, from the other GPUs; `other_model`: from the other models on all GPUs.
    """

    rates: OperatorRates
    other_gpu: dict[tuple[str, str], float]
    other_model: dict[tuple[str, str], float]


def fit_operators(measured: Sequence[MeasuredOperators]) -> OperatorFit:
    """Rates in fp32 with their widths: of a GPU that was timed from models left out, of another from GPUs left out.

    Raises InputError for measurements of fewer than two GPUs or two models, since nothing can be left out then.
    """
    devices = list(dict.fromkeys(item.gpu.device for item in measured))
    models = list(dict.fromkeys(_name(item) for item in measured))
    if min(len(devices), len(models)) < 2:
        got = f"{len(devices)} and {len(models)}"
        raise InputError(Problem("the table of operators", "at least two GPUs and two models", got))
    other_gpu = _left_out(measured, lambda item: item.gpu.device)
    other_model = _left_out(measured, _name)
    rates = _fit(measured)
    # All models of one GPU are off together: each GPU counts once.
    far = [root_mean_square(values) for values in _errors_by_device(other_gpu).values()]
    near = _errors_by_device(other_model)
    found = {
        device: replace(
            rates.devices[device],
            width=width_left_out(near[device], near),
            source=f"operators of transformers in fp32 timed on {device}, models left out in turn",
        )
        for device in devices
    }
    plain = replace(
        rates.fp32,
        width=width_left_out(far, {"all": far}),
        source=f"operators of transformers in fp32 timed on {len(devices)} other GPUs, each left out in turn",
    )
    return OperatorFit(replace(rates, fp32=plain, devices=found), other_gpu, other_model)


def _errors_by_device(ratios: Mapping[tuple[str, str], float]) -> dict[str, list[float]]:
    groups = group_by(ratios.items(), lambda pair: pair[0][0])
    return {device: [abs(math.log(ratio)) for _, ratio in pairs] for device, pairs in groups.items()}


def _name(item: MeasuredOperators) -> str:
    """The name of a model, without its shape."""
    return item.model.partition(" ")[0]


def _left_out(
    measured: Sequence[MeasuredOperators], group_of: Callable[[MeasuredOperators], str]
) -> dict[tuple[str, str], float]:
    """Predicted over measured seconds of each model on each GPU, from rates that know nothing of its group."""
    made: dict[tuple[str, str], float] = {}
    for _, held, others in leave_out(measured, group_of):
        rates = _fit(others)
        for key, items in group_by(held, lambda item: (item.gpu.device, item.model)).items():
            predicted = sum(_predict(item, rates, _start(measured, item.gpu.device)) for item in items)
            made[key] = predicted / sum(item.seconds for item in items)
    return made


def _fit(measured: Sequence[MeasuredOperators]) -> OperatorRates:
    """Least squares of the logarithms, large deviations counting linearly (soft L1 beyond 10 %)."""
    import numpy as np

    from simulator.models.linear_algebra import least_squares

    devices = list(dict.fromkeys(item.gpu.device for item in measured))
    starts = {device: _start(measured, device) for device in devices}
    seconds = [item.seconds for item in measured]

    def rates_of(values: Any) -> OperatorRates:
        depth, tail, rows, *shares = np.exp(values).tolist()
        found = {name: Efficiency(share, 1.0, 1, "") for name, share in zip(devices, shares, strict=True)}
        mean = math.exp(math.fsum(map(math.log, shares)) / len(shares))
        plain = Efficiency(mean, 1.0, len(devices), "")
        return replace(_PLAIN, depth=depth, tail=tail, rows=rows, fp32=plain, devices=found)

    def errors(values: Any) -> Any:
        rates = rates_of(values)
        predicted = [_predict(item, rates, starts[item.gpu.device]) for item in measured]
        return np.log(predicted) - np.log(seconds)

    first = np.log([_PLAIN.depth, _PLAIN.tail, 1.3, *([_PLAIN.fp32.value] * len(devices))])
    return rates_of(least_squares(errors, first, soft=0.1)[0])


def _predict(item: MeasuredOperators, rates: OperatorRates, start: float) -> float:
    """Seconds of one timed call: its start, and what its operators take without theirs."""
    clock = OperatorClock(item.gpu, "fp32", rates)
    return start + math.fsum(clock.operator_time(operator) - QUEUED_START for operator in item.operators)


def _start(measured: Sequence[MeasuredOperators], device: str) -> float:
    """The start of a timed call on a device: half of the shortest one that was timed, which does some work."""
    return 0.5 * min(item.seconds for item in measured if item.gpu.device == device)
