"""Columns of a sweep in words: what they are called, how their values are shown, and what they mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from simulator.reporting.figures.data.rows import method_name
from simulator.reporting.figures.style.style import words
from simulator.reporting.page.formats import cell
from simulator.reporting.page.parts import Column

_KNOWN = {
    "iteration_time_s": ("iteration time", "time", "seconds of one iteration"),
    "iteration_time_interval_s.p5": ("interval, low", "time", "5th percentile of the prediction interval"),
    "iteration_time_interval_s.p95": ("interval, high", "time", "95th percentile of the prediction interval"),
    "throughput_samples_per_s": ("samples/s", "number", "throughput of all workers"),
    "scaling_efficiency": ("efficiency", "share", "step on one GPU over the iteration"),
    "communication_total_s": ("communication, hidden too", "time", "time of all exchanges, hidden or not"),
    "traffic.sent_bytes_per_worker": ("sent per worker", "bytes", "in one iteration, mean over workers"),
    "traffic.busiest_link.utilisation": ("busiest link", "share", "share of its capacity that is used"),
    "density.selected": ("selected density", "share", "share of coordinates that one worker selects"),
    "density.aggregated": ("aggregated density", "share", "share of coordinates that are summed in the end"),
    "density.build_up": ("build-up", "number", "aggregated over selected"),
    "density.padding": ("padding", "number", "bytes gathered over bytes selected"),
    "workers": ("workers", "count", "GPUs"),
    "fidelity.tier": ("fidelity", "text", "how exchanges were priced: folded rounds, or flows"),
    "calibration": ("calibration", "text", "curves and laws that the point rests on, with their held-out errors"),
    "warnings": ("warnings", "text", ""),
    "digest": ("digest", "text", "identity of the resolved scenario"),
}
OUTCOMES = tuple(_KNOWN)


def column_of(name: str) -> Column:
    """A column by its name in a sweep's table.

    >>> column_of("cluster.network.bandwidth_bytes_per_s").label, column_of("breakdown_s.selection").kind
    ('network bandwidth', 'time')
    """
    if name in _KNOWN:
        label, kind, about = _KNOWN[name]
        return Column(name, label, kind, about)
    if name.startswith("breakdown_s."):
        return Column(name, words(name.rpartition(".")[2]), "time", "term of the iteration")
    last = name.removeprefix("cluster.")
    for suffix, kind in (("_bytes_per_s", "bandwidth"), ("_bytes", "bytes"), ("_s", "time")):
        if last.endswith(suffix):
            return Column(name, _words(last.removesuffix(suffix)), kind, "varied")
    kind = "percent" if last.endswith(".density") else "number"
    return Column(name, _words(last), kind, "varied")


def said(name: str, value: Any) -> str:
    """A value of a column as a person reads it: with its unit, or, where it is no number, as a method is called.

    >>> said("cluster.network.bandwidth_bytes_per_s", 1.25e9), said("topology", "ring")
    ('10 Gbit/s', 'ring')
    """
    if value is None or isinstance(value, int | float | np.number):
        return cell(column_of(name).kind, value)
    return "–" if pd.isna(value) else method_name(value)


def _words(name: str) -> str:
    return name.replace(".", " ").replace("_", " ")
