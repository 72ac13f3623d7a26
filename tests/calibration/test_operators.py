"""Rates of operators from a table, and from published trainings and profiles."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path

import pytest
from msgspec import convert

from simulator.calibration.operators import (
    COLUMNS,
    CONVOLUTIONS,
    convolution_errors,
    fit_operators,
    operator_rates_yaml,
    published_errors,
    published_trainings,
    read_operators,
)
from simulator.errors import InputError
from simulator.hardware.gpu import QUEUED_START, Gpu
from simulator.hardware.operator_times import (
    Efficiency,
    OperatorClock,
    OperatorRates,
    shipped_operator_rates,
)
from simulator.loading.documents import parse_document
from simulator.models.operators import Operator
from simulator.records import replace

TRUE = OperatorRates(
    depth=40.0, tail=0.3, rows=1.5, attention=0.65, convolution=1.0, convolution_width=1.0,
    fp32=Efficiency(0.8, 1, 0, ""), tensor=Efficiency(1, 1, 0, ""),
)  # fmt: skip
DEVICES = {"first": (10e12, 0.9), "second": (20e12, 0.6), "third": (40e12, 0.7)}


def table(path: Path, **replaced: str) -> Path:
    """A table whose seconds follow the law exactly; cells of the last row replaced."""
    rows = []
    for device, (rate, share) in DEVICES.items():
        gpu = Gpu(name=device, device=device, fp32_rate=rate, memory_bandwidth=1e12, multiprocessors=100)
        rates = OperatorRates(
            **{name: getattr(TRUE, name) for name in TRUE.__struct_fields__} | {"fp32": Efficiency(share, 1, 0, "")}
        )
        clock = OperatorClock(gpu, "fp32", rates)
        for model, (place, size) in (("one 1x1", (0, 1024)), ("two 2x1", (1, 2048))):
            for number, operator in enumerate(
                [Operator("product", "product", 3.0 * size, 1, size, 4 * size, n) for n in (64, size, 4 * size)]
                + [Operator("rows", "rows", 1e6 * size), Operator("streaming", "streaming", 1e6 * size)]
                + [Operator("streaming", "streaming", 0.0)]
            ):
                seconds = 2e-6 + clock.operator_time(operator) - QUEUED_START
                shape = (operator.batch, operator.m, operator.n, operator.k, operator.nbytes)
                rows.append([device, rate, 1e12, 100, model, f"{place}-{number}", operator.kind, *shape, seconds])
    order = ("device", "fp32_rate", "memory_bandwidth", "multiprocessors", "model", "measurement", "kind",
             "batch", "m", "n", "k", "nbytes", "seconds")  # fmt: skip
    last = dict(zip(order, rows[-1], strict=True)) | replaced
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(order)
        writer.writerows([*rows[:-1], [last[name] for name in order]])
    return path


def test_a_table_that_follows_the_law_gives_its_constants_back(tmp_path: Path) -> None:
    fit = fit_operators(read_operators(table(tmp_path / "operators.csv")))
    assert fit.rates.depth == pytest.approx(TRUE.depth, rel=0.2)  # the start of a call is not known exactly
    assert fit.rates.rows == pytest.approx(TRUE.rows, rel=0.02)
    for device, (_, share) in DEVICES.items():
        assert fit.rates.devices[device].value == pytest.approx(share, rel=0.05)
        assert 1 < fit.rates.devices[device].width < fit.rates.fp32.width
        assert device in fit.rates.devices[device].source
    # Of a GPU that was left out only the others' share is known.
    assert 1.2 < fit.other_gpu["first", "two 2x1"] < 0.9 / math.sqrt(0.6 * 0.7)
    assert fit.rates.fp32.width > 1.3 and fit.rates.fp32.count == 3


def test_one_wild_measurement_hardly_moves_the_rates(tmp_path: Path) -> None:
    measured = read_operators(table(tmp_path / "operators.csv"))
    wild = [replace(item, seconds=item.seconds * (8 if place == 1 else 1)) for place, item in enumerate(measured)]
    plain, moved = (fit_operators(items).rates for items in (measured, wild))
    assert moved.rows == pytest.approx(plain.rows, rel=0.05)
    assert moved.devices["first"].value == pytest.approx(plain.devices["first"].value, rel=0.15)


def test_one_gpu_or_one_model_can_not_be_left_out(tmp_path: Path) -> None:
    measured = read_operators(table(tmp_path / "operators.csv"))
    for part in ([item for item in measured if item.gpu.device == "first"], [m for m in measured if m.model[0] == "t"]):
        with pytest.raises(InputError, match="at least two GPUs and two models"):
            fit_operators(part)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ({"kind": "fft"}, "kind: expected one of product, streaming, rows, got 'fft'"),
        ({"seconds": "0"}, "seconds: expected a number above 0, got 0"),
        ({"seconds": "nan"}, "seconds: expected a number, 0 or more"),
        ({"kind": "product", "batch": "1", "m": "0"}, "m: expected a product with sizes above 0, got 0"),
        ({"nbytes": "1e99"}, "nbytes: expected a number, 0 or more"),
    ],
)
def test_mistakes_in_a_table_are_named(tmp_path: Path, cell: dict[str, str], words: str) -> None:
    with pytest.raises(InputError, match=re.escape(words)):
        read_operators(table(tmp_path / "operators.csv", **cell))


def test_an_empty_table_and_missing_columns_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "operators.csv"
    path.write_text(",".join(COLUMNS) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match="at least one measured operator"):
        read_operators(path)
    path.write_text("device\n", encoding="utf-8")
    with pytest.raises(InputError, match="the columns device"):
        read_operators(path)


def test_published_trainings_take_the_seconds_of_the_flops_that_their_authors_count() -> None:
    """Billions for each token by hand (6 x parameters + 12 l h s), thousands of tokens (again forwards), TFLOP/s."""
    counted = [(8.023, 8 * 4 / 3, 39), (8.023, 8 * 4 / 3, 62.4), (11.255, 16 * 4 / 3, 137), (9.099, 16, 196),
               (12.799, 16, 220), (17.916, 8, 205), (24.051, 8, 225), (2536.4, 8, 430)]  # fmt: skip
    expected = [1.024 * flops * tokens / rate for flops, tokens, rate in counted]
    assert [item.seconds for item in published_trainings()] == pytest.approx(expected, rel=2e-3)


def test_shipped_tensor_cores_are_the_mean_of_the_published_trainings() -> None:
    rates = shipped_operator_rates()
    errors = published_errors(rates)
    assert math.fsum(errors.values()) == pytest.approx(0, abs=0.01)
    assert all(abs(error) < math.log(rates.tensor.width) for error in errors.values())
    assert len(errors) == rates.tensor.count < len(published_trainings())
    assert all(source in rates.tensor.source for source in errors)


def test_shipped_convolutions_are_the_mean_of_the_profiles() -> None:
    rates = shipped_operator_rates()
    errors = convolution_errors(rates)
    assert len(errors) == len(CONVOLUTIONS) and math.fsum(errors.values()) == pytest.approx(0, abs=0.01)
    assert all(abs(error) < math.log(rates.convolution_width) for error in errors.values())


def test_rates_are_read_as_they_are_written() -> None:
    rates = shipped_operator_rates()
    text = operator_rates_yaml(rates, "Some words. " * 20)
    assert convert(parse_document(text).data, OperatorRates) == rates
    assert max(map(len, text.splitlines()[:8])) <= 120
