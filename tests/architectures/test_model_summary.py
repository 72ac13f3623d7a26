"""What `sparsim list workload` shows of a workload."""

from __future__ import annotations

import io
import math

import pytest
from rich.console import Console

from simulator.architectures.summary import summarise
from simulator.loading.finding import known_names
from simulator.reporting.terminal.printing import print_blocks
from simulator.reporting.wording.listing import workload_blocks
from simulator.scenario.named_parts import read_gpu, read_workload


def text_of(document: dict[str, object]) -> str:
    """What the terminal shows at 100 columns."""
    out = io.StringIO()
    print_blocks(workload_blocks(document), Console(file=out, width=100))
    return out.getvalue()


@pytest.mark.parametrize("name", known_names("workloads"))
def test_every_shipped_workload_fits_on_a_screen(name: str) -> None:
    workload = read_workload(name)
    document = summarise(workload, read_gpu("h100"))
    assert len(document["groups"]) <= 20
    assert sum(group["tensors"] for group in document["groups"]) == len(workload.layers)
    assert sum(group["parameters"] for group in document["groups"]) == workload.numel
    shown = text_of(document)
    assert max(map(len, shown.splitlines())) <= 100
    assert f"{workload.numel:,}" in shown


def test_sums_of_the_groups_are_the_totals() -> None:
    document = summarise(read_workload("llama3-8b"), read_gpu("h100"))
    for key in ("forward_s", "backward_s"):
        assert math.fsum(group[key] for group in document["groups"]) == pytest.approx(document[key])
    both = document["flops"]["forward"] + document["flops"]["backward"]
    assert math.fsum(group["flops"] or 0 for group in document["groups"]) == pytest.approx(both)
    seconds = document["forward_s"] + document["backward_s"]
    assert document["share_of_peak"] == pytest.approx(both / seconds / 989.4e12)
    assert document["groups"][1]["name"] == "model.layers.0 to 31" and document["groups"][1]["blocks"] == 32
    assert document["width"]["level"] == "estimated"


def test_without_a_gpu_there_are_no_times() -> None:
    document = summarise(read_workload("gpt2", ("micro_batches=2",)), None)
    assert document["forward_s"] is document["width"] is document["share_of_peak"] is None
    assert document["flops"]["forward"] == summarise(read_workload("gpt2"), None)["flops"]["forward"]
    assert "give --gpu" in text_of(document)


def test_a_measured_workload_says_what_it_rests_on() -> None:
    document = summarise(read_workload("workloads/resnet50-v100"), None)
    assert document["flops"] is None and document["forward_s"] > 0
    assert "measured on Tesla V100" in text_of(document)
