"""Quantities: text with a unit becomes a float in SI, here and nowhere else.

Inside the package everything is in seconds, bytes, bytes per second and numbers of elements. In YAML a number without
its unit is an error (except 0); in Python a float is in SI.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, ValidationInfo, WithJsonSchema

from simulator.bounds import BOUNDS, expected_quantity
from simulator.errors import InputError, Problem, format_value
from simulator.records import Record

_TIME = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "ps": 1e-12, "min": 60.0, "h": 3600.0}
_PREFIX = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_SIZE = {f"{name}B": factor for name, factor in (_PREFIX | _BINARY).items()}
_RATE = {f"{unit}/s": factor for unit, factor in _SIZE.items()}
_RATE |= {f"{name}{bit}/s": factor / 8 for name, factor in _PREFIX.items() for bit in ("bit", "b")}
_FREQUENCY = {f"{name}Hz": factor for name, factor in _PREFIX.items()}
_POWER = {f"{name}W": factor for name, factor in _PREFIX.items()}
_ARITHMETIC = {f"{name}FLOP/s": factor for name, factor in _PREFIX.items()}
_THROUGHPUT = {f"{name}samples/s": factor for name, factor in _PREFIX.items()}
TABLES = {
    "time": _TIME,
    "size": _SIZE,
    "bandwidth": _RATE,
    "fraction": {"%": 0.01},
    "frequency": _FREQUENCY,
    "power": _POWER,
    "arithmetic rate": _ARITHMETIC,
    "throughput": _THROUGHPUT,
}
EXAMPLES = {
    "time": "50 us",
    "size": "25 MiB",
    "bandwidth": "10 Gbit/s",
    "fraction": "0.01 or 1 %",
    "frequency": "1.41 GHz",
    "power": "700 W",
    "arithmetic rate": "19.5 TFLOP/s",
    "throughput": "1505.7 samples/s",
}
SI = {
    "time": "s",
    "size": "B",
    "bandwidth": "B/s",
    "fraction": "",
    "frequency": "Hz",
    "power": "W",
    "arithmetic rate": "FLOP/s",
    "throughput": "samples/s",
}
"""Unit of each dimension inside the package, in Python and in results."""
COLUMN_SUFFIXES = {"s": "_s", "B": "_bytes", "B/s": "_bytes_per_s"}
"""What a quantity's unit adds to the name of its column in a table."""
_LONGEST = 400
"""Most characters of a quantity: the time of matching grows with their square."""
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_QUANTITY = re.compile(rf"({_NUMBER})\s*([^\d\s].*)?")


def parse(text: str, dimension: str) -> float:
    """Read `text` as a quantity of `dimension` (one of `TABLES`), in SI.

    >>> parse("10 Gbit/s", "bandwidth"), parse("25 MiB", "size"), parse("2 %", "fraction")
    (1250000000.0, 26214400.0, 0.02)

    Raises ValueError for a missing or unknown unit, and for one of another dimension.
    """
    table = TABLES[dimension]
    match = _QUANTITY.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(f"a {dimension} such as {EXAMPLES[dimension]}")
    number, unit = float(match[1]), (match[2] or "").strip().replace("\u03bc", "µ")  # the Greek letter, as the sign
    if not unit:
        if dimension == "fraction" or number == 0:
            return number
        raise ValueError(f"a {dimension} with its unit, such as {EXAMPLES[dimension]}")
    if unit not in table:
        raise ValueError(f"a {dimension} in one of {', '.join(table)}")
    return number * table[unit]


def read_quantity(where: str, text: str, dimension: str) -> float:
    """A quantity in SI, as `parse` reads it. Raises InputError, with its place, for what is not of the dimension."""
    try:
        return parse(text, dimension)
    except ValueError as error:
        raise InputError(Problem(where, str(error), format_value(text))) from None


class SiFloat(float):
    """A number that was given in Python, and so in SI, among numbers of a file, which need their units."""


class SiInt(int):
    """A whole number that was given in Python, and so in SI, among numbers of a file, which need their units."""


_HUGE = 10**300  # Python cannot convert larger whole numbers to a float, not even to infinity


class Quantity(Record):
    """How a field of a dimension is read: text with a unit, or a number in SI, within the bounds of its `kind`.

    With `zero` 0 is allowed as well.
    """

    dimension: str
    kind: str
    zero: bool

    def read(self, value: Any, info: ValidationInfo) -> float:
        """The value in SI. Raises a validation error that says what would be right."""
        dimension, strict = self.dimension, bool(info.context and info.context.get("units_required"))
        if isinstance(value, str):
            try:
                number = parse(value, dimension)
            except ValueError as error:
                raise expected_quantity(str(error)) from None
        elif isinstance(value, bool) or not isinstance(value, int | float):
            raise expected_quantity(f"a {dimension} such as {EXAMPLES[dimension]}")
        elif strict and dimension != "fraction" and value != 0 and not isinstance(value, SiFloat | SiInt):
            raise expected_quantity(f"a {dimension} with its unit, such as {EXAMPLES[dimension]}")
        else:
            number = float(value) if abs(value) < _HUGE else math.inf
        if not math.isfinite(number):
            raise expected_quantity("a finite number")
        if number <= 0 and not self.zero:
            raise expected_quantity(f"a {dimension} above 0")
        problem = BOUNDS[self.kind].problem(number, self.zero, SI[dimension])
        if problem:
            raise expected_quantity(problem)
        return number


def _quantity(dimension: str, kind: str, zero: bool) -> BeforeValidator:
    return BeforeValidator(Quantity(dimension, kind, zero).read)


def _schema(dimension: str) -> WithJsonSchema:
    units = "|".join(re.escape(unit) for unit in TABLES[dimension])
    text = {"type": "string", "pattern": f"^{_NUMBER}\\s*({units})$"}
    number = {"type": "number"} if dimension == "fraction" else {"const": 0}
    return WithJsonSchema({"anyOf": [text, number], "examples": [EXAMPLES[dimension]]})


def _with_unit(unit: str) -> PlainSerializer:
    """Quantities are written with their SI unit, so that the output of `check` can be read again."""
    return PlainSerializer(lambda value: f"{value!r} {unit}" if value else 0, when_used="json")


Seconds = Annotated[float, _quantity("time", "time", True), _schema("time"), _with_unit("s")]
PositiveSeconds = Annotated[float, _quantity("time", "time", False), _schema("time"), _with_unit("s")]
SecondsPerItem = Annotated[float, _quantity("time", "time of an element", True), _schema("time"), _with_unit("s")]
Period = Annotated[float, _quantity("time", "period", True), _schema("time"), _with_unit("s")]
Bytes = Annotated[float, _quantity("size", "size", True), _schema("size"), _with_unit("B")]
PositiveBytes = Annotated[float, _quantity("size", "size", False), _schema("size"), _with_unit("B")]
PartBytes = Annotated[float, _quantity("size", "size of a part", False), _schema("size"), _with_unit("B")]
BytesPerSecond = Annotated[float, _quantity("bandwidth", "bandwidth", False), _schema("bandwidth"), _with_unit("B/s")]
RateOrZero = Annotated[float, _quantity("bandwidth", "bandwidth", True), _schema("bandwidth"), _with_unit("B/s")]
Hertz = Annotated[float, _quantity("frequency", "frequency", False), _schema("frequency"), _with_unit("Hz")]
Watts = Annotated[float, _quantity("power", "power", False), _schema("power"), _with_unit("W")]
FlopsPerSecond = Annotated[
    float, _quantity("arithmetic rate", "arithmetic rate", False), _schema("arithmetic rate"), _with_unit("FLOP/s")
]
SamplesPerSecond = Annotated[
    float, _quantity("throughput", "throughput", False), _schema("throughput"), _with_unit("samples/s")
]
Density = Annotated[float, _quantity("fraction", "density", False), _schema("fraction")]
Fraction = Annotated[float, _quantity("fraction", "fraction", True), _schema("fraction")]
Ratio = Annotated[float, _quantity("fraction", "ratio", True), _schema("fraction")]


def count_of(count: float, noun: str) -> str:
    """A number with its noun, in the singular or plural.

    >>> count_of(1, "worker"), count_of(32, "worker")
    ('1 worker', '32 workers')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def join_words(parts: Sequence[str]) -> str:
    """A list as text.

    >>> join_words(["a"]), join_words(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def shorten(text: str, limit: int) -> str:
    """A text on one line, cut to `limit` characters.

    >>> shorten("a longer\\nname", 9)
    'a long...'
    """
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 3].rstrip()}..."


def show_time(seconds: float) -> str:
    """Seconds as text, in a suitable unit.

    >>> show_time(0.00042), show_time(0.4005), show_time(2.5), show_time(11834.2)
    ('420 us', '400.5 ms', '2.5 s', '11830 s')
    """
    for limit, unit, factor in ((1e-6, "ns", 1e9), (1e-3, "us", 1e6), (1.0, "ms", 1e3)):
        if abs(seconds) < limit:
            return f"{seconds * factor:.4g} {unit}" if seconds else "0 s"
    return f"{float(f'{seconds:.4g}'):.12g} s"


def show_bytes(nbytes: float) -> str:
    """Bytes as text, in a suitable decimal unit.

    >>> show_bytes(102_228_128)
    '102.2 MB'
    """
    for limit, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(nbytes) >= limit:
            return f"{nbytes / limit:.4g} {unit}"
    return f"{nbytes:.4g} B"


def show_memory(nbytes: float) -> str:
    """Bytes of memory as text, in a suitable binary unit, as memories are sold.

    >>> show_memory(80 * 2**30), show_memory(16 * 7e9), show_memory(5e8)
    ('80 GiB', '104.3 GiB', '476.8 MiB')
    """
    for exponent, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if abs(nbytes) >= 2.0**exponent:
            return f"{nbytes / 2.0**exponent:.4g} {unit}"
    return f"{nbytes:.4g} B"


def show_bandwidth(bytes_per_s: float, digits: int = 4) -> str:
    """A bandwidth in bit/s, as networks are sold.

    >>> show_bandwidth(1.25e9), show_bandwidth(12.5e6), show_bandwidth(1.2345e9, 3)
    ('10 Gbit/s', '100 Mbit/s', '9.88 Gbit/s')
    """
    bits = 8 * bytes_per_s
    for limit, unit in ((1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if abs(bits) >= limit:
            return f"{bits / limit:.{digits}g} {unit}"
    return f"{bits:.{digits}g} bit/s"


def show_quantity(text: str) -> str:
    """A quantity of a resolved scenario in a suitable unit; other text as it is."""
    number, _, unit = text.partition(" ")
    show = {"s": show_time, "B": show_bytes, "B/s": show_bandwidth}.get(unit)
    return show(float(number)) if show else text


def show_probability(value: float) -> str:
    """A probability to two digits, never rounded to certainty.

    >>> show_probability(0.974), show_probability(0.9999), show_probability(0.4), show_probability(1e-9)
    ('0.97', 'over 0.99', '0.4', 'under 0.01')
    """
    if value > 0.99:
        return "over 0.99"
    return "under 0.01" if value < 0.01 else f"{float(f'{value:.2f}'):g}"
