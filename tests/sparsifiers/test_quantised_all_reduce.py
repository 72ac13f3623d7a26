"""Quantised all-reduces against plain loops over messages, and against the sizes and times of published runs."""

import numpy as np
import pytest
from common import block, once, sent_per_worker

from simulator.models.exchange import AllReduce, Bucket, Compute
from simulator.models.overlap import INDEPENDENT
from simulator.prediction.run import run
from simulator.scenario.scenario import Scenario
from simulator.sparsifiers.quantised_all_reduce import FORMATS, QuantisedAllReduce


def steps_of(method, numel, workers, style="collective"):
    bucket = Bucket(0, (numel,), 0)
    return method.exchange(method.expect(bucket, workers, INDEPENDENT), bucket, workers, style)


@pytest.mark.parametrize("workers", [2, 8, 14])
def test_a_ring_sends_a_byte_per_element_and_its_codebooks(workers):
    """2 (p-1) hops, each with a p-th of the elements as two messages with 256 fp32 means."""
    numel = workers * 1_000_000
    sent = sent_per_worker(steps_of(QuantisedAllReduce(), numel, workers), workers)
    assert sent.tolist() == pytest.approx([2 * (workers - 1) * (1_000_000 + 2 * 1024)] * workers, rel=1e-12)


@pytest.mark.parametrize("workers", [6, 8, 14])
def test_intellect_1_took_as_long_as_its_ring_at_1_2_to_1_5_gigabits(workers):
    """10e9 parameters, up to 14 nodes, 100 steps in 38 minutes, then 103 s inside the US (2412.01152): 96 % compute."""
    layers = [{"name": f"layers.{i}", "numel": 312_500_000, "backward": 38 * 60 / 3200} for i in range(32)]
    parts = {
        "workload": {"name": "llama-10b", "layers": layers, "batch_size": 1},
        "topology": "ring",
        "sparsifier": "quantised_all_reduce",
        "scheduler": {"kind": "diloco", "inner_steps": 100, "bucket_size": "100 GB"},
    }
    periods = []
    for bandwidth in ("1.5 Gbit/s", "1.2 Gbit/s"):
        network = {"kind": "single_switch", "bandwidth": bandwidth}
        cluster = {"nodes": workers, "gpus_per_node": 1, "gpu": "gpus/ideal", "network": network}
        periods.append(run(Scenario.model_validate({"cluster": cluster, **parts})).document["period"])
    fast, slow = periods
    assert fast["synchronisation_s"] < 103 < slow["synchronisation_s"]
    assert slow["compute_utilisation"] < 38 * 60 / (38 * 60 + 103) < fast["compute_utilisation"]


@pytest.mark.parametrize(("name", "row", "part"), [("fp8", 4096, 4100), ("e3m0", None, 2052), ("sign", None, 516)])
def test_parts_go_to_their_owners_and_back(name, row, part):
    """(p-1) parts of 4,096 elements each way, with 4 bytes for each scale."""
    method = QuantisedAllReduce(format=name, exchange_by="all_to_all", row=row)
    assert sent_per_worker(steps_of(method, 8 * 4096, 8), 8).tolist() == [2 * 7 * part] * 8
    (push, _) = steps_of(method, 8 * 4096, 8, "push_pull")
    assert (push.push_nbytes, push.pull_nbytes) == (8 * part, 8 * part)


@pytest.mark.parametrize("name", FORMATS)
def test_the_ring_sums_message_by_message(name):
    """Every hop rounds what it passes on; the sum of what workers are said to send is what all decode at the end."""
    workers, numel = 3, 30
    values = np.random.default_rng(9).standard_normal((workers, numel)).astype(np.float32)
    sent = QuantisedAllReduce(format=name).quantised(values, block(values, (numel,)))
    for message in range(6):
        places, first, total = slice(5 * message, 5 * message + 5), message // 2 + 1, np.zeros(5)
        for hop in range(workers):
            total = FORMATS[name].rounded(total + values[(first + hop) % workers, places], 5)
        np.testing.assert_allclose(sent[:, places].sum(axis=0), total, atol=1e-5)


@pytest.mark.parametrize("name", FORMATS)
def test_owners_sum_and_round_again(name):
    workers, numel = 3, 31
    values = np.random.default_rng(10).standard_normal((workers, numel)).astype(np.float32)
    sent = QuantisedAllReduce(format=name, exchange_by="all_to_all").quantised(values, block(values, (numel,)))
    for owner, (low, high) in enumerate(((0, 11), (11, 22), (22, 31))):
        arrived = [FORMATS[name].rounded(own.astype(float), high - low) for own in values[:, low:high]]
        total = FORMATS[name].rounded(np.sum(arrived, axis=0), high - low)
        np.testing.assert_allclose(sent[:, low:high].sum(axis=0), total, atol=1e-5)
        for worker in set(range(workers)) - {owner}:
            np.testing.assert_allclose(sent[worker, low:high], arrived[worker], rtol=1e-6)


def test_with_error_feedback_errors_stay_with_the_worker_that_made_them():
    values = np.random.default_rng(11).standard_normal((4, 101)).astype(np.float32)
    for exchange_by in ("ring", "all_to_all"):
        method = QuantisedAllReduce(format="sign", exchange_by=exchange_by, error_feedback=True)
        state, _, u, choice = once(method, values)
        np.testing.assert_allclose(state["residual"], u - choice.sent, atol=1e-6)
        assert (np.abs(state["residual"]).max(axis=1) > 0).all()


def test_more_bits_lose_less():
    values = np.random.default_rng(12).standard_normal((4, 4096)).astype(np.float32)
    lost = {}
    for name in ("sign", "int4", "int8"):
        sent = QuantisedAllReduce(format=name).quantised(values, block(values, (4096,)))
        lost[name] = float(np.square(sent.sum(axis=0) - values.sum(axis=0)).sum())
    assert lost["sign"] > 10 * lost["int4"] > 100 * lost["int8"]


def test_the_host_handles_every_element_once_to_round_and_twice_to_decode():
    """On a ring of p: d roundings, 2 (p-1)/p d decodings; two processes handled 1e9 elements twice each."""
    method, bucket = QuantisedAllReduce(on_host=True), Bucket(0, (1000,), 0)
    selection = method.expect(bucket, 2, INDEPENDENT)
    work = [*method.compute(selection, bucket, 2), *method.exchange(selection, bucket, 2, "collective")]
    host = [step for step in work if isinstance(step, Compute)]
    assert {step.kernel for step in host} == {"host_merge"}
    assert sum(sum(step.elements) for step in host) == 2000
    assert sum(isinstance(step, AllReduce) for step in work) == 1
