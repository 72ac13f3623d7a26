"""Widths: factors within which a value, or a curve at a size, is right, either way, in nine of ten cases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from statistics import NormalDist, median

from simulator.models.curves import Curve
from simulator.models.layers import Workload
from simulator.records import replace

NORMAL_95 = NormalDist().inv_cdf(0.95)
"""Standard deviations between the median and the 95th percentile of a normal distribution."""
DEVIATION = math.sqrt(math.pi / 2)
"""Standard deviation of a normal error whose mean absolute value is 1."""
_MOST = 1000.0


@cache
def student_95(freedom: float) -> float:
    """The 95th percentile of Student's distribution."""
    from scipy.special import stdtrit  # heavy, and only for this width

    return -float(stdtrit(freedom, 0.05))


def width_of_deviation(deviation: float) -> float:
    """The factor exp(1.645 s) of a value whose logarithm has the standard deviation s; at most 1000."""
    return math.exp(min(NORMAL_95 * deviation, math.log(_MOST)))


def width_of_mape(error: float) -> float:
    """The factor of a value whose mean absolute relative error is m: exp(1.645 sqrt(pi / 2) m); at most 1000."""
    return width_of_deviation(DEVIATION * error)


def nine_in_ten(values: Sequence[float]) -> float:
    """What nine in ten of the values do not exceed; with fewer than ten, none does. Raises IndexError without any."""
    return sorted(values)[-(-9 * len(values) // 10) - 1]


def off_from_others(groups: Iterable[Sequence[float]], off: Callable[[float, float], float]) -> list[float]:
    """How far, by `off`, each value is from the median of the others in its group; none of a group of one."""
    return [
        off(value, median([*values[:place], *values[place + 1 :]]))
        for values in groups
        if len(values) > 1
        for place, value in enumerate(values)
    ]


def mape_of_width(width: float) -> float:
    """The mean absolute relative error of what is right within a factor in nine of ten cases: ln(w) / 1.645 / 1.253."""
    return math.log(width) / NORMAL_95 / DEVIATION


UNSTATED_ERROR = 0.063
"""Held-out error of a curve that states none: nine in ten of the measured curves that state one are at most so far off
(configs/gpus; a test computes it)."""
PER_DOUBLING = {
    ("affine", "smaller"): 1.24,
    ("affine", "larger"): 1.45,
    ("piecewise", "smaller"): 1.57,
    ("piecewise", "larger"): 1.60,
}
"""Factor by which a curve may be off for each factor of two beyond the sizes that it was fitted to.

Fitted to a part of the sizes and compared with the rest, for every cut that leaves four sizes (of half a factor of two)
over a factor of four: 95 series of one kernel on one GPU, 1,050 to 1,150 pairs at the nearest sizes. Implementations
of Top-k (yueyericardo/misc, Anil-Gaihre/DrTopKSC) and element-wise additions (sitar-lab/NeuSight, MIT), 8 GPUs. Nine in
ten errors, as a logarithm and divided by the doublings, are inside. Errors grow in proportion to the doublings (affine,
larger sizes: factors of 1.3, 1.6, 2.0 and 2.8 after 1 to 4), since a part of the sizes does not show the other regime:
launches at small sizes, memory bandwidth at large ones. Curves
with n log2 n take those of affine ones.
"""


def curve_width(curve: Curve, size: float) -> float:
    """Factor by which a curve's time may be off at a size, either way, in nine of ten cases; at most 1000.

    exp(sqrt(a^2 + b^2)): a is the logarithm of the width that its held-out error gives (`UNSTATED_ERROR` if it states
    none), b the doublings beyond `range` times the logarithm of `PER_DOUBLING`.
    """
    inside = curve.held_out_mape if curve.held_out_mape is not None else UNSTATED_ERROR
    beyond = 0.0
    if curve.range is not None and size > 0:
        shape = "piecewise" if curve.curve == "piecewise" else "affine"
        low, high = curve.range
        if size > high > 0:
            beyond = math.log2(size / high) * math.log(PER_DOUBLING[shape, "larger"])
        elif size < low:
            beyond = math.log2(low / size) * math.log(PER_DOUBLING[shape, "smaller"])
    return math.exp(min(math.hypot(math.log(width_of_mape(inside)), beyond), math.log(1000.0)))


FORWARD_SHARE_WIDTH = 1.17
"""Factor by which the forward pass's share of forward and backward may be off on another GPU, in nine of ten cases.

Five transformers in eight shapes on V100, A100, H100 and L4 in fp32 (sitar-lab/NeuSight, MIT): each GPU from each other
one, 46 pairs; the median is 1.02, the largest 1.19 (an L4). From the median of other models, 1.07.
"""
TILT = 0.5
"""The tilt (`tilt_profile`), either way, that covers in nine of ten cases how profiles of one model differ.

ResNet-18, -50 and -101 and VGG-16: each profile tilted to be closest to each other one of the same model, 34 pairs, by
the mean difference of the times at which a share of the bytes is ready. ResNets need 0.05 to 0.25; VGG-16, where most
bytes are ready in the first 5 % of the backward pass, 0.45 to 1.3. Profiles: zhuangwang93/Espresso (Apache-2.0),
netx-repo/training-bottleneck (Apache-2.0), msr-fiddle/pipedream (MIT) and PyTorch profiler traces of HTA, kineto and
param, V100 and RTX 2080 Ti. Of guessed profiles: shares by multiply-adds make gradients ready 4.3 % of the backward
pass earlier or later than profiles (workloads/resnext101-32x8d-v100), 9 % in nine of ten, as a tilt of about 0.4 does.
"""


def tilt_profile(workload: Workload, tilt: float) -> Workload:
    """The workload with a backward pass of the same length, whose late gradients take longer (tilt s > 0) or shorter.

    The backward time of tensor i is multiplied by exp(s (2 x_i - 1)), where x_i in 0 to 1 is the middle of its time in
    the backward pass (0: the gradient ready first), and all are scaled to the same sum. With s > 0 gradients are ready
    earlier, by 12 % of the backward pass in its middle at s = 0.5. Forward and host times stay as they are.
    """
    total = workload.backward_time
    if total <= 0 or tilt == 0:
        return workload
    began, times = 0.0, list[float]()
    for layer in reversed(workload.layers):
        middle = (began + layer.backward / 2) / total
        times.append(layer.backward * math.exp(tilt * (2 * middle - 1)))
        began += layer.backward
    scale = total / math.fsum(times)
    pairs = zip(workload.layers, reversed(times), strict=True)
    layers = tuple(replace(layer, backward=scale * seconds) for layer, seconds in pairs)
    return workload.model_copy(update={"layers": layers})
