"""How operators of models run on GPUs: rates from measured operators, with the error on GPUs and models left out."""

from __future__ import annotations

import math
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from msgspec import to_builtins

from simulator.architectures.building import Architecture
from simulator.architectures.convolutional import AlexNet, ResNet, Vgg
from simulator.architectures.transformer import AnyTransformer, Gpt2, Transformer
from simulator.calibration.fits.accuracy import root_mean_square, width_left_out
from simulator.calibration.yaml_text import table_text
from simulator.errors import InputError, Problem
from simulator.hardware.gpu import QUEUED_START, Gpu
from simulator.hardware.operator_times import Efficiency, OperatorClock, OperatorRates
from simulator.hardware.widths import same_device
from simulator.loading.csv_tables import Row, read_rows
from simulator.models.curves import Curve, Floats
from simulator.models.groups import group_by, leave_out
from simulator.models.linear_algebra import least_squares
from simulator.models.operators import Arithmetic, Operator
from simulator.models.precision import Precision
from simulator.records import Record, replace
from simulator.scenario.named_parts import read_gpu, read_workload, shipped_gpus

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
    convolution_width=1.0,
    fp32=Efficiency(0.9, 1.0, 0, ""),
    tensor=Efficiency(1.0, 1.0, 0, ""),
)
_MOST = 20_000


class TimedOperators(Record):
    """What was timed together on a GPU: the operators of a model with the number of calls of each, and their seconds.

    `beside`: seconds of it that are not theirs, such as the start of a single call; `start`: those that each operator
    takes in a queue, and did not take here.
    """

    gpu: Gpu
    arithmetic: Arithmetic
    model: str
    operators: Counter[Operator]
    beside: float
    seconds: float
    start: float = 0.0

    def predicted(self, rates: OperatorRates) -> float:
        """Seconds by the rates."""
        clock = OperatorClock(self.gpu, self.arithmetic, rates)
        times = (count * (clock.operator_time(each) - self.start) for each, count in self.operators.items())
        return self.beside + math.fsum(times)

    def error(self, rates: OperatorRates) -> float:
        """Logarithm of predicted over measured seconds."""
        return math.log(self.predicted(rates) / self.seconds)


def fit_rates(
    timed: Sequence[TimedOperators],
    rates_at: Callable[[Floats], OperatorRates],
    start: Floats,
    soft: float,
    most: float = math.inf,
) -> OperatorRates:
    """The rates with the least squares of errors, of which those beyond `soft` count linearly.

    `rates_at`: the rates of logarithms, which are searched from `start` and no further than `most` from it.
    """

    def errors(logs: Floats) -> Floats:
        rates = rates_at(logs)
        return np.array([item.error(rates) for item in timed])

    return rates_at(least_squares(errors, start, (start - most, start + most), soft=soft)[0])


def read_operators(path: Path) -> list[TimedOperators]:
    """The measurements of a table. Raises InputError with every problem and its place."""
    problems: list[Problem] = []
    found: dict[tuple[str, str, str], TimedOperators] = {}
    for row in read_rows(path, COLUMNS, problems):
        timed = _timed(row)
        if timed is not None:
            key = (row.cells["device"], row.cells["model"], row.cells["measurement"])
            found[key] = replace(timed, operators=found[key].operators + timed.operators) if key in found else timed
        if len(found) > _MOST:
            problems.append(Problem(str(path), f"at most {_MOST} measurements", "more"))
            break
    if problems or not found:
        raise InputError(problems or Problem(str(path), "at least one measured operator", "none"))
    return list(found.values())


def _timed(row: Row) -> TimedOperators | None:
    """The operator of a row, which was timed as a call by itself: a part of its start is in no number yet."""
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
    device = row.cells["device"]
    gpu = Gpu(
        name=device,
        device=device,
        fp32_rate=numbers["fp32_rate"],
        memory_bandwidth=numbers["memory_bandwidth"],
        multiprocessors=int(numbers["multiprocessors"]),
        kernels=_elementwise(device),
    )
    operators = Counter([Operator(kind, kind, **sizes)])
    return TimedOperators(gpu, "fp32", row.cells["model"], operators, 0.0, numbers["seconds"], QUEUED_START)


@cache
def _elementwise(device: str) -> dict[str, Curve]:
    """The element-wise kernel of the same GPU in the package, if there is one."""
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


def fit_operators(measured: Sequence[TimedOperators]) -> OperatorFit:
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


def _name(item: TimedOperators) -> str:
    return item.model.partition(" ")[0]


def _left_out(
    measured: Sequence[TimedOperators], group_of: Callable[[TimedOperators], str]
) -> dict[tuple[str, str], float]:
    """Predicted over measured seconds of each model on each GPU, from rates that know nothing of its group."""
    made: dict[tuple[str, str], float] = {}
    for _, held, others in leave_out(_with_starts(measured), group_of):
        rates = _fit(others)
        for key, items in group_by(held, lambda item: (item.gpu.device, item.model)).items():
            made[key] = sum(item.predicted(rates) for item in items) / sum(item.seconds for item in items)
    return made


def _with_starts(measured: Sequence[TimedOperators]) -> list[TimedOperators]:
    """With the start of a timed call on each GPU: half of the shortest one that was timed, which does some work."""
    groups = group_by(measured, lambda item: item.gpu.device).values()
    starts = {items[0].gpu.device: 0.5 * min(item.seconds for item in items) for items in groups}
    return [replace(item, beside=starts[item.gpu.device]) for item in measured]


def _fit(measured: Sequence[TimedOperators]) -> OperatorRates:
    """Rates of operators that were timed by themselves; deviations beyond 10 % count linearly."""
    devices = list(dict.fromkeys(item.gpu.device for item in measured))

    def rates_at(logs: Floats) -> OperatorRates:
        depth, tail, rows, *shares = np.exp(logs).tolist()
        found = {name: Efficiency(share, 1.0, 1, "") for name, share in zip(devices, shares, strict=True)}
        mean = math.exp(math.fsum(map(math.log, shares)) / len(shares))
        plain = Efficiency(mean, 1.0, len(devices), "")
        return replace(_PLAIN, depth=depth, tail=tail, rows=rows, fp32=plain, devices=found)

    first = np.log([_PLAIN.depth, _PLAIN.tail, 1.3, *([_PLAIN.fp32.value] * len(devices))])
    return fit_rates(_with_starts(measured), rates_at, first, soft=0.1)


def _gpt(layers: int, hidden: int, heads: int, sequence: int, recomputed: bool = False) -> Gpt2:
    kind: dict[str, Any] = {"attention": "separate", "recompute": "full"} if recomputed else {"dropout": False}
    return Gpt2(layers=layers, hidden=hidden, heads=heads, sequence=sequence, positions=sequence, **kind)


_LLAMA = Transformer(
    layers=126, hidden=16384, heads=128, kv_heads=8, mlp=53248, gated=True, vocabulary=128256, sequence=8192
)
# Table 1 or 4 of each paper, or its text:
# et al., 1909.08053: 1.2 B on one V100, 39 TFLOP/s; 62.4 with version 1.0 (nv-adlr.github.io/MegatronLMV1)
_SHOEYBI = "Shoeybi 2019"
_NARAYANAN = "Narayanan 2021"  # et al., 2104.04473: 1.7 B on 32 A100, 137 TFLOP/s on each, with communication
_DAO = "Dao 2023"  # 2307.08691: GPT of 1.3 B and 2.7 B, 2k and 8k tokens, on the 8 A100 of a node
_DUBEY = "Dubey 2024"  # et al., 2407.21783: 405 B on 8,192 H100, 430 TFLOP/s on each, with communication


_PUBLISHED: tuple[tuple[str, AnyTransformer, int, int, float, Arithmetic, str, float], ...] = (
    ("v100-pytorch2", _gpt(40, 1536, 16, 1024, True), 1024, 8, 39e12, "fp16", _SHOEYBI, 1.0),
    ("v100-pytorch2", _gpt(40, 1536, 16, 1024, True), 1024, 8, 62.4e12, "fp16", _SHOEYBI, 1.0),
    ("a100-80gb", _gpt(24, 2304, 24, 2048, True), 2048, 8, 137e12, "fp16", _NARAYANAN, 1.0),
    ("a100-80gb", _gpt(24, 2048, 16, 2048), 2048, 8, 196e12, "bf16", _DAO, 1.0),
    ("a100-80gb", _gpt(24, 2048, 16, 8192), 8192, 2, 220e12, "bf16", _DAO, 1.0),
    ("a100-80gb", _gpt(32, 2560, 32, 2048), 2048, 4, 205e12, "bf16", _DAO, 1.0),
    ("a100-80gb", _gpt(32, 2560, 32, 8192), 8192, 1, 225e12, "bf16", _DAO, 1.0),
    ("h100", _LLAMA, 8192, 1, 430e12, "bf16", _DUBEY, 0.5),
)
"""GPU; model; tokens of a sample; samples per GPU and pass (where none are published, as many as make the products
large); FLOP/s on each GPU; arithmetic; source; the share of scores that its authors count, 0.5 for those that a causal
kernel makes. All but those of Dao and Shoeybi et al. include communication, which makes tensor cores look slower."""


@cache
def published_trainings() -> list[TimedOperators]:
    """Forward and backward of published trainings in 16 bits, by their sources, in the seconds of the FLOPs counted.

    6 N per token and 12 l h s for attention (Chowdhery et al. 2022, 2204.02311, appendix B); a third more where the
    forward pass runs twice.
    """
    made = []
    for gpu, model, sequence, samples, rate, arithmetic, source, counted in _PUBLISHED:
        described = model.describe(samples, Precision(gradients="fp16" if arithmetic == "fp16" else "bf16"))
        scores = 12 * model.layers * model.hidden * sequence * counted
        passes = 4 / 3 if model.recompute == "full" else 1.0
        seconds = passes * samples * sequence * (6 * described.numel + scores) / rate
        operators = Counter((*described.forward, *described.backward))
        plain = read_gpu(gpu).model_copy(update={"product_share": None})  # what is fitted is the share of any GPU
        made.append(TimedOperators(plain, arithmetic, source, operators, 0.0, seconds))
    return made


CONVOLUTIONS: tuple[tuple[str, Architecture], ...] = (
    ("resnet18-v100", ResNet(depth=18)),
    ("resnet50-v100", ResNet(depth=50)),
    ("resnet152-v100", ResNet(depth=152)),
    ("vgg16-v100", Vgg(depth=16)),
    ("alexnet-v100", AlexNet()),
)
"""Profiles of the package with measured backward times, and what describes the same model."""


def with_tensor_cores(rates: OperatorRates) -> OperatorRates:
    """Rates with the efficiency of tensor cores that fits the published trainings, each source counting once."""
    share, width = _fit_share(
        lambda share: published_errors(replace(rates, tensor=Efficiency(share, 1.0, 0, ""))), most=2.0
    )
    sources = published_errors(rates)
    source = f"published trainings in 16 bits ({', '.join(sources)})"
    return replace(rates, tensor=Efficiency(share, width, len(sources), source))


def with_convolutions(rates: OperatorRates) -> OperatorRates:
    """Rates with the efficiency of convolutions that fits the backward passes of V100 profiles, and their width."""
    share, width = _fit_share(lambda share: convolution_errors(replace(rates, convolution=share)), most=5.0)
    return replace(rates, convolution=share, convolution_width=width)


def _fit_share(errors_at: Callable[[float], Mapping[str, float]], most: float) -> tuple[float, float]:
    """The efficiency from 0.05 to `most` at which the errors sum to 0, and the width of those that are left.

    The errors fall with it.
    """
    low, high = 0.05, most
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if math.fsum(errors_at(middle).values()) > 0 else (low, middle)
    errors = list(errors_at(low).values())
    return low, width_left_out(errors, {"all": errors})


def published_errors(rates: OperatorRates) -> dict[str, float]:
    """Logarithm of predicted over published time, the mean over the models of a source, by the value for any GPU."""
    return _mean_errors(published_trainings(), replace(rates, tensor_devices={}))


def _mean_errors(timed: Iterable[TimedOperators], rates: OperatorRates) -> dict[str, float]:
    models = group_by(timed, lambda item: item.model).items()
    return {model: fmean(item.error(rates) for item in items) for model, items in models}


def convolution_errors(rates: OperatorRates) -> dict[str, float]:
    """Logarithm of predicted over measured backward time, by profile."""
    return _mean_errors(_profiles(), rates)


@cache
def _profiles() -> list[TimedOperators]:
    made = []
    for name, model in CONVOLUTIONS:
        profile = read_workload(f"workloads/{name}")
        backward = Counter(model.describe(profile.batch_size, Precision()).backward)
        made.append(TimedOperators(read_gpu("v100"), "fp32", name, backward, 0.0, profile.backward_time))
    return made


_HEAD = """\
# Written by `sparsim calibrate operators TABLE`: how operators of models were found to run. Shares of the data sheet's
# rate, factors; `width` is the factor that holds nine of ten whole models, forward and backward, that were left out.
"""
_ORDER = ("depth", "tail", "rows", "attention", "convolution", "convolution_width", "matrix_byte")
_GROUPS = ("fp32", "tensor", "devices", "tensor_devices")


def operator_rates_yaml(rates: OperatorRates, source: str) -> str:
    """The text of `configs/operator_rates.yaml`; `source`: of the measurements, in words, which become a comment."""
    note = "".join(f"# {line}\n" for line in textwrap.wrap(source, 118))
    values = to_builtins(rates, order="deterministic")
    return _HEAD + note + table_text({name: values[name] for name in _ORDER + _GROUPS})
