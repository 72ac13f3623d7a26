"""Widths of links: fitted laws are surer than described ones, and less sure the farther they are used."""

import math

import pytest
from places import ROOT

from simulator.calibration.collectives import CollectiveTimings
from simulator.calibration.network import base_fabric
from simulator.component import build
from simulator.fabrics.base import Fabric
from simulator.fabrics.link_widths import link_width, link_width_inside, shipped_widths
from simulator.loading.documents import read_document
from simulator.models.exchange import Layout
from simulator.models.widths import NORMAL_95

FIT = {"nodes": 8, "gpus_per_node": 4, "bandwidth": "1 GB/s", "latency": "30 us", "version": "2.21"}
NETWORKS = sorted(path.stem for path in (ROOT / "configs" / "networks").glob("*.yaml"))


def network(**more):
    return build(Fabric, {"kind": "single_switch", "bandwidth": "1 GB/s", "latency": "30 us", **more})


def fitted(transport="tcp", **more):
    return network(transport=transport, fitted_for={**FIT, **more})


def test_the_error_of_the_fit_is_the_width_where_it_was_fitted():
    found = link_width(fitted(rate="10 %", start_up="20 %"), 8)
    assert found.rate == pytest.approx(math.exp(NORMAL_95 * 0.1))
    assert found.start_up == pytest.approx(math.exp(NORMAL_95 * 0.2))
    assert found.level == "measured"


def test_a_mean_error_stands_for_both_parts():
    found = link_width(network(transport="tcp", fitted_for=FIT, held_out_mape="8 %"), 8)
    assert found.rate == found.start_up == pytest.approx(math.exp(NORMAL_95 * math.sqrt(math.pi / 2) * 0.08))


def test_a_network_whose_figures_are_stated_again_as_they_are_printed_is_the_same_one():
    """1.1743 GB/s is printed as 9.394 Gbit/s; half a per cent more is another network, which nobody measured."""
    shipped = build(Fabric, read_document(ROOT / "configs" / "networks" / "10gbe-tcp.yaml").data)
    layout = Layout(8, 4)
    again, other = (shipped.model_copy(update={"bandwidth": rate / 8}) for rate in (9.394e9, 9.44e9))
    for network, same in ((again, True), (other, False)):
        assert (network.measured_curve("all_reduce", "nccl", layout) is not None) is same
        assert (link_width(network, 8).rate == link_width(shipped, 8).rate) is same


def test_without_an_error_of_its_own_it_has_that_of_other_networks():
    found, others = link_width(fitted(), 8), shipped_widths()["nodes fitted"]["tcp"]
    assert (found.rate, found.start_up) == pytest.approx((others.rate, others.start_up))
    assert found.level == "transferred"
    assert f"{others.networks} networks" in found.source


@pytest.mark.parametrize("transport", ["tcp", "rdma", "mpi", "gloo"])
def test_it_grows_with_the_distance_up_to_that_of_a_described_network(transport):
    law, described = fitted(transport, rate="5 %", start_up="10 %"), link_width(network(transport=transport), 8)
    for away in ([8, 16, 32, 64, 1024], [8, 4, 2]):
        widths = [link_width(law, nodes) for nodes in away]
        for part in ("rate", "start_up"):
            values = [getattr(width, part) for width in widths]
            assert values == sorted(values)
            assert values[1] > values[0]
            assert values[-1] <= getattr(described, part)
        assert [width.level for width in widths] == ["measured", *["transferred"] * (len(away) - 1)]


def test_between_the_smallest_and_the_largest_cluster_nothing_is_added():
    law = fitted(fewest_nodes=2, rate="5 %", start_up="5 %")
    assert link_width(law, 2) == link_width(law, 4) == link_width(law, 8)
    assert link_width(law, 16).rate > link_width(law, 8).rate


def test_another_version_is_less_sure():
    law = {"rate": "5 %", "start_up": "5 %"}
    same, other = (
        link_width(network(transport="tcp", fitted_for=FIT | law, nccl={"version": version}), 8)
        for version in ("2.21", "2.18")
    )
    assert other.rate > same.rate
    assert other.start_up > same.start_up
    assert (same.level, other.level) == ("measured", "transferred")


def test_a_changed_bandwidth_is_described_only():
    changed = fitted(rate="5 %", start_up="5 %").model_copy(update={"bandwidth": 2e9})
    assert link_width(changed, 8) == link_width(network(transport="tcp"), 8)


def test_large_payloads_do_not_show_the_start_up():
    found, described = link_width(fitted(smallest="1 MiB", rate="5 %"), 8), link_width(network(transport="tcp"), 8)
    assert found.rate < described.rate
    assert found.start_up == described.start_up
    assert link_width(fitted(smallest="1 KiB"), 8).start_up < described.start_up


def test_tcp_is_less_sure_where_one_connection_limits_it():
    """3.18 GB/s are what one connection brings."""
    slow, alike, fast = (
        link_width(build(Fabric, {"kind": "single_switch", "bandwidth": rate, "transport": "tcp"}), 2).rate
        for rate in ("1 GB/s", "3.18 GB/s", "25 GB/s")
    )
    assert fast > alike == slow


def test_a_width_that_the_user_states_counts():
    found = link_width(network(transport={"kind": "tcp", "prior_width": 1.25}), 4)
    assert (found.rate, found.level) == (1.25, "assumed")


def test_an_unknown_transport_is_assumed():
    assert link_width(network(), 4).level == "assumed"


def test_links_inside_a_node():
    fit = {"nodes": 1, "gpus_per_node": 4, "bandwidth": "235 GB/s", "latency": "3 us", "rate": "4 %", "start_up": "9 %"}
    inside = {"bandwidth": "235 GB/s", "latency": "3 us"}
    law = network(intra_node={**inside, "fitted_for": fit})
    assert link_width_inside(law, 4).level == "measured"
    assert link_width_inside(law) == link_width_inside(law, 4)
    assert link_width_inside(law, 8).rate > link_width_inside(law, 4).rate
    assert link_width_inside(network(intra_node=inside), 4).rate > link_width_inside(law, 8).rate
    pci, nvlink = (link_width_inside(network(intra_node={**inside, "link": link}), 4) for link in ("pci", "nvlink"))
    assert pci != nvlink
    assert link_width_inside(law, 1).rate == link_width(law, 1).rate == 1


@pytest.mark.parametrize("name", NETWORKS)
def test_no_shipped_network_counts_as_exact(name):
    shipped = base_fabric(f"networks/{name}", CollectiveTimings())
    inside = shipped.kind in ("nvswitch", "nvlink_mesh")
    found = link_width_inside(shipped, 4) if inside else link_width(shipped, 4)
    assert found.rate > 1
    assert found.start_up > 1
    if shipped.fitted_for is not None:
        assert shipped.fitted_for.bandwidth == shipped.bandwidth
        assert shipped.fitted_for.latency == shipped.latency
