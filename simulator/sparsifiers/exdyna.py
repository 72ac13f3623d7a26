"""ExDyna: MiCRO with parts of blocks, which move between adjacent parts to make the counts equal."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from simulator.models.exchange import Ints
from simulator.models.gradients import Block, State
from simulator.sparsifiers.micro import Micro, even_bounds

_HIGH, _LOW = 1.05, 0.95238
_ALIGNED = 32


class ExDyna(Micro, kind="exdyna"):
    """ExDyna: exclusive selection as in MiCRO, in parts whose borders move to make the workers' counts equal.

    The vector is cut into `blocks` blocks of floor(d / blocks) elements, rounded down to a multiple of 32 (not for
    shorter vectors); the rest belongs to the last part. Each part starts with blocks/n blocks and keeps at least
    blocks/(4n). Before each iteration the last counts k_i of adjacent parts are compared: with e_i = k_i / (K/n), if
    e_i > 1.05 and e_(i+1) < 0.95238, one block moves from part i to part i+1, and the expected counts change by
    block * K/d; likewise in the other direction. Rotation, empty parts and the threshold are as in MiCRO (ExDyna,
    CCGrid 2024, 2402.13781; github kljp/exdyna). Only adjacent parts on opposite sides of the mean exchange blocks: a
    layer of large gradients between layers of small ones is balanced, but a slow change of counts over many parts
    stays, and so may the surplus of the last part.

    Traffic per worker: (n-1) 8 + (n-1) max k_i 8 + 2(n-1)/n K 4 bytes.
    """

    blocks: int = Field(default=1024, ge=1, le=2**20)

    def layout(self, numel: int) -> tuple[int, int]:
        """Number of blocks and elements of each."""
        blocks = min(self.blocks, numel)
        size = numel // blocks
        return blocks, size - size % _ALIGNED if size >= _ALIGNED else size

    def parts(self, block: Block, state: State) -> Ints:
        """Bounds of the parts (n + 1,) after the moves of this iteration; the last part ends at d."""
        workers, d = block.workers, block.numel
        blocks, size = self.layout(d)
        if "borders" in state:
            borders = move_borders(state["borders"], state["counts"], size, d, blocks / (4 * workers))
        else:
            borders = even_bounds(blocks, workers)
        state["borders"] = borders
        bounds = borders * size
        bounds[-1] = d
        return bounds

    def parts_used(self, workers: int) -> int:
        """Parts as small as they may become: blocks/(4n) blocks each."""
        return 4 * workers

    def busiest(self, numel: int, workers: int) -> float:
        """Elements of the largest part at the start: the first part, or the last one with the rest."""
        blocks, size = self.layout(numel)
        bounds = even_bounds(blocks, workers) * size
        bounds[-1] = numel
        return float(np.diff(bounds).max())


def move_borders(borders: Ints, counts: list[float], size: int, numel: int, least: float) -> Ints:
    """Borders (n + 1,), in blocks, after one pass over adjacent parts that selected `counts` (n,).

    `size`: elements of a block; `least`: blocks that every part keeps. Numbers are rounded down as in the released
    code.
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
