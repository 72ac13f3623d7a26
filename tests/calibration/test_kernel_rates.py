"""What all measured kernels say together, judged on what was left out."""

import math

import pytest
from command_line import answered, printed, refused
from places import ROOT

from simulator.calibration.kernel_rates import (
    accuracy_rows,
    learn_rates,
    leave_gpus_out,
    leave_kernels_out,
    rates_yaml,
    shipped_measurements,
    timed_kernels,
)
from simulator.hardware.gpu import Gpu
from simulator.models.curves import Affine

LONG = Affine(intercept=1e-5, slope=1e-9, range=(1e3, 1e12))
ALONE = Affine(intercept=1e-5, slope=1e-9, range=(2e5, 3e5))


def card(name, bandwidth, share=0.8, norm=2.0, **kernels):
    """A GPU whose reductions take `norm` times the time of their bytes, as its element-wise kernel moves them."""
    per_byte = 1 / (share * bandwidth)
    curves = {
        "elementwise": Affine(intercept=5e-6, slope=12 * per_byte, range=(1e4, 1e8)),
        "norm": Affine(intercept=1e-5, slope=4 * norm * per_byte, range=(1e4, 1e8)),
    }
    return Gpu(name=name, memory_bandwidth=bandwidth, kernels=curves | kernels)


def test_a_law_that_holds_on_all_gpus_is_found_and_transferred():
    timed = timed_kernels([card("a", 1e12), card("b", 4e11), card("c", 2e12)])
    rates = learn_rates(timed)
    assert rates.kernels["norm"].factor == pytest.approx(2)
    assert (rates.share, rates.kernels["norm"].count) == (pytest.approx(0.8), 3)
    # The start of a call is the only thing that is not the same share of the bytes on all.
    assert max(abs(math.log(r)) for item in leave_gpus_out(timed) for r in item.ratios) < 0.1


def test_a_rate_is_of_the_largest_sizes_and_a_launch_of_the_smallest():
    """10 us and 1 ns an element, from 1,000 elements to more than the billion up to which estimates are judged."""
    (item,) = timed_kernels([Gpu(name="a", memory_bandwidth=1e12, kernels={"norm": LONG})])
    assert item.sizes() == pytest.approx([1e4, 10**5.25, 10**6.5, 10**7.75, 1e9])
    assert (item.rate, item.whole_rate) == (pytest.approx(1e-9, rel=1e-9), pytest.approx(1.00001e-9, rel=1e-9))
    assert item.launch == pytest.approx(11e-6 / item.work.launches)
    (short,) = timed_kernels([Gpu(name="a", memory_bandwidth=1e12, kernels={"norm": ALONE})])
    assert short.sizes() == [3e5] and short.launch == 0
    assert short.rate == short.whole_rate == pytest.approx(1e-9 + 1e-5 / 3e5)


def test_what_is_left_out_has_no_say():
    """An error of one GPU shows in its own row only at the full size, and its curve does not change its estimate."""
    plain = [card("a", 1e12), card("b", 4e11), card("c", 2e12)]
    odd = [*plain[:2], card("c", 2e12, norm=6.0)]
    found = {len(gpus): None for gpus in (plain,)}
    for gpus, expected in ((plain, 1.0), (odd, 1 / 3)):
        found = {(i.timed.gpu.name, i.timed.name): i for i in leave_gpus_out(timed_kernels(gpus))}
        assert found["c", "norm"].ratios[-1] == pytest.approx(expected, rel=0.05)
    # Carried-over curves say nothing, nor do ideal GPUs; configs of one device are left out together.
    carried = card("d", 3e12, gather=Affine(slope=1e-9, derived=True))
    assert not [item for item in timed_kernels([carried]) if item.kernel == "gather"]
    assert not timed_kernels(
        [card("d", 3e12).model_copy(update={"ideal": True}), Gpu(name="e", kernels={"norm": LONG})]
    )
    assert len(timed_kernels([*plain, plain[0].model_copy(update={"name": "again"})])) == len(timed_kernels(plain))


def test_a_kernel_that_only_one_gpu_timed_is_estimated_by_its_class_when_left_out():
    gpus = [card("a", 1e12, scatter_add=Affine(slope=1e-10, range=(1e6, 1e8))), card("b", 4e11)]
    levels = {(i.timed.gpu.name, i.timed.name): i.level for i in leave_gpus_out(timed_kernels(gpus))}
    assert levels["a", "scatter_add"] == "estimated" and levels["a", "norm"] == "transferred"
    assert {item.level for item in leave_kernels_out(timed_kernels(gpus))} == {"estimated"}


def test_the_shipped_rates_are_those_of_the_shipped_gpus():
    assert rates_yaml(learn_rates(shipped_measurements())) == (ROOT / "configs" / "kernel_rates.yaml").read_text()


def test_half_of_the_measured_values_within_one_and_a_half_and_nine_of_ten_within_the_width():
    """On GPUs that were left out, of which only the data sheet is known; widths are learnt without them."""
    rows = {row["name"]: row for row in accuracy_rows()["leave_one_gpu_out"]}
    whole = rows.pop("all")
    assert whole["values"] == sum(row["values"] for row in rows.values()) >= 100 and whole["close"] >= 0.5
    assert whole["within_width"] >= 0.9
    assert rows["elementwise"]["median_factor"] < 1.2
    # The bars must not hold by element-wise kernels alone.
    rest = [row for name, row in rows.items() if name != "elementwise"]
    values = sum(row["values"] for row in rest)
    assert sum(row["close"] * row["values"] for row in rest) / values >= 0.5
    assert sum(row["within_width"] * row["values"] for row in rest) / values >= 0.9


def test_the_table_fits_a_terminal_and_its_document_has_a_row_for_each_kernel(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    table = printed("list", "kernels", "a100", "--accuracy")
    assert max(map(len, table.splitlines())) <= 100
    words = [" ".join(line.split()) for line in table.splitlines()]
    assert any(line.startswith("topk (all blocks) selection transferred factor") for line in words)
    rows = {(row["gpu"], row["kernel"]): row for row in answered("list", "kernels", "a100", "v100")["kernels"]}
    assert rows["a100", "elementwise"]["level"] == "measured"
    assert rows["v100", "topk"]["implementation"] == "topk (one block)"
    assert rows["a100", "topk"]["seconds"][1] < 0.05 * rows["v100", "topk"]["seconds"][1]
    assert "did you mean" in refused("list", "kernels", "a1000")
