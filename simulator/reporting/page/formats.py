"""How values stand in a page's tables: by kind, the unit with each of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from simulator.reporting.figures.style.style import share
from simulator.units import show_bytes, show_time


def bandwidth(bytes_per_s: float) -> str:
    """Bytes/s as networks are sold.

    >>> bandwidth(1.25e9), bandwidth(12.5e6)
    ('10 Gbit/s', '100 Mbit/s')
    """
    bits = 8 * bytes_per_s
    for limit, unit in ((1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if abs(bits) >= limit:
            return f"{bits / limit:.4g} {unit}"
    return f"{bits:.4g} bit/s"


KINDS: dict[str, Callable[[Any], str]] = {
    "text": str,
    "time": show_time,
    "bytes": show_bytes,
    "bandwidth": bandwidth,
    "share": lambda value: f"{100 * value:.4g} %",
    "error": lambda value: f"{100 * value:+.1f} %",
    "percent": share,
    "number": lambda value: f"{value:.4g}",
    "count": lambda value: f"{value:,.0f}",
    "yes": lambda value: "yes" if value else "no",
}
"""Kinds of columns; `assets/format.js` has the same ones for tables that are made in the browser."""


def cell(kind: str, value: Any) -> str:
    """A value as text; a dash for none.

    >>> cell("time", 0.4512), cell("share", None), cell("error", -0.0166)
    ('451.2 ms', '–', '-1.7 %')
    """
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    return KINDS[kind](value)


def sort_key(value: Any) -> str:
    """What a cell is sorted by: the number itself, or the text."""
    if value is None:
        return ""
    return repr(float(value)) if isinstance(value, int | float) else str(value)
