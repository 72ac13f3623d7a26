"""What the authors' released code selects, iteration by iteration: counts and thresholds equal, residuals to 1e-6.

`released_code.csv` holds every 25th iteration, and the last, of what was put out by github.com/kljp/exdyna at 3295c70
(MIT; ExDyna, MiCRO, DEFT and Top-k by union exchange: the whole model, 4 workers, 500 iterations) and by
github.com/hclhkbu/GaussianK-SGD (GaussianK and RedSync: each tensor by itself, 300 iterations), density 0.01. Since a
residual holds all that was not sent before, a row depends on every iteration before it.

The gradients are made: tensor i of worker r in iteration t is float32(scale_i (0.5 Laplace(0, 1) from default_rng([7,
t, 999]) + 0.87 Laplace(0, 1) from default_rng([7, t, r]))), each generator drawing the tensors in order.
"""

import csv
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import pytest
from common import block
from replayed import select

from simulator.component import build
from simulator.models.exchange import Bucket
from simulator.sparsifiers.base import Sparsifier

SIZES = (288, 4000, 9216, 64, 20000, 1280, 10)
SCALES = (3e-3, 1e-3, 2e-3, 5e-3, 6e-4, 4e-3, 1e-2)
COMMON = 999
"""The generator of what all workers' gradients share."""
WHOLE = {
    "exdyna": {"granularity": "model"},
    "micro": {"granularity": "model"},
    "deft": {"granularity": "model"},
    "topk": {"granularity": "model", "exchange_by": "union_all_reduce", "rounding": "down"},
}
BY_TENSOR = {"gaussiank": {"rounding": "down"}, "redsync": {"rounding": "down"}}


def gradients(t):
    """Those of the four workers in an iteration, (4, d)."""

    def laplace(worker):
        draws = np.random.default_rng([7, t, worker])
        return np.concatenate([draws.laplace(size=size) for size in SIZES])

    common = 0.5 * laplace(COMMON)
    return np.stack([(np.repeat(SCALES, SIZES) * (common + 0.87 * laplace(r))).astype(np.float32) for r in range(4)])


class Check:
    """A method at work, with what the released code selected."""

    def __init__(self, kind, given, tensor=""):
        self.method = build(Sparsifier, {"kind": kind, "density": 0.01, **given})
        self.name, self.state = f"{kind} {tensor}", None
        with (Path(__file__).parent / "released_code.csv").open() as lines:
            rows = [row for row in csv.DictReader(lines) if (row["method"], row["tensor"]) == (kind, str(tensor))]
        self.rows = {int(row["iteration"]): row for row in rows}
        assert len(rows) > 12

    def take(self, item):
        t = item.iteration
        self.state, selection, _, choice = select(self.method, self.state or self.method.start(item), item)
        if t not in self.rows:
            return
        row, place = self.rows.pop(t), f"{self.name}, iteration {t}"
        assert selection.aggregated == int(row["aggregated"]), place
        if row["selected"]:
            assert selection.selected.tolist() == [int(count) for count in row["selected"].split()], place
        if row["threshold"]:
            assert choice.detail["threshold"] == float(row["threshold"]), place
        residual = float(np.square(self.state["residual"][0], dtype=float).sum())
        assert residual == pytest.approx(float(row["residual_square"]), rel=1e-6), place


@pytest.mark.long
def test_counts_thresholds_and_residuals_are_those_of_the_released_code():
    whole = [Check(kind, given) for kind, given in WHOLE.items()]
    ends = [0, *accumulate(SIZES)]
    single = [
        (Check(kind, given, tensor), a, b)
        for kind, given in BY_TENSOR.items()
        for tensor, (a, b) in enumerate(pairwise(ends))
    ]
    for t in range(500):
        values = gradients(t)
        for check in whole:
            check.take(block(values, SIZES, t))
        for check, a, b in single if t < 300 else ():
            check.take(block(values[:1, a:b], (b - a,), t))
    assert not any(check.rows for check in [*whole, *(check for check, _, _ in single)])


def test_rounding_is_the_only_difference_that_is_meant():
    """Half of the tensors have another k when rounded to the nearest number: 3 instead of 2 of 288, 13, not 12."""
    for rounding, expected in {"down": [2, 40, 92, 1, 200, 12, 1], "up": [3, 40, 93, 1, 200, 13, 1]}.items():
        method = build(Sparsifier, {"kind": "topk", "density": 0.01, "rounding": rounding})
        assert [method.wanted(n) for n in SIZES] == expected
        item = block(gradients(0)[:1], SIZES)
        _, selection, _, _ = select(method, method.start(item), item)
        assert selection.aggregated == sum(expected)
        assert method.expect(Bucket(0, SIZES, 0), 1, float("inf")).aggregated == sum(expected)
    assert [build(Sparsifier, {"kind": "topk", "density": 0.01}).wanted(n) for n in SIZES] == [3, 40, 92, 1, 200, 13, 1]
