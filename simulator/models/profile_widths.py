"""How far the shares of a layer profile may be off: of the forward pass, and of when gradients become ready."""

from __future__ import annotations

import math

from simulator.models.layers import Workload
from simulator.records import replace

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
