"""`sweep`: a grid of predictions as a table, whose quantities carry their units."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.errors import InputError, Problem, format_value
from simulator.prediction.result import column_keys
from simulator.scenario.changes import as_data
from simulator.scenario.reading import ScenarioSource, load
from simulator.scenario.scenario import Scenario
from simulator.studies.sweep.sweep import sweep as run_study
from simulator.units import COLUMN_SUFFIXES

if TYPE_CHECKING:
    import pandas as pd

_SWEEP = ("vary", "zip")
Axes = Mapping[str, Iterable[Any] | Mapping[str, Any]]


def sweep(
    source: ScenarioSource,
    vary: Axes | str | os.PathLike[str] | None = None,
    *,
    zip: Sequence[Axes] = (),
    skip: Sequence[Mapping[str, Any]] = (),
    intervals: str = "first_order",
    verdicts: bool = False,
    out: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    retry_failed: bool = False,
    **overrides: Any,
) -> pd.DataFrame:
    """Predict every point of a grid, as `sparsim sweep`; one row per point.

    `source` is a scenario (a name, a path, a mapping or a `Scenario`), and `vary` has the values of dotted keys:
    `sweep("quickstart", {"cluster.nodes": [2, 4, 8]})`; or `source` is a whole sweep: a shipped one, a file, or a
    mapping with `base` and `vary`. `zip`, `skip`, `intervals` and `verdicts` mean the same as in a sweep file;
    `overrides` change the scenario, as for `run`.

    Columns are the varied keys, with their unit in the name (`cluster.network.bandwidth_bytes_per_s`), then the keys of
    the result, and `error` for points that failed; `frame.attrs["units"]` has the unit of each.

    `out`: the folder that keeps finished points, so that the same call continues an interrupted sweep; `workers`:
    processes (default: one per core for more than 24 points; 1: this process); `retry_failed`: evaluate points again
    that failed before, whose errors are kept otherwise. Raises InputError for bad input.
    """
    if isinstance(vary, str | os.PathLike):
        vary, out = None, vary
    folder = None if out is None else Path(out)
    if vary is None and not zip:
        return with_units(run_study(_whole_sweep(source, overrides), folder, workers, retry_failed=retry_failed))
    axes = {key: _values(key, values) for key, values in (vary or {}).items()}
    groups = [{key: _values(key, values) for key, values in group.items()} for group in zip]
    # A scenario that nothing else changes is named, so that messages say where it stands.
    base = load(source, overrides) if overrides or not isinstance(source, str | os.PathLike) else os.fspath(source)
    document: dict[str, Any] = {"base": base, "vary": axes, "zip": groups}
    document |= {"skip": as_data(skip), "intervals": intervals, "verdicts": verdicts}
    return with_units(run_study(document, folder, workers, retry_failed=retry_failed))


def _whole_sweep(source: ScenarioSource, overrides: Mapping[str, Any]) -> str | Path | Mapping[str, Any]:
    """A sweep that says itself what varies. Raises InputError for a scenario, which does not, and for overrides."""
    hint = 'for example sweep("quickstart", {"cluster.nodes": [2, 4, 8]})'
    if overrides:
        names = ", ".join(overrides)
        raise InputError(Problem("sweep", "what varies, beside keys that change the scenario", names, hint))
    if isinstance(source, Scenario) or (isinstance(source, Mapping) and not any(key in source for key in _SWEEP)):
        raise InputError(Problem("sweep", "a sweep, or a scenario and what varies", "a scenario alone", hint))
    if isinstance(source, Mapping):
        return source
    if not isinstance(source, str | os.PathLike):
        raise InputError(Problem("sweep", "the name or path of a sweep, or a mapping", format_value(source)))
    return os.fspath(source)


def _values(key: str, values: Any) -> Any:
    """The values of an axis as a sweep file has them: a list, or a range."""
    if isinstance(values, Mapping):
        return as_data(values)
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InputError(Problem(f"sweep: {key}", "a list of values", format_value(values)))
    return as_data(list(values))


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
