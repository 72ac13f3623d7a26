"""Histograms of gradient plus residual over a replay."""

import math
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
from places import ROOT

from simulator.errors import InputError
from simulator.reporting.figures.gradient_distribution import GradientDistribution
from simulator.studies.traces import trace_study
from simulator.studies.traces.trace_study import distributions

TRACE = ROOT / "configs" / "traces" / "resnet-digits"


def test_one_histogram_for_each_iteration_that_is_asked_for():
    rows = distributions(TRACE, {"kind": "topk", "density": 0.01}, (219, 5))
    assert [row["iteration"] for row in rows] == [5] * trace_study.BINS + [219] * trace_study.BINS
    for iteration in (5, 219):
        shares = [row["share"] for row in rows if row["iteration"] == iteration]
        assert 0.97 < math.fsum(shares) <= 1 + 1e-12  # the rest lies beyond five standard deviations
        assert all(row["excess_kurtosis"] > 0 for row in rows)


def test_the_method_changes_what_is_left_to_select_from():
    dense, sparse = (distributions(TRACE, method, (20,)) for method in ("dense", {"kind": "topk", "density": 0.01}))
    assert sparse[0]["standard_deviation"] > 1.5 * dense[0]["standard_deviation"]


def test_a_normal_distribution_is_recognised():
    rows = list(trace_study._histogram(np.random.default_rng(0).normal(2.0, 3.0, (4, 50_000)), np.ones(50_000)))
    assert rows[0]["standard_deviation"] == pytest.approx(3, rel=0.01) and abs(rows[0]["excess_kurtosis"]) < 0.05
    middle = rows[trace_study.BINS // 2]
    half = trace_study.WIDTH / trace_study.BINS
    assert middle["middle"] == pytest.approx(0, abs=1e-12)
    assert middle["normal"] == pytest.approx(NormalDist().cdf(half) - NormalDist().cdf(-half))
    assert all(row["share"] == pytest.approx(row["normal"], abs=0.003) for row in rows)


def test_a_coordinate_counts_as_many_elements_as_it_stands_for():
    u = np.array([[1.0, -1.0, 4.0]])
    repeated = list(trace_study._histogram(np.array([[1.0, 1.0, 1.0, -1.0, -1.0, 4.0]]), np.ones(6)))
    assert list(trace_study._histogram(u, np.array([3.0, 2.0, 1.0]))) == [
        {key: pytest.approx(value) for key, value in row.items()} for row in repeated
    ]


def test_gradients_that_are_all_equal_have_no_distribution():
    assert list(trace_study._histogram(np.ones((2, 3)), np.ones(3))) == []


def test_an_iteration_that_was_not_recorded_is_refused():
    with pytest.raises(InputError, match="expected iterations that were recorded, got 3: 5 to 219, 32 in all"):
        distributions(TRACE, "dense", (5, 3))


def test_layers_are_looked_at_one_by_one():
    rows = distributions(TRACE, {"kind": "topk", "density": 0.01}, (5, 219), ("0.weight", "8.weight"))
    assert len(rows) == 2 * 2 * trace_study.BINS
    assert len(set({(row["iteration"], row["layer"]): row["standard_deviation"] for row in rows}.values())) == 4
    with pytest.raises(InputError, match=r"a layer of the trace, got '8\.wieght': did you mean '8\.weight'"):
        distributions(TRACE, "dense", (5,), ("8.wieght",))


def test_the_figure_has_a_panel_for_each_layer():
    rows = pd.DataFrame(distributions(TRACE, "dense", (5, 219), ("0.weight", "8.weight")))
    panels = GradientDistribution().compose(rows[list(GradientDistribution.columns)]).panels
    assert [panel.title for panel in panels] == ["0.weight", "8.weight"]
    assert all(len(panel.marks) == 3 for panel in panels)  # the normal distribution and two iterations
