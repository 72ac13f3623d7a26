"""What users wait for: `pytest tests/benchmarks/test_waits.py -o addopts= -s`.

The bars are multiples of a fixed loop that is timed in the same run, so that a slow or busy machine does not decide;
CPU seconds of all processes count.
"""

import time

import pytest
from watched import watched

STEPS = 2_000_000
"""Steps of the fixed loop, which takes about 0.15 s."""
MAP = """base:
  workload: {trace: workloads/resnet50-v100, batch_size: 64}
  cluster:
    gpu: gpus/v100-pytorch2
    gpus_per_node: 4
    network: {kind: single_switch, latency: 25 us, intra_node: {bandwidth: 10 GB/s, latency: 5 us}}
    runtime: runtimes/pytorch-ddp
  topology: nccl
  scheduler: bucketed
verdicts: true
vary:
  sparsifier: [dense, {kind: topk, density: 1 %}, {kind: gtopk, density: 1 %}, {kind: oktopk, density: 1 %}]
  cluster.nodes: {from: 2, to: 128, scale: log, points: 7}
  cluster.network.bandwidth: {from: 100 Mbit/s, to: 100 Gbit/s, scale: log, points: 13}
"""


def loop_seconds():
    """CPU seconds of a fixed loop of plain Python."""
    best = float("inf")
    for _ in range(3):
        began, total = time.process_time(), 0.0
        for step in range(STEPS):
            total += step * 0.5
        best = min(best, time.process_time() - began)
    assert total
    return best


@pytest.mark.parametrize(
    ("command", "most"),
    [(("advise", "quickstart"), 105), (("validate",), 210), (("sweep", "big", "--out", "OUT"), 80), (("map",), 160)],
    ids=["advise", "validate", "sweep", "map"],
)
def test_a_wait_is_a_bounded_multiple_of_a_fixed_loop(command, most, tmp_path):
    if command == ("map",):
        path = tmp_path / "map.yaml"
        path.write_text(MAP)
        command = ("sweep", path, "--out", "OUT")
    made = watched("-m", "simulator", *(tmp_path / "out" if word == "OUT" else word for word in command))
    loop = loop_seconds()
    print(f"\n{made.wall:.1f} s, {made.cpu:.1f} s of CPU, {made.peak / 2**20:.0f} MiB: {made.cpu / loop:.0f} loops")
    assert made.code == 0
    assert made.cpu <= most * loop
