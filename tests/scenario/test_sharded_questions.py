"""Users' questions about sharded jobs: scenarios of at most 20 lines, each answered by `sparsim run NAME`."""

import re
from functools import cache

import pytest
from click.testing import CliRunner
from long_examples import few_first
from places import ROOT
from stretched import in_interval

from simulator.cli import main
from simulator.prediction.run import run, with_responses
from simulator.scenario.reading import load

AXES = {
    "hsdp_llama3": {"shard", "replica"},
    "zero3_network": {"shard"},
    "fsdp_hsdp_hpz": {"shard"},
    "fsdp_accumulation": {"shard", "replica"},
    "megatron_llama3_70b": {"layers", "replica"},
    "two_level_diloco": {"shard", "site"},
}
"""The axes along which GPUs exchange, by scenario."""
MOST_LINES = 20
EACH = pytest.mark.parametrize("name", few_first(AXES, 2))


@cache
def printed(name, *more):
    made = CliRunner().invoke(main, ["run", name, "--full", *more], catch_exceptions=False, env={"COLUMNS": "100"})
    assert made.exit_code == 0
    return made.output


@cache
def predicted(name, *overrides):
    return run(load(name, ("versus=none", *overrides)), intervals=False).result


@EACH
def test_it_has_at_most_20_lines(name):
    lines = (ROOT / "scenarios" / f"{name}.yaml").read_text().splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= 130


@EACH
def test_it_is_answered_with_verdict_memory_exposed_time_by_axis_and_what_is_assumed(name):
    text = printed(name)
    assert re.search(r"^memory +[\d.]+ GiB of 80 GiB", text, re.M)
    row = re.search(r"^by axis +(.*?)^\w", text, re.M | re.S)[1]
    assert set(re.findall(r"(\w+) \([\d,]+ GPUs\) [\d.]+ \w+ +exposed", " ".join(row.split()))) == AXES[name]
    assert re.search(r"^warning .*(assumed|estimates)", text, re.M)
    verdict = text[text.rindex("?\n") :]
    assert re.search(r"^(Yes|No|It saves|It costs|Not decided)", verdict.removeprefix("?\n")), verdict


@EACH
def test_exposed_times_of_the_axes_sum_to_at_most_the_exposed_communication_of_all(name):
    result = predicted(name)
    uses = dict(result.axes.each())
    assert set(uses) == AXES[name]
    assert sum(use.exposed for use in uses.values()) <= result.breakdown["communication_exposed"] * (1 + 1e-9)


def test_zero_3_needs_more_than_one_nic_of_100_gbit_a_node():
    slow, fast = (predicted("zero3_network", f"cluster.network.nics_per_node={count}") for count in (1, 8))
    assert slow.iteration_time > 1.3 * fast.iteration_time
    exact = (
        13_015_864_320 * 2 * 3 * 63 / 64
    )  # two gathers and a reduction in bf16, but for the last unit's second gather
    assert 0.95 < slow.traffic.sent_per_worker / exact <= 1


def test_sums_in_shards_save_all_exchanges_of_replicas_but_one_and_none_saves_reductions_too():
    every, sums, none = (
        predicted("fsdp_accumulation", f"scheduler.accumulate={way}") for way in ("all", "reduce_scatter", "none")
    )
    assert every.axes.replica.sent == pytest.approx(8 * sums.axes.replica.sent)
    assert sums.axes.shard.sent == pytest.approx(every.axes.shard.sent)
    assert none.axes.shard.sent < 0.6 * sums.axes.shard.sent
    assert none.memory.total > sums.memory.total + 8e9, "whole gradients are kept"


def test_hpz_gathers_twice_and_sends_fewer_bytes_between_nodes():
    """Its second gather stays in the node; FSDP's does not."""
    hpz, fsdp = predicted("fsdp_hsdp_hpz"), predicted("fsdp_hsdp_hpz", "scheduler=fsdp")
    assert hpz.traffic.busiest_link.nbytes < 0.85 * fsdp.traffic.busiest_link.nbytes
    assert hpz.iteration_time < fsdp.iteration_time
    assert hpz.memory.total > fsdp.memory.total


def test_the_data_axis_of_megatron_is_hidden():
    result = predicted("megatron_llama3_70b")
    assert result.axes.replica.exposed < 0.01 * result.iteration_time < 0.1 * result.axes.layers.exposed


def test_fsdp_over_all_gpus_doubts_the_network_that_it_uses():
    """Its only exchanges are among the GPUs that share the model; at half the rate it takes far longer."""
    made = with_responses(run(load("fsdp_hsdp_hpz", ("versus=none", "scheduler=fsdp"))))
    result, time = made.result, made.spread.time
    assert any("rate between nodes" in row.id for row in result.calibration)
    half = predicted("fsdp_hsdp_hpz", "scheduler=fsdp", "cluster.network.bandwidth=50 Gbit/s").iteration_time
    assert result.interval[1] - time > 0.9 * in_interval(half - time, time)
