"""ExDyna: MiCRO with parts made of blocks that neighbours hand over until their counts are alike."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from simulator.models.exchange import Ints
from simulator.models.gradients import Block, State
from simulator.sparsifiers.micro import Micro, even_bounds

_HIGH, _LOW = 1.05, 0.95238
_ALIGNED = 32


class ExDyna(Micro, kind="exdyna"):
    """ExDyna: exclusive selection like MiCRO's, in parts whose borders move to even out the workers' counts.

    The vector is cut into `blocks` blocks of floor(d / blocks) elements rounded down to a multiple of 32 (shorter
    vectors: not rounded), the rest is appended to the last part; each part starts with blocks/n of them and keeps at
    least blocks/(4n). Before each iteration the last counts k_i, in order of the parts, are compared pair by pair: with
    e_i = k_i / (K/n), where e_i > 1.05 and e_(i+1) < 0.95238 one block moves from part i to part i+1 and the expected
    counts with it, by block * K/d; and the mirrored case. Rotation, empty parts and the threshold are MiCRO's
    (ExDyna, CCGrid 2024, 2402.13781; github kljp/exdyna). Only adjacent parts on opposite sides of the mean exchange
    blocks: a loud layer between quiet ones is evened out, a gentle slope of counts over many parts stays, and so may
    the surplus of the last part.

    Traffic per worker: (n-1) 8 + (n-1) max k_i 8 + 2(n-1)/n K 4 bytes.
    """

    blocks: int = Field(default=1024, ge=1, le=2**20)

    def layout(self, numel: int) -> tuple[int, int]:
        """Number of blocks and elements of each."""
        blocks = min(self.blocks, numel)
        size = numel // blocks
        return blocks, size - size % _ALIGNED if size >= _ALIGNED else size

    def parts(self, block: Block, state: State) -> Ints:
        """Bounds of the parts, (n + 1,), after this iteration's moves; the last part ends at d."""
        workers, d = block.workers, block.numel
        blocks, size = self.layout(d)
        if "borders" in state:
            borders = moved(state["borders"], state["counts"], size, d, blocks / (4 * workers))
        else:
            borders = even_bounds(blocks, workers)
        state["borders"] = borders
        bounds = borders * size
        bounds[-1] = d
        return bounds

    def busiest(self, numel: int, workers: int) -> float:
        """Elements of the largest part at the start: the first, or the last with what no block holds."""
        blocks, size = self.layout(numel)
        bounds = even_bounds(blocks, workers) * size
        bounds[-1] = numel
        return float(np.diff(bounds).max())


def moved(borders: Ints, counts: list[float], size: int, numel: int, least: float) -> Ints:
    """Borders (n + 1,), in blocks, after one sweep over adjacent parts that selected `counts` (n,).

    `size`: elements of a block; `least`: blocks that every part keeps. Counts are cut to whole numbers where the
    released code does so.
    """
    expected, borders = list(counts), borders.copy()
    total = sum(counts)
    mean = max(1, int(total / len(counts)))
    carried = int(size * total / numel)
    for i in range(len(counts) - 1):
        here, there = expected[i] / mean, expected[i + 1] / mean
        if here > _HIGH and there < _LOW and borders[i + 1] - borders[i] - 1 >= least:
            step = -1
        elif here < _LOW and there > _HIGH and borders[i + 2] - borders[i + 1] - 1 >= least:
            step = 1
        else:
            continue
        borders[i + 1] += step
        expected[i + 1] -= step * carried
    return borders
