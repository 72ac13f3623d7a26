"""Times of operators on a GPU."""

from __future__ import annotations

import itertools
import math
from statistics import geometric_mean

import pytest

from simulator.hardware.gpu import QUEUED_START, Gpu
from simulator.hardware.operator_times import (
    ATTENTION_WIDTH,
    FP8_SHARE,
    Efficiency,
    OperatorClock,
    OperatorRates,
    shipped_operator_rates,
)
from simulator.hardware.widths import OTHER_SOFTWARE
from simulator.models.curves import Affine
from simulator.models.operators import DescribedTensor, Description, Operator, product, row_wise, streaming
from simulator.records import replace
from simulator.scenario.named_parts import shipped_gpus

RATES = {"fp32_rate": 10e12, "tensor_rates": {"fp16": 80e12}, "memory_bandwidth": 1e12, "multiprocessors": 100}
GPU = Gpu(name="a GPU", kernels={"elementwise": Affine(intercept=5e-6, slope=12 / 0.8e12)}, **RATES)
SHARES = {"fp32": Efficiency(0.5, 1.5, 3, "a"), "tensor": Efficiency(0.25, 1.7, 4, "b")}
PLAIN = OperatorRates(depth=0.0, tail=0.0, rows=2.0, attention=0.5, convolution=0.8, convolution_width=1.4, **SHARES)


def test_a_product_takes_its_arithmetic_or_its_bytes() -> None:
    clock = OperatorClock(GPU, "fp32", PLAIN)
    assert clock.operator_time(product("p", 1000, 1000, 1000, 4)) == pytest.approx(QUEUED_START + 2e9 / 5e12)
    thin = product("p", 10_000_000, 2, 2, 4)
    assert clock.operator_time(thin) == pytest.approx(QUEUED_START + 4 * 4e7 / 0.8e12, rel=1e-3)
    assert clock.operator_time(replace(thin, calls=3)) == pytest.approx(3 * clock.operator_time(thin))
    fast = OperatorClock(GPU, "fp16", PLAIN)
    assert fast.operator_time(product("p", 1e4, 1e4, 1e4, 2)) == pytest.approx(QUEUED_START + 2e12 / 20e12)


def test_memory_bound_kernels_take_their_bytes() -> None:
    clock = OperatorClock(GPU, "fp32", PLAIN)
    assert clock.operator_time(streaming("s", 8e8)) == pytest.approx(QUEUED_START + 1e-3)
    assert clock.operator_time(row_wise("s", 8e8)) == pytest.approx(QUEUED_START + 2e-3)
    assert clock.operator_time(replace(streaming("s", 8e8), kind="all_to_all")) == 0  # the network's


def test_element_wise_work_takes_the_bytes_of_how_it_runs() -> None:
    """A kernel that compilers make half as long and eager functions three times: of a norm, too, of which the factor of
    reductions over rows is not taken then."""
    one, norm = streaming("s", 8e8, eager=24e8, compiled=4e8), row_wise("n", 8e8, eager=24e8)
    eager, plain, compiled = (OperatorClock(GPU, "fp32", PLAIN, each) for each in ("eager", "one_kernel", "compiled"))
    assert [clock.operator_time(one) - QUEUED_START for clock in (eager, plain, compiled)] == pytest.approx(
        [3e-3, 1e-3, 5e-4]
    )
    assert [clock.operator_time(norm) - QUEUED_START for clock in (eager, plain, compiled)] == pytest.approx(
        [3e-3, 2e-3, 2e-3]
    )


def test_products_in_fp8_reach_a_share_of_what_those_in_16_bits_reach_of_their_rate() -> None:
    """Of it, where the GPU states nothing, what H100, GH200, H200, B200, B300 and GB200 reach in the geometric mean."""
    timed_on, gpus = ("h100", "gh200", "h200", "b200", "b300", "gb200"), shipped_gpus()
    assert geometric_mean(gpus[name].fp8_share or 0.0 for name in timed_on) == pytest.approx(FP8_SHARE, abs=5e-3)
    gpu = GPU.model_copy(update={"tensor_rates": {"bf16": 80e12, "fp8": 160e12}})
    clock, one = OperatorClock(gpu, "fp8", PLAIN), product("p", 4000, 4000, 4000, 2)
    assert clock.arithmetic_time(one) == pytest.approx(128e9 / 20e12)
    assert clock.arithmetic_time(replace(one, fp8=True)) == pytest.approx(128e9 / 40e12 / FP8_SHARE)
    timed = OperatorClock(gpu.model_copy(update={"fp8_share": 0.8}), "fp8", PLAIN)
    assert timed.arithmetic_time(replace(one, fp8=True)) == pytest.approx(128e9 / 32e12)
    made = [clock.estimated(Description([DescribedTensor("w", (1,))], 0.0, "fp8")), OperatorClock(gpu, "bf16", PLAIN)]
    assert made[0].width > made[1].estimated(Description([DescribedTensor("w", (1,))], 0.0, "bf16")).width
    with pytest.raises(ValueError, match="expected an arithmetic of a GPU: fp32, fp16, got fp8"):
        OperatorClock(GPU, "fp8", PLAIN)


def test_a_power_limit_slows_arithmetic_down_and_widens_it() -> None:
    """Half of the power leaves 0.5^0.4 = 0.758 of the clock."""
    limited = GPU.model_copy(update={"board_power": 400.0, "power_limit": 200.0})
    one, made = product("p", 1000, 1000, 1000, 4), Description([DescribedTensor("w", (1,))], 0.0, "fp32")
    slow, fast = (OperatorClock(gpu, "fp32", PLAIN) for gpu in (limited, GPU))
    assert fast.arithmetic_time(one) / slow.arithmetic_time(one) == pytest.approx(0.758, abs=1e-3)
    assert slow.operator_time(streaming("s", 8e8)) == fast.operator_time(streaming("s", 8e8))
    assert math.log(slow.estimated(made).width) == pytest.approx(math.hypot(math.log(1.5), math.log(0.758)), rel=1e-3)
    assert limited.model_copy(update={"power_limit": 500.0}).clock_under_load == 1
    with pytest.raises(ValueError, match="expected a board_power beside power_limit"):
        Gpu(name="a", power_limit=300.0)


def test_short_sides_and_few_tiles_cost_efficiency() -> None:
    clock = OperatorClock(GPU, "fp32", replace(PLAIN, depth=32.0, tail=0.25))
    size = 128 * 100
    seconds = 2 * size * 128 * 4096 / 5e12 * (1 + 0.25 / (size * 128 / (128 * 128 * 100))) * (1 + 32 / 128)
    assert clock.operator_time(product("p", size, 128, 4096, 4)) == pytest.approx(QUEUED_START + seconds)
    one_tile = clock.arithmetic_time(product("p", 128, 128, 4096, 4))
    assert one_tile == pytest.approx(2 * 128 * 128 * 4096 / 5e12 * (1 + 0.25 / 0.5) * (1 + 32 / 128))


def test_fast_convolutions_multiply_less_in_fp32_only() -> None:
    sizes = {"batch": 1, "m": 1e5, "n": 1e3, "k": 1e3}
    plain, fast = (Operator("c", kind, 0.0, **sizes) for kind in ("convolution", "winograd"))
    in_fp32, in_fp16 = (OperatorClock(GPU, arithmetic, PLAIN) for arithmetic in ("fp32", "fp16"))
    assert in_fp32.arithmetic_time(plain) == pytest.approx(2.25 * in_fp32.arithmetic_time(fast))
    assert in_fp16.arithmetic_time(plain) == in_fp16.arithmetic_time(fast)


@pytest.mark.parametrize("kind", ["product", "attention", "convolution", "winograd"])
def test_larger_operators_never_take_less(kind: str) -> None:
    clock = OperatorClock(GPU, "fp32")
    sides = (1, 17, 64, 128, 500, 4096)
    for batch, m, n, k in itertools.product((1, 8), sides, sides, sides):
        small = Operator("o", kind, 4.0, batch, m, n, k)
        for side in ("batch", "m", "n", "k"):
            assert clock.operator_time(replace(small, **{side: 2 * getattr(small, side)})) >= clock.operator_time(small)


def test_no_product_beats_the_data_sheet_by_more_than_the_fit_says() -> None:
    for name, gpu in shipped_gpus().items():
        if gpu.ideal:
            continue
        for arithmetic in ("fp32", *gpu.tensor_rates):
            clock, large = OperatorClock(gpu, arithmetic), product("p", 32768, 32768, 32768, 2)
            assert 0.4 < large.flops / clock.operator_time(large) / clock.rate < 1.01, name


def test_every_shipped_gpu_states_its_memory_and_those_with_tensor_cores_their_rates() -> None:
    with_cores = 0
    for name, gpu in shipped_gpus().items():
        if gpu.ideal:
            continue
        assert gpu.memory_size and gpu.memory_size >= 5 * 2**30, name
        if gpu.tensor_rates:
            with_cores += 1
            assert gpu.fp32_rate and gpu.tensor_rates["fp16"] >= 1.9 * gpu.fp32_rate, name
            assert gpu.tensor_rates.get("bf16", gpu.tensor_rates["fp16"]) == gpu.tensor_rates["fp16"], name
    assert with_cores >= 20


def test_tensor_cores_of_a_gpu_without_published_training_are_less_sure() -> None:
    gpus, rates = shipped_gpus(), shipped_operator_rates()
    made = Description([DescribedTensor("w", (1,), forward=[product("p", 9, 9, 9, 2)])], 0.0, "fp16")
    known = OperatorClock(gpus["v100-pytorch2"], "fp16").estimated(made)
    assert known.width == rates.tensor.width and known.reason == rates.tensor.source
    for name in ("l4", "t4", "rtx3090"):
        other = OperatorClock(gpus[name], "fp16").estimated(made)
        assert other.width > max(rates.tensor.width, rates.fp32.width) and "none on this GPU" in other.reason
    for name in ("b200", "h200", "mi300x"):  # whose largest product is known
        other = OperatorClock(gpus[name], "fp16").estimated(made)
        assert OTHER_SOFTWARE <= other.width < rates.tensor.width and "the largest product of" in other.reason


def test_widths_follow_what_was_timed() -> None:
    rates, gpus = shipped_operator_rates(), shipped_gpus()
    assert OperatorClock(gpus["h100"], "fp32").efficiency == rates.devices["NVIDIA_H100_80GB_HBM3"]
    assert OperatorClock(gpus["t4"], "fp32").efficiency == rates.fp32
    assert OperatorClock(gpus["h100"], "bf16").efficiency == rates.tensor_devices["NVIDIA_H100_80GB_HBM3"]
    assert OperatorClock(gpus["a100"], "fp16").efficiency == rates.tensor_devices["NVIDIA A100 80GB PCIe"]
    assert OperatorClock(gpus["l4"], "bf16").efficiency == rates.tensor
    assert rates.fp32.width > OTHER_SOFTWARE > rates.devices["NVIDIA_L4"].width > 1


def test_convolutions_elsewhere_than_judged_add_their_width() -> None:
    gpus, rates = shipped_gpus(), shipped_operator_rates()
    forward = [Operator("c", "winograd", 1.0, 1, 9.0, 9.0, 9.0)]
    made = Description([DescribedTensor("w", (1,), forward=forward)], 0.0, "fp32")
    assert OperatorClock(gpus["v100"], "fp32").estimated(made).width == max(OTHER_SOFTWARE, rates.convolution_width)
    elsewhere = OperatorClock(gpus["t4"], "fp32").estimated(made).width
    assert rates.fp32.width < elsewhere < rates.fp32.width * rates.convolution_width


def test_products_on_tensor_cores_take_their_matrices_in_addition() -> None:
    """One time for each byte of them, on every GPU, whose largest products reach a share of its rate; in fp8 a byte an
    element, and under a power limit as much longer as the arithmetic."""
    gpu, rates = shipped_gpus()["h100"], shipped_operator_rates()
    clock, one = OperatorClock(gpu, "bf16"), product("p", 8192, 1024, 4096, 2)
    elements = 8192 * 1024 + 1024 * 4096 + 4096 * 8192
    expected = one.flops / (989.4e12 * 0.803) + 2 * elements * rates.matrix_byte
    assert clock.arithmetic_time(one) == pytest.approx(expected)
    in_fp8 = one.flops / (1978.9e12 * 0.803 * 0.882) + elements * rates.matrix_byte
    short = replace(product("p", 8192, 1024, 4096, 1), fp8=True)
    assert OperatorClock(gpu, "fp8").arithmetic_time(short) == pytest.approx(in_fp8)
    limited = gpu.model_copy(update={"power_limit": 350.0})
    assert OperatorClock(limited, "bf16").arithmetic_time(one) == pytest.approx(expected / 0.5**0.4)
    unknown = gpu.model_copy(update={"product_share": None, "device": "another"})
    assert OperatorClock(unknown, "bf16").share == rates.tensor.value


@pytest.mark.parametrize(
    ("name", "largest", "rate"),
    [
        ("h100", 794.5, 989.0),
        ("gh200", 828.6, 989.0),
        ("b300", 1769, 2250),
        ("b200", 1745, 2250),
        ("gb200", 1822, 2500),
    ],
)
def test_shares_of_largest_products_are_what_was_timed(name: str, largest: float, rate: float) -> None:
    gpu, known = shipped_gpus()[name], shipped_operator_rates().tensor_devices
    assert gpu.product_share == pytest.approx(largest / rate, abs=1e-3)
    assert known.get(gpu.device or "") is None or known[gpu.device].value == gpu.product_share


def test_products_of_experts_take_as_long_as_each_by_itself_in_one_kernel() -> None:
    clock, one = OperatorClock(shipped_gpus()["h100"], "bf16"), product("p", 512, 1024, 4096, 2)
    grouped = replace(product("p", 512, 1024, 4096, 2, batch=8), kind="grouped")
    assert clock.arithmetic_time(grouped) == pytest.approx(8 * clock.arithmetic_time(one))
    assert clock.operator_time(grouped) == pytest.approx(QUEUED_START + 8 * (clock.operator_time(one) - QUEUED_START))


def test_experts_widen_the_time_of_a_model() -> None:
    gpu, rates = shipped_gpus()["v100-pytorch2"], shipped_operator_rates()
    grouped = replace(product("p", 9, 9, 9, 2, batch=8), kind="grouped")
    made = OperatorClock(gpu, "fp16").estimated(Description([DescribedTensor("w", (1,), forward=[grouped])], 1, "fp16"))
    assert made.width == pytest.approx(math.exp(math.hypot(math.log(rates.tensor.width), math.log(1.25))))
    assert "experts with equal parts of the tokens" in made.reason


def test_attention_on_h100_reaches_what_is_known_of_its_generations() -> None:
    """Of 989 TFLOP/s 56 % with the third generation, and 35 % with the second in forward passes (Shah et al. 2024), of
    which a training, whose backward passes are slower, was found to reach 77 %."""
    clock = OperatorClock(shipped_gpus()["h100"], "bf16")
    for generation, share in (("fused", 0.7691 * 0.35), ("flash3", 0.56)):
        one = Operator("a", "attention", 1.0, 64, 8192, 4096, 128, attention=generation)
        assert one.flops / clock.arithmetic_time(one) == pytest.approx(share * 989.4e12, rel=1e-3)
    assert pytest.approx(1 / 0.7691, abs=0.05) == ATTENTION_WIDTH  # forward passes over that training
    other = OperatorClock(shipped_gpus()["a100-80gb"], "bf16")
    assert other.attention["flash3"] == other.attention["fused"] == other.rates.attention


def test_the_first_fused_attention_kernels_are_slower_and_carried_over_as_the_mean_of_those_known() -> None:
    gpus, rates = shipped_gpus(), shipped_operator_rates()
    known = [item.early_attention for item in rates.tensor_devices.values()]
    for name, share in (("h100", known[1]), ("a100-80gb", known[0]), ("l4", math.sqrt(known[0] * known[1]))):
        clock = OperatorClock(gpus[name], "bf16")
        late, early = (
            Operator("a", "attention", 1.0, 8, 2048, 1024, 128, attention=each) for each in ("fused", "flash1")
        )
        assert clock.arithmetic_time(early) / clock.arithmetic_time(late) == pytest.approx(
            clock.attention["fused"] / share
        )
