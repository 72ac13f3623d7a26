"""What is tried where a workload or a scenario says nothing: overlap and optimiser."""

import csv
import math

import numpy as np
import pytest
from scipy.optimize import brentq

from simulator.loading.finding import find_shipped
from simulator.models.layers import Layer, Workload
from simulator.models.optimisers import UNKNOWN_OPTIMISER, Kind, Optimiser
from simulator.models.overlap import UNKNOWN_OVERLAP, union_density


def concentrations(trace):
    """The concentration that each measured union asks for: Top-k with error feedback, at most 1 %."""
    text = (find_shipped(f"configs/traces/{trace}") / "union.csv").read_text(encoding="utf-8")
    rows = [row for row in csv.DictReader(text.splitlines()) if row["error_feedback"] == "true"]
    alone = {alike(row): float(row["union_density"]) for row in rows if row["workers"] == "1"}
    for row in rows:
        density, workers, union = alone[alike(row)], int(row["workers"]), float(row["union_density"])
        if workers >= 4 and density < 0.02:
            yield math.exp(brentq(missed, -12, 18, args=(density, workers, union)))


def missed(log, density, workers, union):
    return union_density(density, workers, math.exp(log)) - union


def alike(row):
    return row["iteration"], row["granularity"], row["density"]


def test_unknown_overlap_is_what_nine_in_ten_recorded_selections_show():
    found = [c for trace in ("resnet-digits", "transformer-generated") for c in concentrations(trace)]
    assert np.percentile(found, (5, 95)) == pytest.approx(UNKNOWN_OVERLAP, rel=0.02)
    assert len(found) == 168


def test_an_optimiser_that_is_stated_is_the_only_one():
    layers = (Layer(name="a", numel=10),)
    assert Workload(batch_size=1, layers=layers).optimisers == UNKNOWN_OPTIMISER
    stated = Workload(batch_size=1, layers=layers, optimiser="lamb")
    assert stated.optimisers == (Optimiser(kind="lamb"),)
    assert stated.rescaled(2).optimisers == stated.optimisers
    changed = Workload(batch_size=1, layers=layers).model_copy(update={"optimiser": Optimiser()})
    assert changed.optimisers == (Optimiser(),)


def test_the_unknown_optimisers_enclose_all_but_lamb_within_a_pass():
    least, most = (item.bytes_per_element() for item in UNKNOWN_OPTIMISER)
    kinds = [kind for kind in Kind.__args__ if kind != "lamb"]
    ways = ("per_tensor", "foreach", "fused", "fused_per_tensor")
    moved = [
        Optimiser(kind=kind, implementation=way, weight_decay=decay).bytes_per_element()
        for kind in kinds
        for way in ways
        for decay in (False, True)
    ]
    assert (least, most) == (12, 88)
    assert least == min(moved)
    assert max(moved) <= most + 4  # Adam whose decay is coupled
