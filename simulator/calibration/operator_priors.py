"""Efficiencies that no table of operators gives: tensor cores from published trainings, convolutions from profiles."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping
from statistics import fmean

from simulator.architectures.base import Architecture
from simulator.architectures.convolutional import AlexNet, Vgg
from simulator.architectures.gpt2 import Gpt2
from simulator.architectures.resnet import ResNet
from simulator.architectures.transformer import AnyTransformer, Transformer
from simulator.calibration.fits.accuracy import width_left_out
from simulator.calibration.yaml_text import table_text
from simulator.hardware.gpu import Gpu
from simulator.hardware.operator_times import Efficiency, OperatorClock, OperatorRates
from simulator.models.groups import group_by
from simulator.models.operators import Arithmetic
from simulator.models.precision import Precision
from simulator.records import Record, asdict, replace
from simulator.scenario.named_parts import read_gpu, read_workload


class PublishedTraining(Record):
    """What a training reached on each GPU in 16 bits, in FLOP/s as its authors count them.

    - `samples`: per GPU and pass; where none are published, as many as make the products large.
    - `half_attention`: whether they count half of the scores, as a causal kernel makes them.
    """

    gpu: str
    model: AnyTransformer
    sequence: int
    samples: int
    rate: float
    arithmetic: Arithmetic
    source: str
    half_attention: bool = False

    @property
    def counted(self) -> float:
        """FLOPs that the authors count: 6 N per token and 12 l h s for attention (Chowdhery et al. 2022, 2204.02311,
        appendix B); a third more where the forward pass runs twice."""
        model, precision = self.model, Precision(gradients=_gradients(self.arithmetic))
        tokens = self.samples * self.sequence
        scores = 12 * model.layers * model.hidden * self.sequence * (0.5 if self.half_attention else 1.0)
        twice = 4 / 3 if model.recompute == "full" else 1.0
        return twice * tokens * (6 * model.describe(1, precision).numel + scores)

    def predicted(self, rates: OperatorRates) -> float:
        """Seconds of forward and backward of the samples."""
        made = self.model.describe(self.samples, Precision(gradients=_gradients(self.arithmetic)))
        clock = OperatorClock(read_gpu(self.gpu), self.arithmetic, rates)
        return clock.time(made.forward) + clock.time(made.backward)


def _gradients(arithmetic: Arithmetic) -> str:
    return "fp16" if arithmetic == "fp16" else "bf16"


def _gpt(layers: int, hidden: int, heads: int, sequence: int, recomputed: bool = False) -> Gpt2:
    if recomputed:
        return Gpt2(
            layers=layers,
            hidden=hidden,
            heads=heads,
            sequence=sequence,
            positions=sequence,
            attention="separate",
            recompute="full",
        )
    return Gpt2(layers=layers, hidden=hidden, heads=heads, sequence=sequence, positions=sequence, dropout=False)


_LLAMA = Transformer(
    layers=126, hidden=16384, heads=128, kv_heads=8, mlp=53248, gated=True, vocabulary=128256, sequence=8192
)
# Table 1 or 4 of each paper, or its text:
# et al., 1909.08053: 1.2 B on one V100, 39 TFLOP/s; 62.4 with version 1.0 (nv-adlr.github.io/MegatronLMV1)
_SHOEYBI = "Shoeybi 2019"
_NARAYANAN = "Narayanan 2021"  # et al., 2104.04473: 1.7 B on 32 A100, 137 TFLOP/s on each, with communication
_DAO = "Dao 2023"  # 2307.08691: GPT of 1.3 B and 2.7 B, 2k and 8k tokens, on the 8 A100 of a node
_DUBEY = "Dubey 2024"  # et al., 2407.21783: 405 B on 8,192 H100, 430 TFLOP/s on each, with communication
PUBLISHED = (
    PublishedTraining("v100-pytorch2", _gpt(40, 1536, 16, 1024, True), 1024, 8, 39e12, "fp16", _SHOEYBI),
    PublishedTraining("v100-pytorch2", _gpt(40, 1536, 16, 1024, True), 1024, 8, 62.4e12, "fp16", _SHOEYBI),
    PublishedTraining("a100-80gb", _gpt(24, 2304, 24, 2048, True), 2048, 8, 137e12, "fp16", _NARAYANAN),
    PublishedTraining("a100-80gb", _gpt(24, 2048, 16, 2048), 2048, 8, 196e12, "bf16", _DAO),
    PublishedTraining("a100-80gb", _gpt(24, 2048, 16, 8192), 8192, 2, 220e12, "bf16", _DAO),
    PublishedTraining("a100-80gb", _gpt(32, 2560, 32, 2048), 2048, 4, 205e12, "bf16", _DAO),
    PublishedTraining("a100-80gb", _gpt(32, 2560, 32, 8192), 8192, 1, 225e12, "bf16", _DAO),
    PublishedTraining("h100", _LLAMA, 8192, 1, 430e12, "bf16", _DUBEY, half_attention=True),
)
"""All but those of Dao and Shoeybi et al. include communication, which makes tensor cores look slower than they are."""

CONVOLUTIONS: tuple[tuple[str, Architecture], ...] = (
    ("resnet18-v100", ResNet(depth=18)),
    ("resnet50-v100", ResNet(depth=50)),
    ("resnet152-v100", ResNet(depth=152)),
    ("vgg16-v100", Vgg(depth=16)),
    ("alexnet-v100", AlexNet()),
)
"""Profiles of the package with measured backward times, and what describes the same model."""


def with_tensor_cores(rates: OperatorRates) -> OperatorRates:
    """Rates with the efficiency of tensor cores that fits the published trainings, each source counting once.

    The efficiency is that at which the geometric mean of predicted over published time is 1; the width is that of the
    sources around it (`width_left_out`).
    """
    share = _unbiased(lambda share: published_errors(_with_share(rates, share)), 2.0)
    found = published_errors(_with_share(rates, share))
    errors = list(map(abs, found.values()))
    width = width_left_out(errors, {"all": errors})
    source = f"published trainings in 16 bits ({', '.join(found)})"
    return replace(rates, tensor=Efficiency(share, width, len(found), source))


def _unbiased(errors: Callable[[float], Mapping[str, float]], most: float) -> float:
    """The efficiency from 0.05 to `most` at which the errors sum to 0; they fall with it."""
    low, high = 0.05, most
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if math.fsum(errors(middle).values()) > 0 else (low, middle)
    return low


def _with_share(rates: OperatorRates, share: float) -> OperatorRates:
    return replace(rates, tensor=Efficiency(share, 1.0, 0, ""), tensor_devices={})


def published_errors(rates: OperatorRates) -> dict[str, float]:
    """Logarithm of predicted over published time, the mean over the models of a source, by the value for any GPU."""
    rates = replace(rates, tensor_devices={})
    return {
        source: fmean(math.log(item.predicted(rates) * item.rate / item.counted) for item in items)
        for source, items in group_by(PUBLISHED, lambda item: item.source).items()
    }


def with_convolutions(rates: OperatorRates) -> OperatorRates:
    """Rates with the efficiency of convolutions that fits the backward passes of V100 profiles, and their width."""
    share = _unbiased(lambda share: convolution_errors(replace(rates, convolution=share)), 5.0)
    made = replace(rates, convolution=share)
    errors = [abs(value) for value in convolution_errors(made).values()]
    return replace(made, convolution_width=width_left_out(errors, {"all": errors}))


def convolution_errors(rates: OperatorRates) -> dict[str, float]:
    """Logarithm of predicted over measured backward time, by profile."""
    gpu: Gpu = read_gpu("v100")
    clock, made = OperatorClock(gpu, "fp32", rates), dict[str, float]()
    for name, model in CONVOLUTIONS:
        profile = read_workload(f"workloads/{name}")
        backward = clock.time(model.describe(profile.batch_size, Precision()).backward)
        made[name] = math.log(backward / profile.backward_time)
    return made


_HEAD = """\
# Written by `sparsim calibrate operators TABLE`: how operators of models were found to run. Shares of the data sheet's
# rate, factors; `width` is the factor that holds nine of ten whole models, forward and backward, that were left out.
"""


def operator_rates_yaml(rates: OperatorRates, source: str) -> str:
    """The text of `configs/operator_rates.yaml`; `source`: of the measurements, in words, which become a comment."""
    note = "".join(f"# {line}\n" for line in textwrap.wrap(source, 118))
    numbers = ("depth", "tail", "rows", "attention", "convolution", "convolution_width", "edge")
    values = {name: getattr(rates, name) for name in numbers} | {"fp32": asdict(rates.fp32)}
    values["tensor"] = asdict(rates.tensor)
    for key in ("devices", "tensor_devices"):
        values[key] = {name: asdict(item) for name, item in sorted(getattr(rates, key).items())}
    return _HEAD + note + table_text(values)
