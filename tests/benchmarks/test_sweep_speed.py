"""Speed of sweeps: `pytest tests/benchmarks/test_sweep_speed.py -o addopts=`. The bars assume two free cores."""

import json
import time

from places import ROOT
from watched import watched

from simulator.engine.plan.work.work import _works
from simulator.loading.documents import read_document
from simulator.prediction.run import run
from simulator.studies.sweep.points import Points
from simulator.studies.sweep.sweep_plan import plan_sweep


def measured(out, *options):
    """Wall seconds, CPU seconds of all processes, and the most bytes in memory, of a sweep of 5,720 points."""
    made = watched("-m", "simulator", "sweep", "big", "--out", out, *options)
    assert made.code == 0
    return made.wall, made.cpu, made.peak


def test_5720_points_on_two_cores_take_30_s_and_1_gib(tmp_path):
    wall, cpu, most = measured(tmp_path / "out", "--workers", "2")
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["evaluated"] == 5720
    print(f"\n{wall:.1f} s, {1e3 * cpu / 5720:.2f} ms of CPU per point, {most / 2**20:.0f} MiB")
    assert wall <= 30
    assert most <= 2**30
    again, _, _ = measured(tmp_path / "out", "--workers", "2")
    print(f"with everything there: {again:.1f} s")
    assert again <= 10


def test_a_point_is_built_and_identified_in_150_us():
    path = ROOT / "scenarios" / "sweeps" / "big.yaml"
    best = float("inf")
    for _ in range(3):
        points = Points(read_document(path), path.parent, strict=True)
        began = time.perf_counter()
        plan = plan_sweep(points, None)
        best = min(best, time.perf_counter() - began)
    print(f"\n{1e6 * best / len(plan.rows):.0f} us per point")
    assert best / len(plan.rows) <= 150e-6


def test_a_point_is_predicted_in_half_of_what_calculon_takes():
    path = ROOT / "scenarios" / "sweeps" / "big.yaml"
    points = Points(read_document(path), path.parent, strict=True)
    groups = plan_sweep(points, None).groups
    numbers = [number for group in groups[:: len(groups) // 200] for number in group]
    scenarios = [points.scenario(number) for number in numbers]
    run(scenarios[0])
    best = {"predicted": float("inf"), "evaluated": float("inf")}
    for _ in range(3):
        _works.clear()
        began = time.process_time()
        for scenario in scenarios:
            run(scenario)
        best["predicted"] = min(best["predicted"], time.process_time() - began)
        _works.clear()
        began = time.process_time()
        for number in numbers:
            points.evaluate(number)
        best["evaluated"] = min(best["evaluated"], time.process_time() - began)
    for what, seconds in best.items():
        print(f"\n{what}: {1e3 * seconds / len(numbers):.2f} ms of CPU per point", end="")
        # Calculon takes 2.44 ms of one core per configuration.
        assert seconds / len(numbers) <= 1.22e-3
