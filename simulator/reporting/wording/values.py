"""Values as text, by the kind of quantity that they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from simulator.units import show_bandwidth, show_bytes, show_probability, show_time

_ROUNDING = 1e-12


def format_share(fraction: float) -> str:
    """A fraction in percent.

    >>> format_share(0.001), format_share(0.25), format_share(-0.03)
    ('0.1 %', '25 %', '-3 %')
    """
    return f"{100 * fraction:.3g} %"


def format_error(value: float | None, sign: bool = False, digits: int = 1) -> str:
    """A relative error in percent; a hyphen where there is none.

    >>> format_error(0.0166), format_error(-0.0166, sign=True), format_error(None)
    ('1.7 %', '-1.7 %', '-')
    """
    if value is None or not math.isfinite(value):
        return "-"
    return f"{100 * value:{'+' if sign else ''}.{digits}f} %"


def format_change(ratio: float) -> str:
    """A ratio as a change in percent; as a factor where it is large.

    >>> format_change(0.5), format_change(12.0), format_change(1.0)
    ('-50.0 %', 'x 12', '=')
    """
    if abs(ratio - 1) <= _ROUNDING:
        return "="
    if ratio >= 100:
        return f"x {ratio:,.0f}"
    return f"x {ratio:.3g}" if ratio >= 10 else f"{100 * (ratio - 1):+.1f} %"


def format_difference(value: float, kind: str) -> str:
    """A difference with its sign; of two shares in percentage points.

    >>> format_difference(2e6, "bytes"), format_difference(-0.1, "share"), format_difference(0.0, "time")
    ('+2 MB', '-10 points', '0 s')
    """
    text = KINDS[kind](value)
    return ("+" if value > 0 else "") + (text.replace(" %", " points") if kind == "share" else text)


KINDS: dict[str, Callable[[Any], str]] = {
    "text": str,
    "words": str,
    "unbroken": str,
    "figure": str,
    "time": show_time,
    "time_difference": lambda value: format_difference(value, "time"),
    "bytes": show_bytes,
    "bandwidth": show_bandwidth,
    "share": lambda value: f"{100 * value:.4g} %",
    "size": format_error,
    "error": lambda value: format_error(value, sign=True),
    "fine_size": lambda value: format_error(value, digits=2),
    "fine_error": lambda value: format_error(value, sign=True, digits=2),
    "percent": format_share,
    "change": format_change,
    "number": lambda value: f"{value:.4g}",
    "short": lambda value: f"{value:.3g}",
    "ratio": lambda value: f"{value:.2f}",
    "whole_percent": lambda value: f"{100 * value:.0f} %",
    "factor": lambda value: f"x {value:.3g}",
    "gibi": lambda value: f"{value / 2**30:.4g}",
    "giga": lambda value: f"{value / 1e9:.4g}",
    "tera": lambda value: f"{value / 1e12:.4g}",
    "probability": show_probability,
    "count": lambda value: f"{value:,.0f}",
    "fitted": lambda value: "fitted" if value else "",
    "yes": lambda value: "yes" if value else "no",
}
"""Kinds of quantities; `page/assets/format.js` has those of a sweep's table, which is filled in the browser.

A `figure` is a number that is already text, because its column has several kinds. `words` are texts of which each row
has its own, and `unbroken` ones stay on one line.
"""
LEFT = ("text", "yes", "words", "unbroken", "bar")
"""Kinds whose columns are aligned to the left."""


def describe_interval(interval: Sequence[float]) -> str:
    """A 90 % interval in words; it has no width where no error is stated.

    >>> describe_interval([0.1, 0.2])
    '90 % interval 100 ms to 200 ms'
    """
    low, high = interval
    if low == high:
        return "no 90 % interval: no errors are known"
    return f"90 % interval {show_time(low)} to {show_time(high)}"


def format_value(kind: str, value: Any, missing: str = "–") -> str:
    """A value as text, `missing` where there is none; what is text already stays as it is.

    >>> format_value("time", 0.4512), format_value("share", None), format_value("error", -0.0166)
    ('451.2 ms', '–', '-1.7 %')
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return missing
    return value if isinstance(value, str) else KINDS[kind](value)


def sort_key(value: Any) -> str:
    """What a cell is sorted by: the number itself, the largest of several, or the text."""
    if value is None:
        return ""
    if isinstance(value, tuple):
        value = max(value)
    return repr(float(value)) if isinstance(value, int | float) else str(value)
