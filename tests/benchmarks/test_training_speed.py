"""Speed of trainings: `pytest tests/benchmarks/test_training_speed.py -o addopts=`. The bars assume two free cores."""

import time

import pytest

from simulator.trainings.options import read_options


def test_8_workers_of_resnet14_train_20_iterations_a_second():
    pytest.importorskip("torch")
    import torch

    from simulator.training.loop import _Loop
    from simulator.training.task import load_task

    options = read_options({"task": "resnet14-digits", "method": "topk 0.01", "workers": 8, "momentum": 0})
    torch.set_num_threads(1)  # the default of the command; two threads spin where cores are shared
    loop = _Loop(load_task(options))
    loop.step()
    seconds = []
    for _ in range(60):
        began = time.perf_counter(), time.process_time()
        loop.step()
        seconds.append((time.perf_counter() - began[0], time.process_time() - began[1]))
    wall, cpu = (sorted(each)[len(each) // 2] for each in zip(*seconds, strict=True))
    print(f"\n{1 / wall:.1f} iterations a second, {1e3 * cpu:.0f} ms of CPU each")
    assert wall <= 1 / 20


def test_one_pass_for_all_workers_is_faster_than_one_after_the_other():
    pytest.importorskip("torch")
    import torch

    from simulator.training.loop import Workers
    from simulator.training.task import load_task

    torch.set_num_threads(1)
    best = {}
    for vectorised in (True, False):
        task = load_task(read_options({"task": "resnet14-digits", "workers": 8}))
        workers = Workers(task)
        object.__setattr__(task, "vectorised", vectorised)
        best[vectorised] = float("inf")
        for _ in range(12):
            began = time.process_time()
            workers.gradients()
            best[vectorised] = min(best[vectorised], time.process_time() - began)
    print(f"\n{1e3 * best[True]:.1f} ms and {1e3 * best[False]:.1f} ms of CPU")
    assert best[True] < 0.75 * best[False]
