"""The smallest and the largest value of every kind of number that a user may write, in one table.

The bounds are far outside of what exists, and still so narrow that sums and products of the values that they allow stay
finite, and that quotients do not vanish. What is beyond them is a mistake, and is refused with the bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from simulator.records import Record


class Bounds(Record):
    """The values from `smallest` to `largest`, both included, in SI; `reason`: why nobody needs more or less.

    A field may allow 0 besides.
    """

    smallest: float
    largest: float
    reason: str

    def problem(self, value: float, zero: bool, unit: str = "") -> str:
        """What would be right instead of `value`; empty where it is allowed.

        >>> [BOUNDS["time"].problem(value, True, "s") for value in (-1.0, 5e-324, 0.0, 1e9)]
        ['at least 0', '0, or at least 1e-30 s', '', 'at most 1000000 s']
        """
        if value > self.largest:
            return f"at most {self.largest:.12g} {unit}".rstrip()
        if value >= self.smallest or (zero and value == 0):
            return ""
        if zero and value < 0:
            return "at least 0"
        return f"{'0, or ' if zero else ''}at least {self.smallest:.12g} {unit}".rstrip()


BOUNDS: Final[Mapping[str, Bounds]] = {
    "time": Bounds(1e-30, 1e6, "what a fit leaves of zero by rounding, to 11 days"),
    "long time": Bounds(1e-30, 1e10, "what a fit leaves of zero by rounding, to machines that fail once in 300 years"),
    "time of an element": Bounds(1e-40, 1e6, "what a fit leaves of zero by rounding, to 11 days"),
    "period": Bounds(1e-9, 1e4, "a clock cycle to hours; an iteration is cut into periods"),
    "size": Bounds(1e-6, 1e18, "an average far below one byte, to all memory of the world"),
    "size of a part": Bounds(1.0, 1e18, "nothing is cut into parts of less than a byte"),
    "bandwidth": Bounds(1e-3, 1e18, "slower than a telegraph to all traffic of the world"),
    "power": Bounds(1, 1e5, "GPUs draw 70 to 1,400 W"),
    "frequency": Bounds(1e6, 1e12, "processors have 1e9 Hz"),
    "arithmetic rate": Bounds(1e6, 1e20, "processors reach 1e9 to 1e16 FLOP/s"),
    "throughput": Bounds(1e-9, 1e15, "a sample in 30 years to a thousand in a clock cycle"),
    "density": Bounds(1e-12, 1.0, "one element of the largest tensor, to all of them"),
    "fraction": Bounds(1e-30, 1.0, "what a fit leaves of zero by rounding, to all"),
    "ratio": Bounds(1e-30, 1e6, "what a fit leaves of zero by rounding, to a million times as much"),
    "factor": Bounds(1e-3, 1e3, "a thousand times as fast to a thousand times as slow"),
    "share of a link": Bounds(1e-6, 1.0, "a modem in the place of 100 Gbit/s, to all of it"),
    "times as much": Bounds(1.0, 1e6, "as much, to a million times as much"),
    "samples per second": Bounds(1e-6, 1e12, "a sample in 11 days to a thousand in a clock cycle"),
    "magnitude": Bounds(1e-30, 1e30, "squares of gradients stay finite in fp64"),
    "learning rate": Bounds(1e-30, 1e6, "no step at all, to steps that no training survives"),
    "deviations": Bounds(1e-6, 1e6, "standard deviations at which values are cut off"),
    "scales": Bounds(1e-6, 8.0, "standard deviation of logarithms: scales alike, to e^8 apart"),
    "concentration": Bounds(1e-9, 1e12, "all choose the same, to independence for all that can be counted"),
    "share": Bounds(1e-6, 1 - 1e-6, "neither nothing nor all"),
    "elements": Bounds(1e-6, 1e15, "an average below one, to a thousand times the largest tensor"),
    "count": Bounds(1, 10**12, "the elements of the largest tensor"),
    "index": Bounds(0, 2**31 - 1, "workers, nodes, buckets and iterations are far fewer"),
    "seed": Bounds(0, 2**63 - 1, "the largest whole number of 64 bits"),
}
"""The bounds by the kind of the number; quantities with a unit are in SI. A field may have narrower ones of its own."""


def within(kind: str) -> Any:
    """A constraint of pydantic: a number of a kind, which cannot be 0 unless its bounds contain it."""
    bounds = BOUNDS[kind]
    return Field(ge=bounds.smallest, le=bounds.largest)


class OrZero(Record):
    """A constraint for a number of a kind that may also be 0."""

    kind: str
    zero: bool = True

    def check(self, value: float) -> float:
        """The value. Raises a validation error for one that is neither 0 nor within the bounds."""
        problem = BOUNDS[self.kind].problem(value, zero=True)
        if problem:
            raise expected_quantity(problem)
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        limited = core_schema.float_schema(ge=0, le=BOUNDS[self.kind].largest, allow_inf_nan=False)
        return core_schema.no_info_after_validator_function(self.check, limited)


def expected_quantity(text: str) -> PydanticCustomError:
    """The validation error of a number that is wrong; `text` says what would be right."""
    return PydanticCustomError("quantity", "expected {text}", {"text": text})


Factor = Annotated[float, within("factor")]
ShareOfLink = Annotated[float, OrZero("share of a link")]
TimesAsMuch = Annotated[float, within("times as much")]
SamplesRate = Annotated[float, within("samples per second")]
Magnitude = Annotated[float, within("magnitude")]
SignedMagnitude = Annotated[float, Field(ge=-BOUNDS["magnitude"].largest, le=BOUNDS["magnitude"].largest)]
LearningRate = Annotated[float, within("learning rate")]
Deviations = Annotated[float, within("deviations")]
ConcentrationOrNone = Annotated[float, OrZero("concentration")]
Concentration = Annotated[float, within("concentration")]
Share = Annotated[float, within("share")]
Elements = Annotated[float, within("elements")]
Count = Annotated[int, within("count")]
Index = Annotated[int, within("index")]
Number = Annotated[int, Field(ge=-BOUNDS["index"].largest, le=BOUNDS["index"].largest)]
"""A whole number that a check with a message of its own looks at."""
Seed = Annotated[int, within("seed")]
