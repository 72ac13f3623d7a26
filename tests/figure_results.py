"""Small real results that figures are drawn from: runs, sweeps, a validation, a replay, a GPU with timings."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pandas as pd
from made_trainings import DENSE, TOPK, write_study
from places import ROOT

from simulator.engine.build_up import build_up
from simulator.loading.documents import parse_document
from simulator.prediction.run import run
from simulator.prediction.run_files import store
from simulator.reporting.figures.data.sources import Source, of_document, of_table, open_source, open_sources
from simulator.scenario.reading import load
from simulator.studies.quality.observations import Target
from simulator.studies.quality.quality import describe_quality
from simulator.studies.quality.study import read_study
from simulator.studies.sweep.sweep import sweep
from simulator.studies.traces.trace_study import distributions
from simulator.studies.validate.validation import validate

SCENARIO = """
name: small
workload: {batch_size: 8, layers: [{name: a, numel: 400000, forward: 1 ms, backward: 2 ms}, {name: b, numel: 100000}]}
cluster: {nodes: 4, gpu: gpus/v100, network: {kind: single_switch, bandwidth: 10 Gbit/s, latency: 20 us}}
topology: ring
sparsifier: {kind: topk, density: 0.01}
scheduler: wfbp
"""
TIMED = 1.1
"""The timings made here take so many times as long as the curve says."""


def scenario(*overrides: str):
    """The small scenario with some keys changed."""
    path = Path(mkdtemp()) / "small.yaml"
    path.write_text(SCENARIO)
    return load(path, overrides)


def base() -> dict[str, object]:
    return parse_document(SCENARIO).data


@cache
def run_folder(*overrides: str) -> Path:
    """Where the result of the small scenario lies."""
    folder = Path(mkdtemp())
    store(folder, run(scenario(*overrides)))
    return folder


@cache
def swept(*which: str) -> Source:
    """A sweep of the small scenario over some of density, workers and bandwidth."""
    axes = {
        "density": ("sparsifier.density", [0.001, 0.01, 0.1]),
        "workers": ("cluster.nodes", [1, 2, 4, 8]),
        "bandwidth": ("cluster.network.bandwidth", ["100 Mbit/s", "1 Gbit/s", "10 Gbit/s", "100 Gbit/s"]),
    }
    kinds = ["dense", "topk", "gtopk"]
    methods = kinds if "density" in which else [{"kind": kind, "density": 0.01} for kind in kinds[1:]] + ["dense"]
    vary = {"sparsifier": methods, **dict(axes[name] for name in which)}
    return of_table(sweep({"base": base(), "vary": vary}, workers=1), "sweep")


@cache
def validation() -> Source:
    place = ROOT / "scenarios" / "validation" / "resnet18-4xv100-ib"
    return of_document(validate([place]).to_dict(), "validation")


@cache
def replayed() -> Source:
    methods = [{"kind": "gaussiank", "density": 0.01}, {"kind": "topk", "density": 0.01}]
    return of_document(build_up(ROOT / "configs/traces/resnet-digits", methods, (1, 4)), "build-up")


@cache
def timed() -> Source:
    """A GPU, and timings that are 10 % above its curves."""
    gpu = open_source("gpus/v100").document
    sizes = 2.0 ** np.arange(12, 24, 4)
    rows = [
        {"kernel": kernel, "dtype": "fp32", "elements": size, "median_s": TIMED * float(gpu.kernel_time(kernel, size))}
        for kernel in ("topk", "elementwise")
        for size in sizes
    ]
    path = Path(mkdtemp()) / "kernels.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    return open_sources(["gpus/v100", str(path)])


@cache
def distributed() -> Source:
    rows = distributions(ROOT / "configs/traces/resnet-digits", {"kind": "topk", "density": 0.01}, (5, 20, 219))
    return of_document(rows, "distribution")


@cache
def trained() -> Path:
    """A folder with trainings of three methods."""
    return write_study(Path(mkdtemp()), [DENSE, TOPK, {"kind": "randomk", "density": 0.1}])


@cache
def to_quality() -> Source:
    """Times to a loss of 0.5 of these methods on the small cluster."""
    study = read_study(str(trained()), Target("loss", 0.5))
    return of_document(describe_quality(study, scenario()).to_dict(), "quality")


SOURCES = {
    "iteration_breakdown": lambda: open_sources([str(run_folder()), str(run_folder("sparsifier=dense"))]),
    "scaling_efficiency": lambda: swept("workers"),
    "density_sweep": lambda: swept("density"),
    "build_up": replayed,
    "padding_imbalance": replayed,
    "break_even_map": lambda: swept("workers", "bandwidth"),
    "measured_predicted": validation,
    "cost_curves": timed,
    "link_utilisation": lambda: open_source(str(run_folder("topology=parameter_server"))),
    "lines": lambda: swept("workers"),
    "grouped_bars": lambda: swept("workers"),
    "over_iterations": replayed,
    "gradient_distribution": distributed,
    "traffic_matrix": lambda: open_source(str(run_folder())),
    "convergence": lambda: open_source(str(trained())),
    "time_to_quality": to_quality,
}
"""What each kind of figure is drawn from in the tests."""
