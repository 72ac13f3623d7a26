"""Errors of laws by rate and start-up, and the widths that they give."""

import math

import numpy as np
import pytest
from command_line import answered
from places import ROOT

from simulator.calibration.collectives import CollectiveTimings, Key
from simulator.calibration.fits.families import Repeats
from simulator.calibration.laws import LinkLaw
from simulator.calibration.network import base_fabric
from simulator.calibration.network_fit import part_errors
from simulator.calibration.network_widths import Case, learn_widths, widths_yaml
from simulator.component import build
from simulator.errors import InputError
from simulator.fabrics.base import Fabric
from simulator.fabrics.link_widths import link_width
from simulator.loading.csv_tables import read_models

CASES = ROOT / "docs" / "developers" / "network-cases.csv"
KEY = Key("all_reduce", "ring", 8, 1)
SIZES = 2.0 ** np.arange(6, 30)


def law(bandwidth=1e9, latency=20e-6):
    return LinkLaw(build(Fabric, {"kind": "single_switch", "bandwidth": bandwidth, "latency": latency}), "ring")


def case(**more):
    given = {"network": "a", "place": "nodes", "over": "tcp", "distance": "described", "setting": "", "timings": 10}
    return Case(**given | more)


@pytest.mark.parametrize(("rate", "start_up"), [(1.0, 1.0), (1.5, 1.0), (1.0, 3.0), (0.6, 2.0)])
def test_both_factors_are_found(rate, start_up):
    found = part_errors(law(), {KEY: Repeats(SIZES, law(1e9 / rate, 20e-6 * start_up).time(KEY, SIZES), None)})
    assert found.timings == len(SIZES) and found.rate == pytest.approx(abs(math.log(rate)), abs=0.03)
    assert found.start_up == pytest.approx(abs(math.log(start_up)), abs=0.03)


def test_a_part_that_nothing_shows_has_no_error():
    large = SIZES[-6:]
    found = part_errors(law(), {KEY: Repeats(large, 2 * law().time(KEY, large), None)})
    assert found.start_up is None and found.rate == pytest.approx(math.log(2), rel=0.1)


def test_noise_is_part_of_the_error():
    seconds = law().time(KEY, SIZES) * np.exp(0.2 * np.random.default_rng(0).standard_normal(len(SIZES)))
    found = part_errors(law(), {KEY: Repeats(SIZES, seconds, None)})
    assert 0.1 < found.rate < 0.3 and 0.1 < found.start_up < 0.3


def test_one_wild_timing_is_an_error_but_no_factor():
    seconds = law().time(KEY, SIZES)
    seconds[-3] *= 30
    found = part_errors(law(), {KEY: Repeats(SIZES, seconds, None)})
    assert found.start_up < 0.05 and found.rate == pytest.approx(math.log(30) / math.sqrt(9), rel=0.2)


def test_a_network_counts_once_however_many_cases_it_has():
    one = [case(rate=0.2, start_up=0.5), case(network="b", rate=0.4, start_up=0.5)]
    many = [*one, *[case(rate=0.2, start_up=0.5)] * 20]
    assert learn_widths(one)["nodes described"]["tcp"].rate == learn_widths(many)["nodes described"]["tcp"].rate
    assert learn_widths(many)["nodes described"]["tcp"].networks == 2


def test_what_is_wrong_with_every_fit_does_not_grow_with_the_nodes():
    same = case(distance="farther", rate=0.3, own_rate=0.3, doublings=2)
    worse = case(distance="farther", rate=0.5, own_rate=0.3, doublings=2)
    assert learn_widths([same])["nodes farther"]["nccl"].rate == 1
    assert worse.square("rate") == pytest.approx((0.25 - 0.09) / 2)
    assert learn_widths([worse])["nodes farther"]["nccl"].rate > 1.3


def test_nine_of_ten_networks_are_within_the_width_of_the_others():
    """Each described network against the width that all others give its kind of links."""
    cases = read_models(CASES, Case)
    judged = inside = 0
    for name in dict.fromkeys(item.network for item in cases if item.distance == "described"):
        widths = learn_widths([item for item in cases if item.network != name])
        for item in cases:
            if item.network == name and item.distance == "described":
                known = widths[f"{item.place} described"]
                width = known.get(item.over) or known["any"]
                for error, factor in ((item.rate, width.rate), (item.start_up, width.start_up)):
                    if error is not None:
                        judged, inside = judged + 1, inside + (error <= math.log(factor))
    assert judged > 60 and inside / judged >= 0.85


def test_the_shipped_widths_are_those_of_the_shipped_cases():
    assert widths_yaml(learn_widths(read_models(CASES, Case))) == (ROOT / "configs" / "network_widths.yaml").read_text()


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("a,nodes,tcp,described,x,0,0.1", "2: timings"),
        ("a,nodes,tcp,guessed,x,3,0.1", "2: distance"),
        ("a,nodes,tcp,described,x,3,-1", "2: rate"),
    ],
)
def test_wrong_cells_are_named_with_their_place(tmp_path, row, what):
    table = tmp_path / "cases.csv"
    table.write_text("network,place,over,distance,setting,timings,rate\n" + row + "\n")
    with pytest.raises(InputError, match=what):
        read_models(table, Case)


def test_a_calibrated_network_says_what_it_was_fitted_to_and_is_judged_on_other_timings(tmp_path):
    for nodes in (4, 8):
        key = Key("all_reduce", "ring", nodes, 1)
        rows = zip(SIZES.tolist(), (law() if nodes == 4 else law(0.8e9)).time(key, SIZES).tolist(), strict=True)
        text = "".join(f"all_reduce,ring,{nodes},{nodes},{size:.0f},{seconds}\n" for size, seconds in rows)
        (tmp_path / f"{nodes}.csv").write_text("primitive,topology,workers,nodes,bytes,seconds\n" + text)
    out = tmp_path / "mine.yaml"
    command = ["calibrate", "network", str(tmp_path / "4.csv"), "--judge", str(tmp_path / "8.csv"), "--out", str(out)]
    parts = answered(*command, "--no-figure", "--law-from", "1 KiB")["parts"]
    assert parts["described"] is None and parts["left_out"]["rate"] < 0.01
    assert parts["judged"]["rate"] == pytest.approx(math.log(1 / 0.8), abs=0.03)
    made = base_fabric(str(out), CollectiveTimings())
    assert (made.fitted_for.nodes, made.fitted_for.gpus_per_node, made.fitted_for.smallest) == (4, 1, 1024)
    assert link_width(made, 4).level == "measured" and link_width(made, 8).level == "transferred"
