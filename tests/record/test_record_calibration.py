"""How well half of the recorded sizes tells the other half, beside how well the machine repeats itself."""

import csv
from collections import defaultdict
from importlib.util import find_spec

import numpy as np
import pytest

from simulator.models.curves import Piecewise

pytestmark = [
    pytest.mark.torch,
    pytest.mark.long,
    pytest.mark.skipif(find_spec("torch") is None, reason="needs the extra torch"),
]

KERNELS = ("elementwise", "copy", "norm", "statistics", "quantise", "topk", "sort", "threshold_scan", "gather")
SIZES = tuple(2**i for i in range(13, 22))
PASSES = 6
FLOOR = 0.15
"""What a line between sizes a factor of four apart may be off where a cache ends, on a machine without noise."""


def recorded(path, seed):
    """Seconds by kernel (with the order of its indices) and size, of one pass over all points."""
    from simulator.record.environment import environment
    from simulator.record.sweep import Effort, grid, record_kernels

    points = grid(SIZES, ("fp32",), KERNELS, quick=True)
    effort = Effort(budget=0.04, least=5, most=60, warm_up=2)
    record_kernels(path, points, "cpu", environment("cpu"), effort=effort, rotate=2**26, seed=seed)
    seconds = defaultdict(dict)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            seconds[row["kernel"], row["order"]][int(row["elements"])] = float(row["median_s"])
    return seconds


def halves(first, second):
    """Of one kernel: mean absolute relative error on the held-out sizes, and the noise floor there.

    `first` and `second` are seconds by size, recorded independently. The curve goes through every other size of the
    first, both ends included; the floor is the mean relative difference between the two recordings.
    """
    sizes = sorted(first)
    curve = Piecewise(points=tuple((float(n), first[n]) for n in sizes[::2]))
    held = sizes[1::2]
    errors = [abs(float(curve.time(n)) / first[n] - 1) for n in held]
    return float(np.mean(errors)), float(np.mean([abs(second[n] / first[n] - 1) for n in held]))


def misses(folder):
    """Kernels whose held-out sizes are further from the curve than two recordings are from one another.

    Passes over all points alternate between the two recordings, so that both see the same hours of the machine.
    """
    passes = [recorded(folder / f"{number}.csv", number) for number in range(PASSES)]
    found = []
    for key in passes[0]:
        first, second = (
            {n: float(np.median([one[key][n] for one in half])) for n in SIZES} for half in (passes[::2], passes[1::2])
        )
        error, noise = halves(first, second)
        print(f"{' '.join(key):24} MAPE {error:6.1%}, noise floor {noise:6.1%}")
        if error > 2 * noise + FLOOR:
            found.append((key, error, noise))
    return found


def test_half_of_the_sizes_predicts_the_other_half(tmp_path_factory):
    """What another program on the machine slows down is measured again: a curve that is wrong misses each time."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        assert any(not misses(tmp_path_factory.mktemp("timed")) for _ in range(3))
    finally:
        torch.set_num_threads(before)
