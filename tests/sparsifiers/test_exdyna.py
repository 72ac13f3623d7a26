"""ExDyna against its published loop, its moving parts, and long synthetic training beside MiCRO."""

import math

import numpy as np
import pytest
from common import run
from hypothesis import given
from hypothesis import strategies as st
from replayed import select
from test_micro import agrees

from simulator.models.exchange import Bucket
from simulator.sparsifiers.exdyna import ExDyna, move_borders
from simulator.sparsifiers.micro import Micro
from simulator.traces.synthetic import Synthetic, SyntheticLayer, blocks

SCALES, SHARES = (1.0, 0.85, 1.25, 0.85, 1.0), (2, 1, 1, 1, 3)  # a loud layer between two quiet ones
TOGETHER = 24  # iterations that K/k is averaged over: three rotations of eight workers


def published_parts(n, d, blocks, size):
    """Partitioning as released: block counts and positions per part, moved by the counts of the last iteration."""
    owned = [blocks // n + (1 if i < blocks % n else 0) for i in range(n)]
    first = [sum(owned[:i]) for i in range(n)]
    moves = []

    def parts(t, counts):
        if t:
            ks = [0] * n
            for rank in range(n):
                ks[(t - 1 + rank) % n] = counts[rank]
            mean, density = int(sum(counts) / n), sum(counts) / d
            for i in range(n - 1):
                left, right, carried = ks[i] / mean, ks[i + 1] / mean, int(size * density)
                if left > 1.05 and right < 0.95238 and owned[i] - 1 >= blocks / (4 * n):
                    owned[i], owned[i + 1], first[i + 1] = owned[i] - 1, owned[i + 1] + 1, first[i + 1] - 1
                    ks[i], ks[i + 1] = ks[i] - carried, ks[i + 1] + carried
                    moves.append((t, i, -1))
                elif left < 0.95238 and right > 1.05 and owned[i + 1] - 1 >= blocks / (4 * n):
                    owned[i], owned[i + 1], first[i + 1] = owned[i] + 1, owned[i + 1] - 1, first[i + 1] + 1
                    ks[i], ks[i + 1] = ks[i] + carried, ks[i + 1] - carried
                    moves.append((t, i, 1))
        cut = [(start * size, (start + count) * size) for start, count in zip(first, owned, strict=True)]
        return [*cut[:-1], (cut[-1][0], cut[-1][1] + d - blocks * size)]

    return parts, moves


@pytest.mark.parametrize(
    ("n", "d", "count", "size"), [(4, 330, 32, 10), (3, 1100, 16, 64), (2, 75, 75, 1), (5, 700, 20, 32)]
)
def test_it_is_the_published_loop(n, d, count, size):
    draws = np.random.default_rng(n)
    scale = np.exp(np.sin(np.arange(d) * 9 / d)) / math.sqrt(0.1 * d)
    gradients = (scale * draws.standard_normal((40, n, d))).astype(np.float32)
    gradients[17] = 0
    member = ExDyna(density=0.1, blocks=min(count, d))
    assert member.layout(d) == (count, size)
    parts, moves = published_parts(n, d, count, size)
    agrees(member, gradients, parts)
    assert {step for *_, step in moves} == {-1, 1}


def test_blocks_are_a_multiple_of_32_and_the_last_part_takes_the_rest():
    member = ExDyna(density=0.01)
    assert member.layout(1_000_000) == (1024, 960)
    assert member.layout(32_767) == (1024, 31)
    assert member.layout(500) == (500, 1)
    assert member.expect(Bucket(0, (2**20,), 0), 8, 0.0).scanned == 2**17
    assert member.busiest(1_000_000, 8) == 1_000_000 - 7 * 128 * 960
    gradients = np.full((1, 4, 5000), 1e3, dtype=np.float32)
    ((_, selection, _, choice),) = run(ExDyna(density=0.01, blocks=16), gradients)
    assert selection.selected.tolist() == [4 * 288 + extra for extra in (0, 0, 0, 5000 - 16 * 288)]
    assert choice.scanned == 4 * 288 + 5000 - 16 * 288


def test_blocks_move_between_neighbours_on_opposite_sides_of_the_mean_only():
    borders = np.array([0, 8, 16, 24, 32])
    assert move_borders(borders, [150, 50, 100, 100], 10, 320, 2).tolist() == [0, 7, 16, 24, 32]
    assert move_borders(borders, [50, 150, 100, 100], 10, 320, 2).tolist() == [0, 9, 16, 24, 32]
    assert move_borders(borders, [150, 100, 100, 50], 10, 320, 2).tolist() == borders.tolist()
    assert move_borders(borders, [160, 104, 96, 40], 10, 320, 2).tolist() == borders.tolist()
    # the first move is expected to carry 12 of 400: 94 + 12 is above 1.05, so that the next pair moves as well
    assert move_borders(borders, [150, 94, 56, 100], 10, 320, 2).tolist() == [0, 7, 15, 24, 32]
    assert move_borders(borders, [150, 92, 58, 100], 10, 320, 2).tolist() == [0, 7, 16, 24, 32]
    assert move_borders(np.array([0, 2, 16, 24, 32]), [150, 50, 100, 100], 10, 320, 2).tolist() == [0, 2, 16, 24, 32]
    # 1.05 is the upper edge itself, and 0.95 would be below the lower one
    for counts, place in (([105, 95], 4), ([106, 94], 3), ([94, 106], 5), ([95, 105], 4)):
        assert move_borders(np.array([0, 4, 8]), counts, 32, 256, 3).tolist() == [0, place, 8]
    near = np.array([0, 13, 16, 24, 32])
    assert move_borders(near, [50, 150, 100, 100], 10, 320, 2).tolist() == [0, 14, 16, 24, 32]
    assert move_borders(near, [50, 150, 100, 100], 10, 320, 2.5).tolist() == near.tolist()


@given(n=st.integers(1, 9), blocks=st.integers(4, 64), seed=st.integers(0, 999), steps=st.integers(1, 60))
def test_parts_cover_everything_and_keep_their_least_blocks(n, blocks, seed, steps):
    draws, d = np.random.default_rng(seed), 64 * 40
    member, u = ExDyna(density=0.05, blocks=blocks), np.zeros((1, n, d), dtype=np.float32)
    ((state, *_),) = run(member, u)
    count, _ = member.layout(d)
    least = min(count / (4 * n), np.diff(state["borders"]).min())
    for _ in range(steps):
        state["counts"] = draws.integers(1, 200, n).tolist()
        before, bounds = state["borders"], member.parts(_block(u[0]), state)
        assert (bounds[0], bounds[-1]) == (0, d)
        assert np.diff(state["borders"]).min() >= least
        assert np.abs(state["borders"] - before).max() <= 1
        assert len(bounds) == n + 1


def _block(values):
    (block,) = blocks(Synthetic(layers=[SyntheticLayer(numel=values.shape[1])], workers=len(values), iterations=1))
    return block


def trained(d, density, iterations, drift):
    """K/k and n m/K of each iteration, for both methods on the same gradients of layers of unlike scale."""
    sizes = [d * share // sum(SHARES) for share in SHARES]
    layers = tuple(SyntheticLayer(numel=n, scale=1e-3 * s) for n, s in zip(sizes, SCALES, strict=True))
    spec = Synthetic(layers=layers, workers=8, iterations=iterations, correlation=0.2, drift=drift, seed=1)
    members = {"micro": Micro(density=density), "exdyna": ExDyna(density=density)}
    states, rows = {}, {kind: [] for kind in members}
    for block in blocks(spec):
        for kind, member in members.items():
            state = states[kind] if block.iteration else member.start(block)
            states[kind], selection, _, _ = select(member, state, block)
            assert selection.selected.sum() == selection.aggregated
            rows[kind].append((selection.aggregated / selection.target, 8 * selection.largest / selection.aggregated))
    return {kind: np.array(row).T for kind, row in rows.items()}


def settled(ratio):
    """Iterations until the mean of K/k over the next TOGETHER stays within 10 % of 1."""
    outside = np.flatnonzero(np.abs(np.convolve(ratio, np.ones(TOGETHER) / TOGETHER, "valid") - 1) > 0.1)
    return int(outside[-1]) + 1 if len(outside) else 0


def reported(figures, record_property):
    """What came out, for the log of the test run."""
    for kind, (ratio, padding) in figures.items():
        half = len(ratio) // 2
        text = (
            f"{kind}: start-up {settled(ratio)} iterations, then K/k {ratio[half:].mean():.3f} "
            f"({ratio[half:].min():.3f} to {ratio[half:].max():.3f}), padding {padding[half:].mean():.3f}"
        )
        record_property(kind, text)
        print(text)


@pytest.mark.long
def test_counts_hold_and_parts_even_out_in_a_short_training(record_property):
    figures = trained(65_536, 0.1, 200, 1.0)
    reported(figures, record_property)
    for ratio, _ in figures.values():
        assert settled(ratio) <= 100
    assert figures["micro"][1][100:].mean() > 1.25
    assert figures["exdyna"][1][100:].mean() <= 1.1


@pytest.mark.parametrize(
    ("numel", "drift"),
    [
        *(pytest.param(2**18, drift, marks=pytest.mark.long) for drift in (0.5, 1.0, 2.0)),
        pytest.param(2**20, 1.0, marks=pytest.mark.fuzz),
    ],
)
def test_counts_hold_and_parts_even_out_in_a_long_training(numel, drift, record_property):
    figures = trained(numel, 0.01, 1000, drift)
    reported(figures, record_property)
    for ratio, _ in figures.values():
        assert settled(ratio) <= 300
        assert np.mean(np.abs(ratio[500:] - 1) <= 0.1) > 0.75
    assert figures["micro"][1][500:].mean() > 1.4
    assert figures["exdyna"][1][500:].mean() <= 1.1
