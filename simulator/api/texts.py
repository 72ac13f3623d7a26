"""Short texts, and tables whose quantities carry their units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.prediction.result import column_keys
from simulator.units import COLUMN_SUFFIXES

if TYPE_CHECKING:
    import pandas as pd


def shorten(text: str, limit: int) -> str:
    """A text on one line, cut to `limit` characters.

    >>> shorten("a longer\\nname", 9)
    'a long...'
    """
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 3].rstrip()}..."


def first_sentence(text: str) -> str:
    """The text up to the first full stop that ends a sentence.

    >>> first_sentence("No: 1.7 times slower. It adds time.")
    'No: 1.7 times slower'
    """
    return text.partition(". ")[0].removesuffix(".")


_BY_SUFFIX = sorted(((suffix, unit) for unit, suffix in COLUMN_SUFFIXES.items()), key=lambda item: -len(item[0]))


def with_units(frame: pd.DataFrame) -> pd.DataFrame:
    """A table with the unit of each quantity in `frame.attrs["units"]`; ratios have the unit `1`."""
    frame.attrs["units"] = {name: unit for name in frame.columns if (unit := unit_of(str(name)))}
    return frame


def unit_of(column: str) -> str:
    """The unit of a column of a sweep; empty for text, and for varied numbers without one.

    >>> unit_of("breakdown_s.forward"), unit_of("cluster.network.bandwidth_bytes_per_s"), unit_of("sparsifier")
    ('s', 'B/s', '')
    """
    if column in column_keys():
        return column_keys()[column].unit
    return next((unit for suffix, unit in _BY_SUFFIX if column.endswith(suffix)), "")
