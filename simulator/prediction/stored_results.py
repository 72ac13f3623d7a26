"""Stored results, checked before anything is made of them: damaged numbers are refused with their places."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from simulator.errors import InputError, Problem, format_value
from simulator.prediction.result_keys import RESULT_KEYS, VERDICT_COLUMNS

if TYPE_CHECKING:
    import pandas as pd

TIME = "iteration_time_s"
_TIMINGS = {"elements": "elements", "median_s": "s"}
_COUNTS = ("workers", "seed")
_SIGNED = ("comparison.difference_s.", "density_over_iterations[].", "implementation.saving_", "replay.change_")
"""Results that may be below 0."""
_UNITS = ("_s", "_bytes", "_hz")
"""Ends of the names of varied keys with a unit."""
_ANY = "a finite number"
_ENDS = (".p5", ".p95")
_WHOLE = ("breakdown_s", "traffic", "density", "fidelity", "calibration", "links", "collectives", "warning_sizes")
"""Parts of a result of which no key may be missing."""
_PAIRS = ("comparison.baseline_iteration_time_interval_s", "comparison.speed_up_interval")
_ROUNDING = 1e-9
"""What sums and differences may leave below 0."""
_DIGITS = 300
"""Most digits of a whole number: a float has no more."""
_MOST = 20
"""Problems that are named."""


def check_table(table: pd.DataFrame, place: str) -> pd.DataFrame:
    """The table of a sweep or of timings, its results as numbers; the varied keys before `digest` may be anything.

    Raises InputError that names row and column of every damaged cell: text in the place of a number, a number that is
    not finite or below 0, and no iteration time where no error says why.
    """
    import pandas as pd

    names = list(table.columns)
    first = names.index("digest") if "digest" in names else 0
    problems: list[Problem] = []
    made: dict[str, pd.Series] = {}
    for number, name in enumerate(names):
        given = table.iloc[:, number]
        what = _number_in(name) if number >= first else _varied_number(name, pd.api.types.is_float_dtype(given))
        if not what:
            continue
        values = pd.to_numeric(given, errors="coerce").astype("float64")
        low = -math.inf if what == _ANY or name.startswith(_SIGNED) else 0.0 if name == TIME else -_ROUNDING
        wrong = given.notna() & ~((values >= low) & (values < math.inf))
        if name == TIME:
            wrong |= given.isna() & (table["error"].isna() if "error" in table else False)
        for row in wrong.to_numpy().nonzero()[0][:_MOST].tolist():
            got = "nothing" if pd.isna(given.iloc[row]) else format_value(_plain(given.iloc[row]))
            problems.append(Problem(f"{place}: row {row + 1}: {name}", what, got))
        if not pd.api.types.is_numeric_dtype(given):
            made[name] = values
    if problems:
        raise InputError(sorted(problems[:_MOST], key=str))
    return table.assign(**made) if made else table


def check_document(document: Any, place: str) -> None:
    """Check the result document of a run, or another one, whose keys of seconds and bytes say so.

    Raises InputError that names what is missing or of another form, and every key whose value is no number, not finite,
    or below 0.
    """
    problems = list(_misshapen(document, place)) if isinstance(document, Mapping) and "breakdown_s" in document else []
    problems += [
        Problem(f"{place}: {where}", what, format_value(value))
        for where, key, value in ([] if problems else _leaves(document))
        if (what := _number_in(key))
        and (value is not None or _needs_number(key))
        and not (_is_number(value) and (value >= -_ROUNDING or key.startswith(_SIGNED)))
    ]
    if problems:
        raise InputError(problems[:_MOST])


def _misshapen(document: Mapping[str, Any], place: str) -> Iterator[Problem]:
    """What is missing of the result of a run, or is no mapping, list or plain value where there has to be one."""
    for key in RESULT_KEYS:
        group, _, name = key.rpartition(".")
        top = group.removesuffix("[]")
        if not group or top.partition("[]")[0].partition(".")[0] not in document:
            continue
        found = _at(document, top)
        entries = found if group.endswith("[]") else [found]
        if not isinstance(entries, list) or not all(isinstance(item, Mapping) for item in entries):
            if found is not None or top in document:
                what = "a list of mappings" if group.endswith("[]") else "a mapping"
                yield Problem(f"{place}: {top}", what, format_value(found))
        elif top in _WHOLE and not all(name in item for item in entries):
            yield Problem(f"{place}: {top}", f"a key `{name}`", "none")
        elif any(isinstance(item.get(name), Mapping) or _is_list_of_others(item.get(name)) for item in entries):
            yield Problem(f"{place}: {key}", "a plain value", format_value(entries[0].get(name)))
    for key in (TIME, "iteration_time_interval_s", *_PAIRS):
        value = _at(document, key)
        if key == TIME and not _is_number(value):
            yield Problem(f"{place}: {key}", "a number of 0 or more, in s", format_value(value))
        elif key != TIME and (value is not None or key not in _PAIRS) and not _is_pair(value):
            yield Problem(f"{place}: {key}", "a list of two numbers", format_value(value))
    texts = document.get("warnings", [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        yield Problem(f"{place}: warnings", "a list of texts", format_value(texts))


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))


def _at(document: Mapping[str, Any], dotted: str) -> Any:
    """What stands at a dotted key; None where there is nothing, or a list in between."""
    value: Any = document
    for name in dotted.split("."):
        value = value.get(name.removesuffix("[]")) if isinstance(value, Mapping) else None
    return value


def _is_list_of_others(value: Any) -> bool:
    """Whether a value is a list that is no pair of numbers or list of texts."""
    return isinstance(value, list) and not all(isinstance(item, int | float | str) for item in value)


def _needs_number(key: str) -> bool:
    """Whether a key of a run always has a number."""
    return (key.split(".", maxsplit=1)[0] in _WHOLE and "null" not in RESULT_KEYS[key].what) or key == TIME


def read_json(text: str) -> Any:
    """JSON of finite numbers. Raises ValueError for what is none, with NaN and Infinity and numbers beyond a float."""
    return json.loads(text, parse_constant=_refuse_constant, parse_int=_whole)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _whole(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError(f"a whole number of {len(text)} digits")
    return int(text)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf


def _plain(value: Any) -> Any:
    """A value of a table as a plain one of Python."""
    return value.item() if hasattr(value, "item") else value


def _number_in(name: str) -> str:
    """What the number of a key or column has to be; empty where it is no number, or nothing is known of it."""
    for end in _ENDS:
        name = name.removesuffix(end)
    known = RESULT_KEYS.get(name) or VERDICT_COLUMNS.get(name)
    unit = known.unit if known is not None else _TIMINGS.get(name, "")
    if name in _COUNTS or name.startswith(_SIGNED):
        return _ANY if unit or name in _COUNTS else ""
    if unit in ("", "1"):
        return "a number of 0 or more" if unit else ""
    return f"a number of 0 or more, in {unit}"


def _varied_number(name: str, numbers: bool) -> str:
    """The same of a varied key, whose numbers may be mixed with words."""
    if not numbers:
        return ""
    return "a number of 0 or more" if name.endswith(_UNITS) else _ANY


def _leaves(value: Any, key: str = "", where: str = "") -> Iterator[tuple[str, str, Any]]:
    """(place, key as in `RESULT_KEYS`, value) of every value of a document; of a pair its two ends."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, f"{key}.{name}" if key else str(name), f"{where}.{name}" if where else str(name))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            below = f"{key}[]" if isinstance(inner, Mapping) else key
            yield from _leaves(inner, below, f"{where}[{number}]")
    else:
        yield where, key, value
