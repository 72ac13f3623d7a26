"""Several exchanges of one job at once: closed forms, and one stream as before.

Unless a test says otherwise there are two workers on a switch of 4 MB/s without start-up: an all-reduce of a million
elements takes 1 s; kernels are free, and all gradients are ready after 1 s.
"""

import pytest
from drawn import durations
from hypothesis import given
from hypothesis import strategies as st
from worked_scenarios import M, worked

from simulator.errors import InputError
from simulator.prediction.run import run
from simulator.scenario.scenario import Scenario

C = 4e6
SEQUENTIAL = {"kind": "sequential", "bucket_size": "1 B"}


def predicted(sizes, scheduler=SEQUENTIAL, streams=2, **parts):
    """Tensors of `sizes` million elements, in the order in which they travel; only the last one computes, for 1 s."""
    layers = [(n, 0, float(i == len(sizes) - 1)) for i, n in enumerate(reversed(sizes))]
    scheduler = {"kind": scheduler} if isinstance(scheduler, str) else scheduler
    return run(Scenario.model_validate(worked(layers, scheduler={**scheduler, "streams": streams}, **parts)))


def communication(*args, **parts):
    """Seconds from the end of the backward pass to that of the last exchange."""
    return predicted(*args, **parts).document["iteration_time_s"] - 1


def ends(prediction):
    """When each bucket's exchange ends, after the backward pass."""
    spans = [span for span in prediction.iteration.spans() if span.stream == "communication"]
    return [max(span.end for span in spans if span.bucket == i) - 1 for i in sorted({s.bucket for s in spans})]


def test_two_exchanges_bound_by_bandwidth_take_as_long_together_as_one_after_the_other():
    one, two = (predicted([1, 1], streams=streams) for streams in (1, 2))
    assert ends(one) == pytest.approx([1, 2])
    assert ends(two) == pytest.approx([2, 2])


@pytest.mark.parametrize("nodes", [2, 5, 8])
def test_two_exchanges_bound_by_latency_take_as_long_as_one(nodes):
    alpha, rounds = 0.1, 2 * (nodes - 1)
    tiny = [1e-6 * nodes] * 2  # a message of 4 bytes, a microsecond
    assert communication(tiny, streams=1, nodes=nodes, latency=alpha) == pytest.approx(2 * rounds * (alpha + 1e-6))
    together = communication(tiny, nodes=nodes, latency=alpha)
    assert together == pytest.approx(rounds * (alpha + 2e-6), rel=1e-9)
    four = [*tiny, *tiny]
    assert communication(four, nodes=nodes, latency=alpha, streams=4) == pytest.approx(rounds * (alpha + 4e-6))
    assert communication(four, nodes=nodes, latency=alpha) == pytest.approx(2 * together)


def test_links_are_shared_fairly_between_streams():
    """The small exchange gets half of the links until it ends, whatever the size of the other's messages."""
    assert ends(predicted([3, 1])) == pytest.approx([4, 2])
    assert ends(predicted([3, 1, 0.5], streams=3)) == pytest.approx([4.5, 2.5, 1.5])


def test_exchanges_use_the_streams_in_turn():
    """The third waits for the first, the fourth for the second, which is still under way when the third has ended."""
    # 1 and 3 share until 2; then 0.5 and 3 share until 3; the fourth starts when the second has ended.
    assert ends(predicted([1, 3, 0.5, 1])) == pytest.approx([2, 4.5, 3, 5.5])


def test_a_start_up_hides_behind_that_of_another_exchange():
    """Of two equal exchanges the start-ups pass at the same time and the bytes one after the other: a + 2 b n."""
    alpha, sizes = 0.1, [1, 1]
    assert communication(sizes, streams=1, latency=alpha) == pytest.approx(2 + 4 * alpha)
    assert communication(sizes, latency=alpha) == pytest.approx(2 + 2 * alpha)


def test_start_ups_hide_behind_the_bytes_of_unlike_exchanges():
    """Messages of unlike sizes do not end together, so that more than one start-up is hidden, but never all."""
    alpha, sizes = 0.1, [1, 0.6]
    assert 1.6 + alpha <= communication(sizes, latency=alpha) < 1.6 + 2 * alpha


@given(
    sizes=st.lists(st.floats(0.01, 3), min_size=1, max_size=5),
    latency=durations(0.5),
    nodes=st.integers(2, 5),
    streams=st.integers(1, 4),
)
def test_the_links_carry_all_bytes_and_no_stream_makes_it_slower_than_no_overlap(sizes, latency, nodes, streams):
    took = communication(sizes, streams=streams, nodes=nodes, latency=latency)
    assert took >= (2 * (nodes - 1) / nodes) * sum(round(n * M) for n in sizes) * 4 / C * (1 - 1e-9)
    assert took <= communication(sizes, streams=1, nodes=nodes, latency=latency) * (1 + 1e-9)


@pytest.mark.parametrize("scheduler", ["wfbp", "decoupled", "mg_wfbp", "priority", "tictac", "bucketed"])
def test_one_stream_is_what_there_was(scheduler):
    written = predicted([1, 0.5, 2], scheduler, streams=1, latency=0.01).document
    assert dict(written).pop("streams", None) is None
    assert written["fidelity"]["tier"] == "fold"
    several = predicted([1, 0.5, 2], scheduler, latency=0.01).document
    assert several["fidelity"]["tier"] == "flows"
    assert several["traffic"]["total_bytes"] == written["traffic"]["total_bytes"]


def test_results_name_the_streams_and_how_many_are_busy():
    document = predicted([3, 1]).document
    # Both for 2 s, then the larger one alone for 2 s.
    assert document["streams"] == {"count": 2, "busy": pytest.approx(1.5)}
    assert "up to 2 exchanges at once" in document["fidelity"]["reason"]
    assert document["communication_total_s"] == pytest.approx(4)


def test_second_halves_of_decoupled_all_reduces_use_the_streams():
    """Reduce-scatters and all-gathers of half a second each, in pairs; with start-ups these pass at the same time."""
    scheduler = {"kind": "decoupled", "bucket_size": "1 B"}
    assert communication([1, 1], scheduler) == pytest.approx(2)
    tiny = [2e-6, 2e-6]
    assert communication(tiny, scheduler, latency=0.1, streams=1) == pytest.approx(0.4, rel=1e-4)
    assert communication(tiny, scheduler, latency=0.1) == pytest.approx(0.2, rel=1e-4)


def test_a_credit_limits_what_is_under_way_on_all_streams():
    scheduler = {"kind": "priority", "partition": "4 MB"}
    assert communication([1e-6, 1e-6], scheduler, latency=0.1) == pytest.approx(0.4, rel=1e-4)
    assert communication([1e-6, 1e-6], scheduler | {"credit": "8 MB"}, latency=0.1) == pytest.approx(0.2, rel=1e-4)


def test_what_a_collective_takes_beside_its_links_is_counted_and_overlaps():
    network = {"collective_start_up": 0.3}
    assert communication([1, 1], streams=1, network=network) == pytest.approx(2.6)
    assert communication([1, 1], network=network) == pytest.approx(2.3)
    assert communication([1], network=network) == pytest.approx(1.3)


def test_streams_fill_a_nic_that_the_connections_of_one_exchange_cannot_fill():
    """A connection of 1 MB/s on a NIC of 4 MB/s: an all-reduce takes 4 s instead of 1 s, as many as fit at a time."""
    network = {"transport": {"kind": "tcp", "stream_bandwidth": C / 4}}
    assert communication([1, 1], streams=1, network=network) == pytest.approx(8)
    assert communication([1, 1], network=network) == pytest.approx(4)
    assert communication([1], network=network) == pytest.approx(4)
    assert communication([1] * 8, streams=4, network=network) == pytest.approx(8)
    # Eight connections could carry 8 MB/s, the NIC carries 4: each gets half of its rate.
    assert communication([1] * 8, streams=8, network=network) == pytest.approx(8)
    # Two connections for each exchange fill the NIC with two exchanges.
    assert communication([1, 1, 1, 1], network={"transport": network["transport"] | {"streams": 2}}) == pytest.approx(4)
    # Messages inside a node do not use the connections.
    inside = predicted([1, 1], nodes=1, gpus_per_node=2, network=network | {"intra_node": {"bandwidth": C}})
    assert inside.document["iteration_time_s"] == pytest.approx(1 + 2)


def test_a_measured_curve_that_is_not_used_is_named():
    points = [["4 B", "1 ms"], ["40 MB", "10 s"]]
    curve = {"primitive": "all_reduce", "topology": "ring", "workers": 2, "points": points, "bandwidth": C}
    network = {"measured": [curve | {"gpus_per_node": 1, "latency": 0.0, "source": "made up"}]}
    assert not any("not used" in text for text in predicted([1], streams=1, network=network).document["warnings"])
    (warning,) = [text for text in predicted([1], network=network).document["warnings"] if "not used" in text]
    assert "since exchanges share links" in warning


def test_servers_work_on_all_exchanges_at_once_anyway():
    assert predicted([1, 1], "wfbp", streams=1, topology="parameter_server").document["iteration_time_s"] > 1
    with pytest.raises(InputError, match="streams: 1"):
        predicted([1, 1], "wfbp", topology="parameter_server")


def test_the_fold_follows_streams_first_in_first_out():
    """As asked: each link carries all its bytes at full rate, in the order in which exchanges start."""
    assert communication([1, 1], fidelity="fold") == pytest.approx(2)
