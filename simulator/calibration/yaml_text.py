"""YAML text of configs as a person would write it: quantities with units, long texts folded."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import yaml

WIDTH = 116
_EXACT = 2**53
_BINARY = {30: "GiB", 20: "MiB", 10: "KiB", 0: "B"}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?(?:e[-+]?\d+)?) (s|B|B/s)")
_UNITS = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"), (1e-12, "ps")),
    "B/s": ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")),
}


def quantity_text(value: float, unit: str) -> str:
    """Seconds (s) and bytes per second (B/s) with five digits and a unit; bytes (B) in binary units where they are
    whole.

    >>> quantity_text(0.00111734, "s"), quantity_text(0, "s"), quantity_text(1174300000.0, "B/s")
    ('1.1173 ms', '0 s', '1.1743 GB/s')
    >>> quantity_text(2**20, "B"), quantity_text(3048576, "B")
    ('1 MiB', '3048576 B')
    """
    if unit == "B":
        whole = round(value)
        power = next((power for power in (30, 20, 10) if whole and not whole % 2**power), 0)
        return f"{whole >> power} {_BINARY[power]}"
    if not value:
        return f"0 {unit}"
    units = _UNITS[unit]
    factor, unit = next((pair for pair in units if value >= pair[0] * (1 - 1e-12)), units[-1])
    digits = f"{value / factor:.5g}"
    return f"{float(digits):.10g} {unit}" if math.isfinite(value) else f"{digits} {unit}"


def percent_text(fraction: float) -> str:
    """A fraction in percent, with two digits below 10 % and three above; at most 100 %."""
    return f"{100 * fraction:.2g} %" if fraction < 0.1 else f"{min(100.0, 100 * fraction):.3g} %"


class _BlockDumper(yaml.SafeDumper):
    """Lists of bare values on one line, long texts folded."""


_BlockDumper.add_representer(
    list,
    lambda dumper, items: dumper.represent_sequence(
        "tag:yaml.org,2002:seq", items, flow_style=not any(isinstance(item, dict | list) for item in items)
    ),
)
_BlockDumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style=">" if len(text) > WIDTH - 20 else None
    ),
)


def block_text(value: Any) -> str:
    """A value as YAML over several lines, with every quantity inside as a person writes it.

    >>> print(block_text({"range": [10.0, 2359296.0], "slope": "1.14e-08 s"}))
    range: [10, 2359296]
    slope: 11.4 ns
    """
    text: str = yaml.dump(
        _tidy_quantities(value), Dumper=_BlockDumper, sort_keys=False, width=WIDTH, allow_unicode=True
    )
    return text.rstrip("\n")


def _tidy_quantities(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _tidy_quantities(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_tidy_quantities(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    return quantity_text(float(match[1]), match[2]) if match else value


def table_text(values: Mapping[str, Any]) -> str:
    """Values, and groups of values by name, as YAML with one entry on a line.

    Numbers have four digits, so that the text is the same on every processor. In an entry, None and 0 are left out.

    >>> print(table_text({"share": 0.123456, "kernels": {"sort": {"count": 2}}}), end="")
    share: 0.1235
    kernels:
      "sort": {count: 2}
    """
    lines = []
    for name, value in values.items():
        if isinstance(value, Mapping) and all(isinstance(item, Mapping) for item in value.values()):
            lines += [f"{name}:", *(f'  "{key}": {_entry_text(item)}' for key, item in value.items())]
        else:
            lines.append(f"{name}: {_entry_text(value)}")
    return "\n".join(lines) + "\n"


def _entry_text(value: Any) -> str:
    if isinstance(value, Mapping):
        stated = {key: item for key, item in value.items() if item is not None and item != 0.0}
        return "{" + ", ".join(f"{key}: {_entry_text(item)}" for key, item in stated.items()) + "}"
    if isinstance(value, str):
        return '"' + value.replace('"', "'") + '"'
    return f"{value:.4g}" if isinstance(value, float) else str(value)
