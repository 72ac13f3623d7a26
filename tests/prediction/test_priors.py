"""What a reader is told where a transport or a runtime was not measured, and what that does to the interval."""

from statistics import median

import pytest
from small_scenarios import small_scenario
from stretched import in_interval
from validation_rows import row_of

from simulator.hardware.slowdown import estimate_slowdown, spread_between_models
from simulator.hardware.widths import KNOWN, width_between_setups
from simulator.prediction.doubts.software import ABSENT
from simulator.prediction.run import run, with_responses
from simulator.scenario.changes import with_value
from simulator.scenario.reading import load
from simulator.scenario.scenario import Scenario

CARD = {"name": "card", "kernels": {"elementwise": {"curve": "affine", "slope": 1e-11}}}
RUNTIME = {"name": "BytePS", "endpoint_bandwidth": 7e8, "widths": {"endpoint_bandwidth": 1.05}}
RUNTIME["fitted_for"] = {"transport": "tcp", "carried": 7e8}
NEGOTIATING = {"name": "Horovod", "negotiation": 1e-4, "fitted_for": {"transport": "tcp", "width": 3}}


def predicted(transport, runtime, topology="parameter_server", nodes=2, bandwidth=1e10):
    network = {"bandwidth": bandwidth, "name": "net", "transport": transport}
    workload = {"layers": [{"name": "a", "numel": 10_000_000, "backward": 1e-3}]}
    return run(small_scenario(workload, CARD, network, nodes, {"runtime": runtime}, topology=topology))


def stated_costs(prediction):
    return [item for item in prediction.inputs if item.what == "cost of software"]


def texts(prediction, part):
    return [text for text in prediction.result.warning_texts if part in text]


def test_a_runtime_on_its_own_transport_and_nic_is_not_warned_of_for_them():
    assert not texts(predicted({"kind": "tcp"}, RUNTIME, bandwidth=7e8), "was fitted")


def exposed(prediction):
    return prediction.document["breakdown_s"]["communication_exposed"]


def test_an_endpoint_fitted_elsewhere_lies_between_its_fit_and_the_network_and_the_result_says_so():
    fitted, faster, foreign = (
        predicted({"kind": kind}, RUNTIME, bandwidth=rate)
        for kind, rate in (("tcp", 7e8), ("tcp", 1e10), ("rdma", 1e10))
    )
    middle = (7e8 * 1e10) ** 0.5
    assert exposed(fitted) == pytest.approx(2 * 2 * 4e7 / 7e8)
    assert exposed(faster) == exposed(foreign) == pytest.approx(2 * 2 * 4e7 / middle)
    end = "2.646 GB/s per endpoint, between both, may be wrong by a factor of 3.8 either way"
    where = "BytePS was fitted behind NICs that carry 700 MB/s, and this network carries 10 GB/s"
    assert texts(faster, "BytePS was") == [f"{where}: {end}"]
    assert texts(foreign, "BytePS was") == [f"BytePS was fitted over tcp, and this network is rdma: {end}"]


@pytest.mark.parametrize("kind", ["tcp", "rdma"])
def test_the_width_of_an_endpoint_that_was_fitted_elsewhere_reaches_from_its_fit_to_the_network(kind):
    made = with_responses(predicted({"kind": kind}, RUNTIME))
    (item,) = (item for item in stated_costs(made) if "endpoint" in item.id)
    slow, fast = (run(item.change(made.scenario, end)) for end in (1.0, -1.0))
    assert exposed(slow) == pytest.approx(2 * 2 * 4e7 / 7e8) and exposed(fast) == pytest.approx(2 * 2 * 4e7 / 1e10)


def test_16_bits_gain_nothing_where_the_sums_of_servers_limit_and_halve_what_the_network_carries():
    def times(runtime):
        spec = predicted({"kind": "tcp"}, runtime, bandwidth=7e8).scenario
        return [exposed(run(with_value(spec, "workload.precision.travels", travels))) for travels in ("fp32", "fp16")]

    full, half = times({**RUNTIME, "endpoint_bandwidth": 1e8})
    assert half == pytest.approx(full)
    full, half = times({"name": "ideal"})
    assert half == pytest.approx(full / 2)


def test_other_costs_are_kept_with_their_width():
    made = predicted({"kind": "rdma"}, NEGOTIATING, topology="ring")
    assert made.document["breakdown_s"]["communication_exposed"] == pytest.approx(4e7 / 1e10 + 1e-4)
    (text,) = texts(made, "Horovod was")
    assert text.endswith("this network is rdma: its costs may be wrong by a factor of 3 either way")
    (item,) = stated_costs(made)
    assert item.width >= 3 and item.more == pytest.approx((item.width - 1) * 1e-4)
    row = next(row for row in made.document["warning_sizes"] if row["text"] == text)
    more, less = in_interval(item.more, made.spread.time), -in_interval(-item.less, made.spread.time)
    assert row["seconds"] == pytest.approx(1e-4) and row["more_s"] == pytest.approx(more, rel=1e-4)
    assert row["less_s"] == pytest.approx(less, rel=1e-4)


def test_a_transport_that_was_not_measured_is_named_once_and_one_node_has_none():
    (text,) = texts(predicted("tcp", {}, "ring"), "net")
    assert text.startswith("the transport tcp was not measured") and "rate, 25.44 Gbit/s of 80 Gbit/s, is" in text
    alone = predicted("tcp", NEGOTIATING, "ring", nodes=1)
    assert not texts(alone, "transport") and not texts(alone, "fitted over")


def test_a_cost_that_one_set_up_showed_can_only_make_the_iteration_longer():
    gathers = ("cluster.runtime=runtimes/pytorch-ddp", "scheduler={kind: sequential}")
    made = with_responses(run(load("quickstart", gathers)))
    (absent,) = (item for item in made.inputs if item.what == ABSENT)
    (row,) = (row for row in made.document["warning_sizes"] if "taken as 0" in row["text"])
    assert row["text"].startswith("overhead of a gather")
    assert (row["direction"], row["seconds"], row["less_s"]) == ("too fast", None, 0.0)
    more = run(absent.change(made.scenario, 1.0)).document["iteration_time_s"] - made.document["iteration_time_s"]
    assert row["more_s"] == pytest.approx(in_interval(more, made.spread.time), rel=1e-3)


def test_a_cost_that_nobody_measured_is_what_other_set_ups_show_either_way():
    made = with_responses(run(load("quickstart")))
    launches = [item.value for item in KNOWN if item.name == "kernel_launch"]
    assert made.scenario.cluster.runtime.kernel_launch == median(launches)
    (doubt,) = (item for item in made.inputs if "kernel_launch" in item.id)
    assert (doubt.level, doubt.width) == ("assumed", width_between_setups("kernel_launch"))
    (size,) = (row for row in made.document["warning_sizes"] if "launch time" in row["text"])
    assert size["less_s"] > 0 < size["more_s"]
    # A scenario that is printed in full is the same job, with the same doubt.
    again = with_responses(run(Scenario.model_validate(made.scenario.resolved())))
    assert again.result.interval == made.result.interval


def test_a_runtime_that_states_a_cost_of_0_has_none_and_no_doubt_where_rows_say_so():
    assert load("quickstart", ("cluster.runtime.kernel_launch=0 s",)).cluster.runtime.kernel_launch == 0
    fitted = run(row_of("8xv100-grace", "ResNet-50, dense, 2 V100 on 10 GbE, NCCL"))
    assert fitted.scenario.cluster.runtime.negotiation == 0
    assert not [item for item in fitted.inputs if "negotiation" in item.id]


SLOWED = {"compute_slowdown": "auto"}


def slowed(runtime, workload=None, scheduler="wfbp", gpu=None):
    """Two tensors of 1 s backward each on 2 workers: the exchange of the first, 1 s, meets compute of the second."""
    layers = [{"name": name, "numel": 1_000_000, "backward": 1.0} for name in "ab"]
    workload, cluster = {"layers": layers, **(workload or {})}, {"runtime": runtime}
    return run(small_scenario(workload, gpu or CARD, {"bandwidth": 4e6}, cluster=cluster, scheduler=scheduler))


def test_an_estimated_slowdown_is_evidence_for_the_seconds_that_it_costs():
    slowdown, width = estimate_slowdown()
    made = slowed(SLOWED)
    lost = slowdown / (1 + slowdown)  # of the second that the exchange takes, so much is not computed
    assert made.document["iteration_time_s"] == pytest.approx(3 + lost, rel=1e-4)
    exact = with_responses(made).document
    (row,) = (row for row in exact["warning_sizes"] if f"{100 * slowdown:.0f} % is the middle" in row["text"])
    low, high = ((1 + end * width) * slowdown / (1 + (1 + end * width) * slowdown) for end in (-1, 1))
    assert row["seconds"] == pytest.approx((high - low) / (2 * width), rel=1e-3)  # as if it were proportional
    ends = (-in_interval(low - lost, 3 + lost), in_interval(high - lost, 3 + lost))
    assert (row["less_s"], row["more_s"]) == pytest.approx(ends, rel=1e-3)


@pytest.mark.parametrize("stated", [{"workload": {"compute_slowdown": 0.5}}, {"scheduler": "sequential"}])
def test_a_stated_slowdown_and_exchanges_that_meet_no_compute_need_no_estimate(stated):
    made = slowed(SLOWED, **stated)
    assert not [item for item in made.inputs if item.what == "prior"] and not texts(made, "slow kernels down")


def test_a_slowdown_that_was_fitted_to_other_models_is_carried_over_with_a_width():
    """On the GPU of the fit it is exact for the models of the fit only; what nobody measured is no better known."""
    fitted = {"compute_slowdown": 0.5, "fitted_on": {"device": "Tesla V100", "workloads": ["this one"]}}
    known = slowed(fitted, {"name": "this one"}, gpu={"name": "g", "device": "V100"})
    assert not [item for item in known.inputs if item.what == "prior"]
    spread = spread_between_models()
    for runtime, model, device in ((fitted, "another", "V100"), (fitted, "this one", "A100"), ({}, "this one", "V100")):
        made = slowed(runtime, {"name": model}, gpu={"name": "g", "device": device})
        (item,) = (item for item in made.inputs if item.what == "prior")
        assert item.change(made.scenario, 1.0).workload.compute_slowdown == pytest.approx(made.plan.slowdown + spread)
        assert item.change(made.scenario, -1.0).workload.compute_slowdown == max(0.0, made.plan.slowdown - spread)
        assert texts(made, "slow kernels down")


def test_costs_that_were_fitted_on_other_machines_are_off_by_as_much_as_between_set_ups():
    costs = {"negotiation": 1e-4, "widths": {"negotiation": 1.1}, "fitted_rows": {"negotiation": 6}}
    runtime = {"name": "h", **costs, "fitted_on": {"device": "Tesla V100", "workloads": []}}
    here, there = (slowed(runtime, gpu={"name": "g", "device": device}) for device in ("V100", "A100"))
    width = [next(item.width for item in made.inputs if "negotiation" in item.id) for made in (here, there)]
    assert width == [1.1, width_between_setups("negotiation")] and width[1] > 2


def test_a_transport_that_is_a_prior_widens_the_interval_and_one_node_has_none():
    def width(made):
        low, high = made.document["iteration_time_interval_s"]
        return high - low

    stated, prior = predicted({"kind": "tcp"}, {}, "ring"), predicted({"kind": "tcp", "prior_width": 30}, {}, "ring")
    assert width(prior) > width(stated)
    alone = predicted({"kind": "rdma"}, NEGOTIATING, "ring", nodes=1)
    assert not [item for item in alone.inputs if item.what in ("link law", "cost of software")]
    assert not texts(alone, "transport") and not texts(alone, "fitted over")
