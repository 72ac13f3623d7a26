"""What a fitted network states, and which of two laws goes into the config, from errors that are given."""

import numpy as np
import pytest

from simulator.calibration.collectives import CollectiveTimings, Key
from simulator.calibration.fits.families import Fitted, Repeats
from simulator.calibration.fits.selection import CurveFit
from simulator.calibration.laws import LinkLaw, fit_sums_in_switch, split_seconds
from simulator.calibration.network_fit import Fit, LawFit, NetworkFit, PartErrors
from simulator.component import build
from simulator.fabrics.base import Fabric

BASE = build(Fabric, {"kind": "nvswitch", "bandwidth": 370e9, "latency": 2e-6})
KEY = Key("all_reduce", "ring", 4, 4)


def fit(left_out=(), *, nodes=(), unseen=(), fitted=(0.0,), **more):
    """A fit whose errors are these; those of counts left out by count."""
    counts, of_nodes = ({count: np.array(off) for count, off in dict(given).items()} for given in (left_out, nodes))
    others = {name: np.array(more.get(name, ())) for name in ("beyond", "between")} | {"fitted": np.array(fitted)}
    law, parts = LinkLaw(BASE, "ring", unseen), PartErrors(1, None, None)
    return Fit(law=law, free=("bandwidth",), left_out=counts, nodes_left_out=of_nodes, parts=parts, **others)


def network(*laws, curves=()):
    return NetworkFit(BASE, CollectiveTimings(), dict(curves), tuple(LawFit("ring", {}, law, None) for law in laws))


def test_errors_at_nodes_left_out_count_before_those_at_workers_and_these_before_those_at_sizes():
    given = {"nodes": {2: [0.4], 4: [0.5]}, "left_out": {8: [0.3]}, "between": [0.2], "beyond": [0.1]}
    held = []
    for name in tuple(given):
        held.append(fit(**given).held.tolist())
        del given[name]
    assert held == [[0.4, 0.5], [0.3], [0.2], [0.1]] and not len(fit().held)


@pytest.mark.parametrize(
    ("links", "beside", "closer"),
    [
        ({2: [0.1], 4: [-0.3]}, {2: [0.1], 4: [0.2]}, True),
        ({2: [0.1], 4: [-0.3]}, {2: [0.1], 4: [-0.3]}, False),
        ({2: [0.1], 4: [-0.2]}, {2: [0.3], 4: [-0.3]}, False),
        ({2: [0.1]}, {}, False),
        ({}, {2: [0.1]}, False),
    ],
)
def test_the_cost_of_a_call_is_in_the_law_that_is_closer_at_counts_left_out(links, beside, closer):
    both = LawFit("ring", {}, fit(links), fit(beside))
    assert both.chosen is (both.beside if closer else both.links)
    other = BASE.model_copy(update={"latency": 1.0})
    changed = both.with_fabric(other)
    assert changed.chosen.law.fabric is other and changed.chosen.held.tolist() == both.chosen.held.tolist()
    assert (changed.links is both.links, changed.beside is both.beside) == (closer, not closer)


def test_laws_that_miss_their_data_or_do_not_show_the_links_are_warned_about():
    assert network(fit(fitted=[0.3, -0.1])).warnings == []
    (missed,) = network(fit(), fit(fitted=[0.3, -0.2])).warnings
    assert "the law of ring misses its own measurements by 25 % on average" in missed
    (hidden,) = network(fit(unseen=("bandwidth",))).warnings
    assert "it stays at 370 GB/s" in hidden


def test_the_document_pools_errors_over_curves_and_over_the_chosen_laws():
    def curve(sizes, errors):
        sizes, errors = np.array(sizes), np.array(errors)
        return CurveFit(Repeats(sizes, sizes, None), Fitted("affine", np.copy), sizes, errors, errors, errors)

    first, second = curve([2.0**10, 2.0**20], [0.4, -0.1]), curve([2.0**20 - 1, 2.0**21], [0.2, 0.3])
    of_workers, of_nodes = fit({2: [0.1, 0.1]}, beyond=[0.6]), fit({4: [-0.4]}, nodes={3: [0.7]}, beyond=[-0.2])
    found = network(of_workers, of_nodes, curves={KEY: first, KEY._replace(workers=8): second}).as_dict()
    pooled = {name: (one["n"], one["mape"], one["bias"]) for name, one in found.items() if "polation" in name}
    assert pooled == {
        "interpolation": (4, pytest.approx(0.25), pytest.approx(0.2)),
        "interpolation_from_1_mib": (2, pytest.approx(0.2), pytest.approx(0.1)),
        "size_extrapolation": (2, pytest.approx(0.4), pytest.approx(0.2)),
        "worker_extrapolation": (3, pytest.approx(0.2), pytest.approx(-0.2 / 3)),
        "node_extrapolation": (1, pytest.approx(0.7), pytest.approx(0.7)),
    }
    assert [item["id"] for item in found["curves"]] == ["all_reduce/ring/4x4", "all_reduce/ring/8x4"]
    assert [item["interpolation_from_1_mib"]["mape"] for item in found["curves"]] == pytest.approx([0.1, 0.3])
    laws = [item["links"] for item in found["laws"]]
    assert [law["terms"] for law in laws] == [{"bandwidth": 370e9}] * 2 and found["laws"][0]["beside"] is None
    assert [(list(law["worker_extrapolation"]), list(law["node_extrapolation"])) for law in laws] == [
        (["2"], []), (["4"], ["3"]),
    ]  # fmt: skip


def test_seconds_of_a_ring_are_those_of_its_bytes_and_of_its_steps():
    """Six steps of 2 us, each of a quarter of the payload."""
    whole, wire = split_seconds(LinkLaw(BASE, "ring"), KEY, np.array([4e6, 4e9]), ["bandwidth"])
    assert wire == pytest.approx([6e6 / 370e9, 6e9 / 370e9]) and whole - wire == pytest.approx(12e-6, rel=1e-6)


@pytest.mark.parametrize("share", [0.4, 0.7])
def test_the_share_of_the_rate_that_sums_in_the_switch_reach_comes_back(share):
    """A start and S (1 + 1/8) bytes through each port at a share of its rate, in payloads of 1 to 8 GiB."""
    sizes = 2.0 ** np.arange(30, 34)
    series = {Key("all_reduce", "nccl", 8, 8): Repeats(sizes, 30e-6 + sizes * 1.125 / (share * 370e9), None)}
    law = fit_sums_in_switch(series, BASE, "NVIDIA H100", hardware=True)
    assert law.fabric.nccl.efficiency == {"nvls Simple": pytest.approx(share, rel=0.02)}
    assert (law.unseen, law.fabric.bandwidth) == (("bandwidth", "latency"), 370e9)
