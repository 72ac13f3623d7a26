"""Token buckets keep what one exchange leaves for the next, in the same iteration and in later ones: closed forms."""

import pytest
from drawn import durations
from hypothesis import given
from hypothesis import strategies as st
from worked_scenarios import M, worked

from simulator.prediction.run import run
from simulator.scenario.scenario import Scenario

B, BURST = 1e6, 2e4
K = 10_000
"""Elements that each of two workers selects: 40 kB of values and as many of indices."""


def predicted(burst=BURST, sparsifier="topk", numel=100 * K, backward=1.0, **parts):
    """A million elements, of which two workers gather 1 %, on links of 1 MB/s after a backward pass of 1 s."""
    network = {"burst": burst, **parts.pop("network", {})}
    made = {"bandwidth": B, "sparsifier": {"kind": "topk", "density": 0.01} if sparsifier == "topk" else sparsifier}
    made |= {"network": network, "scheduler": "sequential"}
    return run(Scenario.model_validate(worked([(numel / M, 0, backward)], **made | parts)))


def seconds(**parts):
    return predicted(**parts).document["iteration_time_s"]


@pytest.mark.parametrize("fidelity", ["fold", "flows"])
def test_values_and_indices_share_one_burst(fidelity):
    """The first gather takes the bucket; during its start-up alpha B bytes come back, which the second one takes."""
    alpha = 1e-3
    assert alpha * B < BURST
    once = 1 + 2 * 4 * K / B - BURST / B + alpha
    assert seconds(latency=alpha, fidelity=fidelity) == pytest.approx(once, rel=1e-12)
    # A start-up that fills the bucket gives both a full one.
    assert seconds(latency=0.1, fidelity=fidelity) == pytest.approx(1 + 2 * (0.1 + (4 * K - BURST) / B), rel=1e-12)


@pytest.mark.parametrize("fidelity", ["fold", "flows"])
def test_a_deep_bucket_runs_dry_over_the_iterations(fidelity):
    """An iteration sends 80 kB, and 10 kB come back while it computes; a bucket of 200 kB lasts for two."""
    parts = {"burst": 2e5, "backward": 0.01, "fidelity": fidelity, "warmup": 0}
    made = [seconds(iterations=count, **parts) * count for count in (1, 2, 3, 4, 9)]
    assert made[:2] == pytest.approx([0.01, 0.02])
    # The third finds 200 - 80 + 10 - 80 + 10 kB; the other 20 kB take 20 ms.
    assert made[2] == pytest.approx(0.02 + 0.03)
    # From then on links carry as much as comes back: 80 kB take 80 ms.
    assert made[4] - made[3] == pytest.approx(5 * 0.08)
    assert seconds(**parts | {"warmup": 5, "iterations": 3}) == pytest.approx(0.08)


@given(burst=st.floats(1, 3e5), latency=durations(0.05), backward=durations(0.2), numel=st.integers(1, 200 * K))
def test_fold_and_flows_remember_the_same(burst, latency, backward, numel):
    parts = {"burst": burst, "latency": latency, "backward": backward, "numel": numel, "iterations": 4, "warmup": 1}
    fold, flows = (seconds(fidelity=fidelity, **parts) for fidelity in ("fold", "flows"))
    assert fold == pytest.approx(flows, rel=1e-9)
    # In the long run no link carries more than its bandwidth and what its bucket held at first.
    sent = predicted(**parts).document["traffic"]["sent_bytes_per_worker"]
    assert fold * 5 >= (5 * sent - burst) / B * (1 - 1e-9) - backward


def test_the_fold_is_used_where_it_is_exact():
    assert predicted().document["fidelity"]["tier"] == "fold"
    assert predicted(sparsifier="dense", topology="double_binary_tree").document["fidelity"]["tier"] == "flows"
    other = {"background": [{"source": 0, "destination": 1, "bandwidth": "1 B/s"}]}
    assert predicted(**other).document["fidelity"]["tier"] == "flows"


def test_iterations_that_find_the_same_are_followed_once():
    """The same mean whether equal iterations are followed or counted again."""
    prediction = predicted(iterations=7)
    assert prediction.times.tolist() == [prediction.times[0]] * 7
    kept = run(prediction.scenario, keep_iterations=True)
    assert len({id(item) for item in kept.iterations}) == 7
    assert kept.document["iteration_time_s"] == pytest.approx(prediction.document["iteration_time_s"], rel=1e-12)


def test_differing_workers_and_buckets():
    """Times differ from iteration to iteration by jitter; the mean lies where the exchange does."""
    document = predicted(stragglers={"jitter": 0.1}, iterations=200, seed=3).document
    low, high = document["iteration_time_interval_s"]
    assert low < document["iteration_time_s"] < high
    assert document["breakdown_s"]["communication_exposed"] == pytest.approx(2 * 4 * K / B - BURST / B, rel=1e-6)


def test_the_result_says_that_links_remember():
    assert "token buckets of its links as earlier ones left them" in predicted().document["fidelity"]["reason"]
    several = predicted(scheduler={"kind": "sequential", "streams": 2}).document["fidelity"]["reason"]
    assert several.startswith("up to 2 exchanges at once share the links, each of which finds the token buckets")
    assert "token buckets" not in predicted(burst=0).document["fidelity"]["reason"]
    # Inside one node no message passes a bucket.
    assert "earlier ones" not in predicted(nodes=1, gpus_per_node=2).document["fidelity"]["reason"]


def test_what_a_collective_takes_beside_its_links_is_counted_with_buckets_too():
    network = {"collective_start_up": 0.3}
    without, tiny = (seconds(burst=burst, network=network) for burst in (0, 1e-3))
    assert tiny == pytest.approx(without, abs=1e-8)
