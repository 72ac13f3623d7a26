"""The queue between host and GPU: when layers end whose kernels the host launches one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np


def queue_passes(
    gpu_times: Sequence[float], host_times: Sequence[float], host_ahead: bool, passes: int = 1
) -> tuple[list[float], list[float]]:
    """Seconds that layers take in the first and in each later pass when the GPU waits for the host.

    `gpu_times`, `host_times`: of the layers in the order in which the host launches them: forward and then backward,
    pass after pass. The GPU begins a layer when the one before it is done and the host has come to it, and ends it no
    sooner than the host: e_i = max(max(e_(i-1), h_(i-1)) + g_i, h_i) with e_0 = h_0 = 0, where h_i is the sum of the
    host times up to layer i and g_i the GPU's time. That is e_i = G_i + max over j <= i of (h_j - G_j), where G_i sums
    g: the GPU falls behind by what it once had to wait.

    All passes after the first one are alike: where the host needs no longer than the GPU, h_j - G_j has its maximum in
    the first pass, and the GPU never waits again; where it needs longer, the maximum of each pass is that of the one
    before it, later by as much as the host is slower.

    With `host_ahead` and iterations without end, the slower of the two sets the pace: a GPU that needs longer never
    waits, and a host that needs longer stretches all `passes` of an iteration to its own time.
    """
    gpu, host = (np.cumsum([0.0, *chain(*[times] * min(passes, 2))]) for times in (gpu_times, host_times))
    ends = gpu + np.maximum.accumulate(host - gpu)
    once = len(gpu_times)
    if host_ahead:
        later = (passes - 1) * (ends[-1] - ends[once])
        whole = passes * host[once] if passes > 1 else host[-1]
        ends = gpu if gpu[once] >= host[once] else ends * (whole / (ends[once] + later))
    lasts = np.diff(ends).tolist()
    return lasts[:once], lasts[once:] if passes > 1 else lasts
