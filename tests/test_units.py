"""Quantities: what is read, what is refused, and what is written."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from simulator.units import (
    DIMENSIONS,
    Bytes,
    BytesPerSecond,
    Density,
    Fraction,
    PositiveBytes,
    Ratio,
    Seconds,
    parse,
    show_bytes,
    show_time,
)

STRICT = {"units_required": True}
DIMENSION = {"time": Seconds, "size": Bytes, "bandwidth": BytesPerSecond, "fraction": Fraction}


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_every_unit_is_read_with_and_without_a_space(dimension):
    for unit, factor in DIMENSIONS[dimension].units.items():
        for text in (f"2.5 {unit}", f"2.5{unit}", f"  +2.5e0 {unit} ", f"25e-1 {unit}"):
            assert parse(text, dimension) == pytest.approx(2.5 * factor), text


MEANINGS = {
    "bandwidth": {"8 Gbit/s": 1e9, "8 Gb/s": 1e9, "1 GB/s": 1e9, "0.0": 0},
    "size": {"1 MiB": 2**20, "1 MB": 1e6, "1 kB": 1e3, "16 B": 16, ".5 KiB": 512},
    "time": {"3 min": 180, "1 h": 3600, "7 µs": 7e-6, "7 \u03bcs": 7e-6, "0": 0},
    "fraction": {"12.5 %": 0.125, "0.125": 0.125, "1e-3": 1e-3},
}
REFUSED = {
    "time": ("5", "5 MB", "5 S", "5 sec", "5 ms ms", "5 5 ms", "ms", "", "five ms", "1e ms", "1_000 ms", "nan s",
             "inf s", "1,5 ms", "0x10 s", "٣ س"),
    "size": ("5 KB", "5 kb", "5 Mbit", "5 MB/s", "5"),
    "bandwidth": ("10 Gbps", "10 GB", "10 gbit/s", "10"),
    "fraction": ("1 percent", "1 %%", "1 s", "%"),
}  # fmt: skip


@pytest.mark.parametrize("dimension", MEANINGS)
def test_units_mean_what_they_say_and_foreign_unknown_and_missing_ones_are_refused(dimension):
    for text, value in MEANINGS[dimension].items():
        assert parse(text, dimension) == pytest.approx(value, rel=1e-15), text
    for text in REFUSED[dimension]:
        with pytest.raises(ValueError, match=rf"^a {dimension} "):
            parse(text, dimension)


@pytest.mark.parametrize("dimension", DIMENSION)
@given(text=st.text(max_size=12))
def test_any_text_is_a_finite_number_or_a_validation_error(dimension, text):
    try:
        value = TypeAdapter(DIMENSION[dimension]).validate_python(text, context=STRICT)
    except ValidationError as error:
        assert "\n" not in error.errors()[0]["msg"]
    else:
        assert math.isfinite(value)
        assert value >= 0


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (Seconds, 5, "with its unit"), (Seconds, "-1 ms", "at least 0"), (Seconds, "1e10 s", "at most 1000000 s"),
        (Seconds, "1e400 s", "a finite number"), (Seconds, math.nan, "with its unit"), (Seconds, True, "a time"),
        (Seconds, None, "a time"), (Seconds, [1], "a time"), (Bytes, "-1 B", "at least 0"),
        (PositiveBytes, 0, "above 0"), (BytesPerSecond, "0 GB/s", "above 0"), (BytesPerSecond, 1e9, "with its unit"),
        (Density, 0, "above 0"), (Density, 1.5, "at most 1"), (Density, "150 %", "at most 1"),
        (Density, -0.1, "above 0"), (Density, math.nan, "finite"),
        (Fraction, math.inf, "finite"), (Ratio, -0.5, "at least 0"),
    ],
)  # fmt: skip
def test_values_out_of_bounds_are_refused(kind, value, message):
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(value, context=STRICT)
    assert message in caught.value.errors()[0]["msg"]


def test_in_python_a_number_is_si_and_in_a_file_it_needs_its_unit():
    assert TypeAdapter(Seconds).validate_python(5) == 5
    assert TypeAdapter(Density).validate_python(0.01, context=STRICT) == 0.01
    assert TypeAdapter(Seconds).validate_python(0, context=STRICT) == 0


@pytest.mark.parametrize("kind", [Seconds, Bytes, BytesPerSecond, Fraction])
@given(value=st.floats(1e-30, 1))
def test_a_quantity_that_was_written_is_read_back_exactly(kind, value):
    adapter = TypeAdapter(kind)
    value = max(value, {BytesPerSecond: 1e-3, Bytes: 1e-6}.get(kind, 0.0))
    assert adapter.validate_python(adapter.dump_python(value, mode="json"), context=STRICT) == value


@given(seconds=st.floats(1e-9, 1e5), nbytes=st.floats(1, 1e15))
def test_what_a_person_reads_is_right_to_four_digits(seconds, nbytes):
    assert parse(show_time(seconds), "time") == pytest.approx(seconds, rel=1e-3)
    assert parse(show_bytes(nbytes), "size") == pytest.approx(nbytes, rel=1e-3)
    assert (show_time(0), show_bytes(0)) == ("0 s", "0 B")
