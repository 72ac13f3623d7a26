"""A sweep's rows in the terms of figures: the method of each, and what else was varied."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd

from simulator.reporting.figures.base import Figure
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.figures.style.style import share
from simulator.units import show_bytes, show_time

_METHOD = "sparsifier"
DENSITY = "sparsifier.density"
BANDWIDTH = "cluster.network.bandwidth_bytes_per_s"


def varied(table: pd.DataFrame) -> list[str]:
    """The columns of what was varied: those in front of the outcome's, which begin with the digest."""
    columns = list(map(str, table.columns))
    return columns[: columns.index("digest")] if "digest" in columns else []


def method_name(value: Any) -> str:
    """A sparsifier, or another part of a scenario, as a legend says it, from its kind or its JSON.

    >>> [method_name(item) for item in ("topk", '{"kind": "topk", "density": 0.01}', '{"kind": "qsgd", "bits": 4}')]
    ['topk', 'topk 1 %', 'qsgd bits 4']
    """
    text = str(value)
    if not text.startswith("{"):
        return text
    try:
        content = json.loads(text)
    except ValueError:
        return text
    parts = [str(content.pop("kind", ""))]
    density = content.pop("density", None)
    if density is not None:
        parts.append(share(density) if isinstance(density, int | float) else str(density))
    return " ".join([*parts, *(f"{key} {item}" for key, item in content.items())])


def methods(table: pd.DataFrame, by: str = _METHOD) -> pd.Series[str]:
    """The method of each row, or what else was varied `by` a key; one name for all where the sweep did not vary it."""
    if by in table:
        return table[by].map(method_name)
    return pd.Series("as in the base", index=table.index)


def one_point_each(figure: Figure, source: Source, keys: pd.DataFrame) -> None:
    """Raise InputError where rows that `keys` does not tell apart are different points, naming what else varies."""
    table = source.table
    if "digest" not in table:
        raise figure.refused(source, "a column digest", "none")
    groups = [keys[name] for name in keys]
    several = table.groupby(groups, dropna=False)["digest"].transform("nunique") > 1
    if not several.any():
        return
    own = {*keys, *([DENSITY] if "density" in keys else [])}
    others = [
        column
        for column in varied(table)
        if table[column].groupby(groups, dropna=False).nunique(dropna=False).max() > 1 and column not in own
    ]
    example = table.loc[several, others[0]].iloc[0] if others else ""
    raise figure.refused(
        source,
        f"one point for each {' and '.join(map(str, keys))}",
        f"several, which differ in {', '.join(others) or 'the base'}",
        f"choose with --where '{others[0]}={method_name(example)}'" if others else "",
    )


def point_labels(table: pd.DataFrame) -> list[str]:
    """Each row in words: its method, then whatever else takes more than one value in these rows."""
    parts = [methods(table)] if _METHOD in table else []
    others = [name for name in varied(table) if name != _METHOD and table[name].nunique(dropna=False) > 1]
    parts += [table[name].map(lambda value, column=name: _shown(column, value)) for name in others]
    if not parts:
        return [str(number) for number in range(len(table))]
    nothing = "no " + " or ".join(_named(name) for name in others)  # keys that vary, and are not set in this row
    return [", ".join(item for item in each if item) or nothing for each in zip(*parts, strict=True)]


def _named(column: str) -> str:
    """The last part of a key without its unit, in words.

    >>> _named("scheduler.partition_bytes"), _named("cluster.network.bandwidth_bytes_per_s")
    ('partition', 'bandwidth')
    """
    name = column.rpartition(".")[2]
    for unit in ("_bytes_per_s", "_bytes", "_s"):
        name = name.removesuffix(unit)
    return name.replace("_", " ")


def _shown(column: str, value: Any) -> str:
    if pd.isna(value):
        return ""
    name = _named(column)
    if name == "density":
        return share(value)
    if column.endswith("_bytes_per_s"):
        return f"{8 * value / 1e9:.3g} Gbit/s"
    if column.endswith("_bytes"):
        return f"{name} {show_bytes(value)}"
    if column.endswith("_s"):
        return f"{name} {show_time(value)}"
    return f"{name} {value:g}" if isinstance(value, int | float) else method_name(value)
