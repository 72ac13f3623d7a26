"""What a reader is told where a transport or a runtime was not measured, and what that does to the interval."""

import math

import pytest

from simulator.hardware.slowdown import estimate_slowdown
from simulator.models.widths import DEVIATION, NORMAL_95
from simulator.prediction.run import run
from simulator.scenario.scenario import Scenario

RUNTIME = {
    "name": "BytePS",
    "endpoint_bandwidth": 7e8,
    "fitted_for": {"transport": "tcp"},
    "priors": [{"transport": "rdma", "endpoint_bandwidth": 5e9, "width": 2}],
}
NEGOTIATING = {"name": "Horovod", "negotiation": 1e-4, "fitted_for": {"transport": "tcp", "width": 3}}


def predicted(transport, runtime, topology="parameter_server", nodes=2):
    network = {"kind": "single_switch", "bandwidth": 1e10, "name": "net", "transport": transport}
    return run(
        Scenario.model_validate(
            {
                "workload": {"batch_size": 1, "layers": [{"name": "a", "numel": 10_000_000, "backward": 1e-3}]},
                "cluster": {
                    "nodes": nodes,
                    "gpu": {"name": "ideal", "ideal": True},
                    "network": network,
                    "runtime": runtime,
                },
                "topology": topology,
                "sparsifier": "dense",
                "scheduler": "wfbp",
            }
        )
    )


def priors(prediction):
    return {item.id: item for item in prediction.inputs if item.what == "prior"}


def test_a_runtime_on_its_own_transport_is_no_prior():
    made = predicted({"kind": "tcp"}, RUNTIME)
    assert not priors(made)
    assert not [text for text in made.document["warnings"] if "BytePS" in text]


def test_an_endpoint_fitted_over_tcp_does_not_limit_rdma_and_the_result_says_so():
    slow, fast = (predicted({"kind": kind}, RUNTIME).document for kind in ("tcp", "rdma"))
    assert slow["breakdown_s"]["communication_exposed"] == pytest.approx(2 * 2 * 4e7 / 7e8)
    assert fast["breakdown_s"]["communication_exposed"] == pytest.approx(2 * 2 * 4e7 / 5e9)
    (text,) = [text for text in fast["warnings"] if "BytePS" in text]
    assert text == (
        "BytePS was fitted over tcp, and this network is rdma: 5 GB/s per endpoint is estimated from the hardware, "
        "which may be wrong by a factor of 2"
    )
    other = predicted({"kind": "gloo"}, RUNTIME).document
    assert other["breakdown_s"]["communication_exposed"] == pytest.approx(2 * 2 * 4e7 / 1e10)
    assert [text for text in other["warnings"] if "only the network limits its endpoints" in text]


def test_other_costs_are_kept_with_their_width():
    made = predicted({"kind": "rdma"}, NEGOTIATING, topology="ring")
    assert made.document["breakdown_s"]["communication_exposed"] == pytest.approx(4e7 / 1e10 + 1e-4)
    (text,) = [text for text in made.document["warnings"] if "Horovod" in text]
    assert text.endswith("this network is rdma: its costs may be wrong by a factor of 3 either way")
    (item,) = priors(made).values()
    assert item.held_out_mape == pytest.approx(math.log(3) / NORMAL_95 / DEVIATION)
    assert item.seconds == made.document["breakdown_s"]["communication_exposed"]


def test_a_prior_widens_the_interval_and_one_node_has_none():
    def width(made):
        low, high = made.document["iteration_time_interval_s"]
        return high - low

    measured, estimated = predicted({"kind": "tcp"}, {}, "ring"), predicted("tcp", {}, "ring")
    assert width(estimated) > width(measured)
    assert [text for text in estimated.document["warnings"] if text.startswith("the transport tcp was not measured")]
    alone = predicted("tcp", NEGOTIATING, "ring", nodes=1)
    assert not priors(alone)
    assert not [text for text in alone.document["warnings"] if "transport" in text or "fitted over" in text]


SLOWED = {"compute_slowdown": "auto"}


def slowed(runtime, workload=None, scheduler="wfbp"):
    """Two tensors of 1 s backward each on 2 workers: the exchange of the first, 1 s, meets compute of the second."""
    layers = [{"name": name, "numel": 1_000_000, "backward": 1.0} for name in "ab"]
    spec = {
        "workload": {"batch_size": 1, "layers": layers, **(workload or {})},
        "cluster": {
            "nodes": 2,
            "gpu": {"name": "ideal", "ideal": True},
            "network": {"kind": "single_switch", "bandwidth": 4e6},
            "runtime": runtime,
        },
        "topology": "ring",
        "sparsifier": "dense",
        "scheduler": scheduler,
    }
    return run(Scenario.model_validate(spec))


def test_an_estimated_slowdown_is_evidence_for_the_seconds_that_it_costs():
    slowdown, width = estimate_slowdown()
    made = slowed(SLOWED)
    lost = slowdown / (1 + slowdown)  # of the second that the exchange takes, so much is not computed
    assert made.document["iteration_time_s"] == pytest.approx(3 + lost)
    (item,) = priors(made).values()
    assert item.seconds == pytest.approx(lost)
    low, high = made.document["iteration_time_interval_s"]
    assert (high - low) / 2 >= width * lost
    assert [text for text in made.document["warnings"] if f"{100 * slowdown:.0f} % is the middle" in text]


@pytest.mark.parametrize(
    "stated",
    [
        {"runtime": {"compute_slowdown": 0.5}},
        {"runtime": SLOWED, "workload": {"compute_slowdown": 0.5}},
        {"runtime": SLOWED, "scheduler": "sequential"},
    ],
)
def test_a_stated_slowdown_and_exchanges_that_meet_no_compute_need_no_estimate(stated):
    made = slowed(**stated)
    assert not priors(made)
    assert not [text for text in made.document["warnings"] if "slow kernels down" in text]
