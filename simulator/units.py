"""Quantities: text with a unit becomes a float in SI, here and nowhere else.

Inside the package everything is in seconds, bytes, bytes per second and numbers of elements. In YAML a number without
its unit is an error (except 0); in Python a float is in SI.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, core_schema

from simulator.bounds import BOUNDS, expected_quantity
from simulator.errors import InputError, Problem, format_value
from simulator.records import Record

_TIME = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "ps": 1e-12, "min": 60.0, "h": 3600.0}
_DECIMAL = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_PREFIX = {"": 1.0, **_DECIMAL}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_SIZE = {f"{name}B": factor for name, factor in (_PREFIX | _BINARY).items()}
_RATE = {f"{unit}/s": factor for unit, factor in _SIZE.items()}
_RATE |= {f"{name}{bit}/s": factor / 8 for name, factor in _PREFIX.items() for bit in ("bit", "b")}


class Dimension(Record):
    """What a quantity is measured in: its `units` with their factors to SI, an `example`, and the unit `si` that it has
    inside the package, in Python and in results."""

    units: Mapping[str, float]
    example: str
    si: str


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def _prefixed(unit: str) -> dict[str, float]:
    return {f"{name}{unit}": factor for name, factor in _PREFIX.items()}


DIMENSIONS = {
    "time": Dimension(_TIME, "50 us", "s"),
    "size": Dimension(_SIZE, "25 MiB", "B"),
    "bandwidth": Dimension(_RATE, "10 Gbit/s", "B/s"),
    "fraction": Dimension({"%": 0.01}, "0.01 or 1 %", ""),
    "frequency": Dimension(_prefixed("Hz"), "1.41 GHz", "Hz"),
    "power": Dimension(_prefixed("W"), "700 W", "W"),
    "arithmetic rate": Dimension(_prefixed("FLOP/s"), "19.5 TFLOP/s", "FLOP/s"),
    "throughput": Dimension(_prefixed("samples/s"), "1505.7 samples/s", "samples/s"),
}
COLUMN_SUFFIXES = {"s": "_s", "B": "_bytes", "B/s": "_bytes_per_s"}
"""What a quantity's unit adds to the name of its column in a table."""
_LONGEST = 400
"""Most characters of a quantity: the time of matching grows with their square."""
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_QUANTITY = re.compile(rf"({_NUMBER})\s*([^\d\s].*)?")


def parse(text: str, dimension: str) -> float:
    """Read `text` as a quantity of `dimension` (one of `DIMENSIONS`), in SI.

    >>> parse("10 Gbit/s", "bandwidth"), parse("25 MiB", "size"), parse("2 %", "fraction")
    (1250000000.0, 26214400.0, 0.02)

    Raises ValueError for a missing or unknown unit, and for one of another dimension.
    """
    known = DIMENSIONS[dimension]
    match = _QUANTITY.fullmatch(text.strip()) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(f"{_a(dimension)} such as {known.example}")
    number, unit = float(match[1]), (match[2] or "").strip().replace("\u03bc", "µ")  # the Greek letter, as the sign
    if not unit:
        if dimension == "fraction" or number == 0:
            return number
        raise ValueError(f"{_a(dimension)} with its unit, such as {known.example}")
    if unit not in known.units:
        raise ValueError(f"{_a(dimension)} in one of {', '.join(known.units)}")
    return number * known.units[unit]


def read_quantity(where: str, text: str, dimension: str) -> float:
    """A quantity in SI, as `parse` reads it. Raises InputError, with its place, for what is not of the dimension."""
    try:
        return parse(text, dimension)
    except ValueError as error:
        raise InputError(Problem(where, str(error), format_value(text))) from None


def read_value(where: str, value: Any, dimension: str) -> float:
    """A quantity given in Python, in SI: a text with its unit, or a number. Raises InputError for others."""
    if isinstance(value, str):
        return read_quantity(where, value, dimension)
    if isinstance(value, bool) or not isinstance(value, Real):
        known = DIMENSIONS[dimension]
        what = f"{_a(dimension)} such as {known.example}, or a number in {known.si}"
        raise InputError(Problem(where, what, format_value(value)))
    return float(value)


class SiFloat(float):
    """A number that was given in Python, and so in SI, among numbers of a file, which need their units."""


class SiInt(int):
    """A whole number that was given in Python, and so in SI, among numbers of a file, which need their units."""


_HUGE = 10**300  # Python cannot convert larger whole numbers to a float, not even to infinity


class Quantity(Record):
    """How a field of a dimension is read: text with a unit, or a number in SI, within the bounds of its `kind`.

    With `zero` 0 is allowed as well. JSON has it with its SI unit, so that the output of `check` can be read again.
    """

    dimension: str
    kind: str
    zero: bool = False

    def read(self, value: Any, info: ValidationInfo) -> float:
        """The value in SI. Raises a validation error that says what would be right."""
        dimension, strict = self.dimension, bool(info.context and info.context.get("units_required"))
        known = DIMENSIONS[dimension]
        if isinstance(value, str):
            try:
                number = parse(value, dimension)
            except ValueError as error:
                raise expected_quantity(str(error)) from None
        elif isinstance(value, bool) or not isinstance(value, int | float):
            raise expected_quantity(f"{_a(dimension)} such as {known.example}")
        elif strict and dimension != "fraction" and value != 0 and not isinstance(value, SiFloat | SiInt):
            raise expected_quantity(f"{_a(dimension)} with its unit, such as {known.example}")
        else:
            number = float(value) if abs(value) < _HUGE else math.inf
        if not math.isfinite(number):
            raise expected_quantity("a finite number")
        if number <= 0 and not self.zero:
            raise expected_quantity(f"{_a(dimension)} above 0")
        problem = BOUNDS[self.kind].problem(number, self.zero, known.si)
        if problem:
            raise expected_quantity(problem)
        return number

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def show(value: float) -> str | float:
            return f"{value!r} {unit}" if value else 0

        unit = DIMENSIONS[self.dimension].si
        shown = core_schema.plain_serializer_function_ser_schema(show, when_used="json") if unit else None
        return core_schema.with_info_before_validator_function(self.read, handler(source), serialization=shown)

    def __get_pydantic_json_schema__(self, schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        known = DIMENSIONS[self.dimension]
        units = "|".join(re.escape(unit) for unit in known.units)
        text = {"type": "string", "pattern": f"^{_NUMBER}\\s*({units})$"}
        number = {"type": "number"} if self.dimension == "fraction" else {"const": 0}
        return {"anyOf": [text, number], "examples": [known.example]}


Seconds = Annotated[float, Quantity("time", "time", zero=True)]
PositiveSeconds = Annotated[float, Quantity("time", "time")]
LongSeconds = Annotated[float, Quantity("time", "long time", zero=True)]
PositiveLongSeconds = Annotated[float, Quantity("time", "long time")]
SecondsPerItem = Annotated[float, Quantity("time", "time of an element", zero=True)]
Period = Annotated[float, Quantity("time", "period", zero=True)]
Bytes = Annotated[float, Quantity("size", "size", zero=True)]
PositiveBytes = Annotated[float, Quantity("size", "size")]
PartBytes = Annotated[float, Quantity("size", "size of a part")]
BytesPerSecond = Annotated[float, Quantity("bandwidth", "bandwidth")]
RateOrZero = Annotated[float, Quantity("bandwidth", "bandwidth", zero=True)]
Hertz = Annotated[float, Quantity("frequency", "frequency")]
Watts = Annotated[float, Quantity("power", "power")]
FlopsPerSecond = Annotated[float, Quantity("arithmetic rate", "arithmetic rate")]
SamplesPerSecond = Annotated[float, Quantity("throughput", "throughput")]
Density = Annotated[float, Quantity("fraction", "density")]
Fraction = Annotated[float, Quantity("fraction", "fraction", zero=True)]
Ratio = Annotated[float, Quantity("fraction", "ratio", zero=True)]


def count_of(count: float, noun: str) -> str:
    """A number with its noun, in the singular or plural.

    >>> count_of(1, "worker"), count_of(32, "worker")
    ('1 worker', '32 workers')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def show_minutes(minutes: float) -> str:
    """Minutes that something takes, about.

    >>> show_minutes(1.0), show_minutes(2.25)
    ('1 minute', '2.2 minutes')
    """
    return f"{minutes:.2g} minute{'' if minutes == 1 else 's'}"


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
    return _in_steps(nbytes, "B", 4, _DECIMAL)


def show_memory(nbytes: float) -> str:
    """Bytes of memory as text, in a suitable binary unit, as memories are sold.

    >>> show_memory(80 * 2**30), show_memory(16 * 7e9), show_memory(5e8)
    ('80 GiB', '104.3 GiB', '476.8 MiB')
    """
    return _in_steps(nbytes, "B", 4, _BINARY)


def show_bandwidth(bytes_per_s: float, digits: int = 4) -> str:
    """A bandwidth in bit/s, as networks are sold.

    >>> show_bandwidth(1.25e9), show_bandwidth(12.5e6), show_bandwidth(1.2345e9, 3)
    ('10 Gbit/s', '100 Mbit/s', '9.88 Gbit/s')
    """
    return _in_steps(8 * bytes_per_s, "bit/s", digits, _DECIMAL)


def print_alike(first: float, second: float) -> bool:
    """Whether two values are one to who reads them: all of the above print four digits.

    >>> print_alike(1.1743e9, 9.394e9 / 8), print_alike(1.1743e9, 1.1773e9)
    (True, False)
    """
    return math.isclose(first, second, rel_tol=1e-3)


def _in_steps(value: float, unit: str, digits: int, prefixes: dict[str, float]) -> str:
    prefix = next((name for name, factor in reversed(prefixes.items()) if abs(value) >= factor), "")
    return f"{value / prefixes.get(prefix, 1.0):.{digits}g} {prefix}{unit}"


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
