"""The link law: what generated the timings comes back, over switches, NICs and meshes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_logs import ring_seconds

from simulator.calibration.collectives import Key
from simulator.calibration.fits.families import Repeats
from simulator.calibration.laws import CALL_TERMS, IN_SWITCH, MOST_SIZES, LinkLaw, fit_law
from simulator.calibration.network_fit import law_errors
from simulator.component import build
from simulator.fabrics.base import Fabric
from simulator.fabrics.intra_node import pack_rings

SIZES = 2.0 ** np.arange(20, 31)
DGX1 = (
    *((0, 1, 1), (0, 2, 1), (0, 3, 2), (0, 4, 2), (1, 2, 2), (1, 3, 1), (1, 5, 2), (2, 3, 2)),
    *((2, 6, 1), (3, 7, 1), (4, 5, 1), (4, 6, 1), (4, 7, 2), (5, 6, 2), (5, 7, 1), (6, 7, 2)),
)


def series(law, keys, wild=0):
    """What a law says of each key, with `wild` sizes of each ten times too slow."""
    made = {}
    for key in keys:
        seconds = law.time(key, SIZES)
        seconds[1 : 1 + wild] *= 10
        made[key] = Repeats(SIZES, seconds, None)
    return made


def fabric(**terms):
    return build(Fabric, {"kind": "nvswitch", "bandwidth": 1.0} | terms)


KEYS = [Key("all_reduce", "nccl", p, p) for p in (2, 4, 8)] + [Key("all_gather", "nccl", 4, 4)]


@pytest.mark.parametrize(("gpus", "links"), [(2, 1), (3, 2), (4, 4), (8, 6)])
def test_rings_over_the_links_of_a_dgx1(gpus, links):
    rings = pack_rings(DGX1, gpus)
    assert sum(share for _, share in rings) == pytest.approx(links)
    assert all(sorted(ring) == list(range(gpus)) for ring, _ in rings)


def test_no_ring_closes_where_links_are_missing():
    assert pack_rings(((0, 1, 1), (2, 3, 1)), 4) == () and pack_rings(DGX1, 16) == ()


@settings(max_examples=settings.default.max_examples // 10)
@given(st.floats(1e9, 4e11), st.floats(5e-7, 2e-4))
def test_a_known_law_comes_back(bandwidth, latency):
    truth = LinkLaw(fabric(bandwidth=bandwidth, latency=latency), "ring")
    assert truth.time(KEYS[1], SIZES) == pytest.approx(ring_seconds(SIZES, 4, bandwidth, latency), rel=1e-9)
    law = fit_law(series(truth, KEYS), fabric(), "ring", ("bandwidth", "latency"))
    assert law.fabric.bandwidth == pytest.approx(bandwidth, rel=0.01)
    if "latency" not in law.unseen:
        assert law.fabric.latency == pytest.approx(latency, rel=0.02)
    assert np.abs(law_errors(law, series(truth, KEYS))).max() < 0.02


def test_outliers_do_not_move_a_law():
    truth = LinkLaw(fabric(bandwidth=1e11, latency=20e-6), "ring")
    law = fit_law(series(truth, KEYS, wild=1), fabric(), "ring", ("bandwidth", "latency"))
    assert law.fabric.bandwidth == pytest.approx(1e11, rel=0.02)
    assert law.fabric.latency == pytest.approx(20e-6, rel=0.02)


def test_what_a_collective_takes_beside_the_wires_comes_back_too():
    truth = LinkLaw(fabric(bandwidth=3e11, latency=3e-6, collective_start_up=40e-6, copy_bandwidth=5e11), "ring")
    law = fit_law(series(truth, KEYS[::2]), fabric(), "ring", ("bandwidth", "latency", *CALL_TERMS))
    assert law.fabric.bandwidth == pytest.approx(3e11, rel=0.02)
    assert law.fabric.collective_start_up == pytest.approx(40e-6, rel=0.05)
    assert law.fabric.copy_bandwidth == pytest.approx(5e11, rel=0.05)
    assert np.abs(law_errors(law, series(truth, [Key("all_reduce", "nccl", 16, 16)]))).max() < 0.02


def test_one_count_of_workers_tells_another_on_a_switch():
    truth = LinkLaw(fabric(bandwidth=2e11, latency=5e-6), "ring")
    law = fit_law(series(truth, KEYS[:2]), fabric(), "ring", ("bandwidth", "latency"))
    assert np.abs(law_errors(law, series(truth, KEYS[2:3]))).max() < 0.01


def test_a_mesh_has_the_bandwidth_of_its_rings():
    mesh = {"kind": "nvlink_mesh", "links": DGX1, "host": 1e10}
    truth = LinkLaw(build(Fabric, mesh | {"bandwidth": 22e9, "latency": 8e-6}), "ring")
    keys = [Key("all_reduce", "nccl", p, p) for p in (2, 3, 4)]
    for key, links in zip(keys, (1, 2, 4), strict=True):
        # Doubled links take less time than the ring's slowest, and hide a part of the start-ups.
        assert (truth.time(key, SIZES) >= ring_seconds(SIZES, key.workers, links * 22e9, 0)).all()
        assert (truth.time(key, SIZES) <= ring_seconds(SIZES, key.workers, links * 22e9, 8e-6) * (1 + 1e-9)).all()
    law = fit_law(series(truth, keys[:2]), build(Fabric, mesh | {"bandwidth": 1.0}), "ring", ("bandwidth", "latency"))
    assert np.abs(law_errors(law, series(truth, keys[2:]))).max() < 0.01


def test_sums_in_the_switch_have_their_own_law():
    truth = LinkLaw(fabric(bandwidth=3e11, latency=20e-6), IN_SWITCH)
    assert truth.time(KEYS[2], SIZES) == pytest.approx(20e-6 + SIZES * 1.125 / 3e11)


def test_a_latency_that_nothing_shows_keeps_its_value():
    """Four GPUs per node: three hops in four are inside, so the NIC never waits for a start-up of large payloads."""
    inside = {"bandwidth": 5.4e9, "latency": 2e-6}
    base = build(Fabric, {"kind": "single_switch", "bandwidth": 1e9, "latency": 51e-6, "intra_node": inside})
    key = Key("all_reduce", "ring", 32, 4)
    large = {key: Repeats(SIZES[4:], LinkLaw(base, "ring").time(key, SIZES[4:]), None)}
    law = fit_law(large, base, "ring", ("bandwidth", "latency"))
    assert law.fabric.bandwidth == pytest.approx(1e9, rel=0.01)
    if "latency" in law.unseen:
        assert law.fabric.latency == 51e-6


def test_of_many_sizes_those_nearest_to_even_steps_are_fitted():
    """79 sizes, even on the log axis: every second one is taken, and what the others say does not matter."""
    truth, key = LinkLaw(fabric(bandwidth=1e11, latency=20e-6), "ring"), KEYS[1]
    sizes = np.geomspace(2**20, 2**30, 2 * MOST_SIZES - 1)
    seconds = truth.time(key, sizes)
    seconds[1::2] *= 3
    law = fit_law({key: Repeats(sizes, seconds, None)}, fabric(), "ring", ("bandwidth", "latency"))
    assert law.fabric.bandwidth == pytest.approx(1e11, rel=1e-3)
    assert law.fabric.latency == pytest.approx(20e-6, rel=1e-3)
