"""Replay at full resolution and on a sample: seconds and memory."""

import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from simulator.engine.replay import Replay
from simulator.models.gradients import Block
from simulator.sparsifiers.topk import TopK

SIZES = (2359296, 2359296, 2359296, 1179648, 589824, 589824, 589824, 294912, 500000, 400000)

SCRIPT = """
import re, sys
sys.path.insert(0, sys.argv[1])
from test_replay_speed import Replay, TopK, blocks
count = sum(map(len, map(Replay(TopK(density=0.01)).advance, blocks(1.0))))
# Not `ru_maxrss`, which holds what the process that started this one had.
print(count, re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""


def blocks(share, iterations=20, workers=8):
    """Iterations of an 11 M-parameter model, or of a sample of it; rolled, so that they differ at little cost."""
    held = [max(64, int(share * n)) for n in SIZES]
    draws = np.random.default_rng(0).standard_normal((workers, sum(held)), dtype=np.float32)
    piece = np.repeat(np.arange(len(SIZES)), held)
    ends = np.cumsum([0, *SIZES])
    places = [start + np.linspace(0, n - 1, m).astype(np.int64) for start, n, m in zip(ends, SIZES, held, strict=False)]
    weight = np.repeat(np.array(SIZES) / np.array(held), held)
    for t in range(iterations):
        yield Block(np.roll(draws, 1000 * t, axis=1), piece, np.concatenate(places), weight, SIZES, t)


def test_an_iteration_of_11_million_parameters_takes_as_long_as_30_additions():
    """The additions of two arrays of that size are measured in the same run, so that a slow machine fails nothing."""
    spent = added = math.inf
    member = Replay(TopK(density=0.01))
    total = np.zeros((8, sum(SIZES)), dtype=np.float32)
    for block in blocks(1.0, 8):
        before = time.process_time()
        total += block.values
        between = time.process_time()
        member.advance(block)
        added, spent = min(added, between - before), min(spent, time.process_time() - between)
        del block
    print(f"{spent:.3f} s an iteration, {spent / added:.1f} additions")
    assert spent <= 30 * added


def test_twenty_iterations_of_11_million_parameters_hold_1_7_gb():
    made = subprocess.run(  # a process of its own, since the largest size is that of the whole life of a process
        [sys.executable, "-c", SCRIPT, str(Path(__file__).parent)], capture_output=True, text=True, check=True
    )
    count, kilobytes = map(int, made.stdout.split())
    print(f"{kilobytes * 1024 / 1e9:.2f} GB")
    assert count == 20
    assert kilobytes * 1024 <= 1.7e9


def test_the_same_sampled_at_1_per_cent_in_2_s():
    start = time.perf_counter()
    assert sum(map(len, map(Replay(TopK(density=0.01)).advance, blocks(0.01)))) == 20
    assert time.perf_counter() - start <= 2
