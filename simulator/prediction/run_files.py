"""The files of one run: its result, its scenario and tables of its traffic; stored results, checked before anything is
made of them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.answers import plain, read_answer
from simulator.bounds import BOUNDS
from simulator.engine.plan.plan import Plan
from simulator.errors import InputError, Problem, format_value
from simulator.files import as_yaml, write_text
from simulator.models.timeline import BREAKDOWN, LATER, LinkUse
from simulator.prediction.result import RunResult, column_keys
from simulator.prediction.run import Prediction

if TYPE_CHECKING:
    import pandas as pd

_PAIRS = 100_000


def store(folder: Path, prediction: Prediction) -> None:
    """Write `result.json` and the resolved `scenario.yaml`; `traffic.csv` if something is sent; `links.csv` if
    exchanges shared links during the simulation.

    Raises InputError where the folder cannot be written.
    """
    scenario, result = prediction.scenario, prediction.result
    if prediction.iteration.link_use is not None:
        write_text(folder / "links.csv", link_table(prediction.plan, prediction.iteration.link_use()))
    if prediction.plan.prices.traffic.sent.any():
        write_text(folder / "traffic.csv", traffic_table(prediction))
    write_text(folder / "scenario.yaml", f"# digest {scenario.digest}\n{as_yaml(scenario.resolved())}")
    write_text(folder / "result.json", json.dumps(plain(result), indent=2, allow_nan=False) + "\n")


def traffic_table(prediction: Prediction) -> str:
    """The bytes between all pairs in an iteration, without pairs that exchange nothing: `source,destination,bytes`.

    Places are workers and servers; where that makes more than 100,000 pairs, they are the nodes these stand on.
    """
    import pandas as pd

    plan, matrix = prediction.plan, prediction.plan.traffic_between()
    workers, places = plan.wiring.layout.workers, matrix.shape[0]
    names = [f"worker {place}" if place < workers else f"server {place - workers}" for place in range(places)]
    pairs = matrix.tocoo()
    source, destination = pairs.coords
    if pairs.nnz > _PAIRS:
        node = plan.wiring.layout.placement().node
        names = [f"node {number}" for number in range(int(node.max()) + 1)]
        source, destination = node[source], node[destination]
    rows = pd.DataFrame({"source": source, "destination": destination, "bytes": pairs.data})
    rows = rows[rows["bytes"] > 0].groupby(["source", "destination"], as_index=False).sum()
    label = np.array(names)
    rows = rows.assign(source=label[rows["source"]], destination=label[rows["destination"]])
    return str(rows.to_csv(index=False))


def link_table(plan: Plan, use: LinkUse) -> str:
    """The rate of every link in use over time: `time_s,link,bytes_per_s,utilisation`.

    A row is valid until the next row of its link; times count from the start of the first iteration.
    """
    import pandas as pd

    wiring, frames = plan.wiring, []
    for column in np.flatnonzero(use.rates.any(axis=0)).tolist():
        rates = use.rates[:, column]
        # Only rows where the rate changes.
        kept = np.flatnonzero(np.diff(rates, prepend=np.nan) != 0)
        for link in np.flatnonzero(use.of_link == column).tolist():
            share = rates[kept] / float(wiring.capacity[link])
            rows = {"time_s": use.times[kept], "link": wiring.names[link], "bytes_per_s": rates[kept]}
            frames.append(pd.DataFrame({**rows, "utilisation": share}))
    table = pd.concat(frames) if frames else pd.DataFrame(columns=["time_s", "link", "bytes_per_s", "utilisation"])
    return str(table.to_csv(index=False))


TIME = "iteration_time_s"
_TIMINGS = {"elements": "elements", "median_s": "s"}
_COUNTS = ("workers", "seed")
_SIGNED = ("comparison.difference_s.", "density_over_iterations[].", "implementation.saving_", "replay.change_")
"""Results that may be below 0."""
_UNITS = ("_s", "_bytes", "_hz")
"""Ends of the names of varied keys with a unit."""
_SHARES = ("density.target", "density.selected", "density.aggregated")
"""Results that are shares of all elements."""
_LARGEST = BOUNDS["magnitude"].largest
"""Numbers beyond it are damaged: what is made of them would not be finite."""
_ROUNDING = 1e-9
"""What sums and differences may leave below 0."""
_ANY = (f"a number within {_LARGEST:g}", -_LARGEST, _LARGEST)
_AT_LEAST_0 = ("a number of 0 or more", -_ROUNDING, _LARGEST)
_WEIGHING = 1e-6
"""What a share may be above 1: the weights of a sample's coordinates are of 32 bits."""
_DIGITS = 300
"""Most digits of a whole number: a float has no more."""
_MOST = 20
"""Problems that are named."""


def check_table(table: pd.DataFrame, place: str) -> pd.DataFrame:
    """The table of a sweep or of timings, its results as numbers; the varied keys before `digest` may be anything.

    Raises InputError that names row and column of every damaged cell: text in the place of a number, a number that is
    not finite or out of bounds, and no iteration time where no error says why.
    """
    import pandas as pd

    names = list(table.columns)
    first = names.index("digest") if "digest" in names else 0
    problems: list[Problem] = []
    made: dict[str, pd.Series] = {}
    for number, name in enumerate(names):
        given = table.iloc[:, number]
        known = _number_in(name)
        if number < first:  # numbers of a varied key may be mixed with words
            known = _AT_LEAST_0 if name.endswith(_UNITS) else _ANY
            known = known if pd.api.types.is_float_dtype(given) else None
        if known is None:
            continue
        values = pd.to_numeric(given, errors="coerce").astype("float64")
        what, low, high = known
        wrong = given.notna() & ~((values >= low) & (values <= high))
        if name == TIME:
            wrong |= given.isna() & (table["error"].isna() if "error" in table else False)
        for row in wrong.to_numpy().nonzero()[0][:_MOST].tolist():
            cell = given.iloc[row]
            cell = cell.item() if hasattr(cell, "item") else cell  # a plain value of Python
            got = "nothing" if pd.isna(cell) else format_value(cell)
            problems.append(Problem(f"{place}: row {row + 1}: {name}", what, got))
        if not pd.api.types.is_numeric_dtype(given):
            made[name] = values
    if problems:
        raise InputError(sorted(problems[:_MOST], key=str))
    return table.assign(**made) if made else table


def read_result(document: Any, place: str) -> RunResult:
    """The result of a run from its JSON, as this or an older version stored it.

    Raises InputError that names what is missing or of another form, and every key whose value is not finite or out of
    bounds.
    """
    result = read_answer(document, RunResult, place)
    for term in LATER:
        result.breakdown.setdefault(term, 0.0)
    absent = [term for term in BREAKDOWN if term not in result.breakdown]
    if absent:
        raise InputError(Problem(f"{place}: breakdown_s", f"a key `{absent[0]}`", "none"))
    check_numbers(document, place)
    return result


def check_numbers(document: Any, place: str) -> None:
    """Check the numbers of any document whose keys of seconds and bytes are named as those of a result.

    Raises InputError that names every key whose value is no number, not finite, or out of bounds.
    """
    problems = [
        Problem(f"{place}: {where}", known[0], format_value(value))
        for where, key, value in _leaves(document)
        if value is not None
        and (known := _number_in(key))
        and not (_is_number(value) and known[1] <= value <= known[2])
    ]
    if problems:
        raise InputError(problems[:_MOST])


def read_json(text: str, place: str) -> Any:
    """JSON of finite numbers. Raises InputError for what is none, with NaN and Infinity and numbers beyond a float."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_int=_whole)
    except json.JSONDecodeError as error:
        raise InputError(Problem(f"{place}:{error.lineno}:{error.colno}", "JSON", error.msg)) from None
    except (ValueError, RecursionError) as error:
        raise InputError(Problem(place, "JSON", format_value(str(error)))) from None


def read_parquet(path: Path) -> pd.DataFrame:
    """A Parquet file as a table. Raises InputError for any other file."""
    import pandas as pd

    try:
        with path.open("rb") as file:  # PyArrow itself opens only names in UTF-8
            return pd.read_parquet(file)
    except (OSError, ValueError) as error:  # pyarrow's own errors are ValueErrors
        raise InputError(Problem(str(path), "a Parquet table", format_value(str(error)))) from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _whole(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError(f"a whole number of {len(text)} digits")
    return int(text)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf


def _number_in(name: str) -> tuple[str, float, float] | None:
    """What the number of a key or column has to be, and its bounds; None where it is no number, or nothing is known."""
    known = column_keys().get(name)
    unit = known.unit if known is not None else _TIMINGS.get(name, "")
    if name in _COUNTS or (unit and name.startswith(_SIGNED)):
        return _ANY
    if name in _SHARES:
        return "a share from 0 to 1", -_ROUNDING, 1 + _WEIGHING
    what, least, most = _AT_LEAST_0
    return (what + ("" if unit == "1" else f", in {unit}"), 0.0 if name == TIME else least, most) if unit else None


def _leaves(value: Any, key: str = "", where: str = "") -> Iterator[tuple[str, str, Any]]:
    """(place, key as `column_keys` has it, value) of every value of a document; of a pair its two ends."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, f"{key}.{name}" if key else str(name), f"{where}.{name}" if where else str(name))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            below = f"{key}[]" if isinstance(inner, Mapping) else key
            yield from _leaves(inner, below, f"{where}[{number}]")
    else:
        yield where, key, value
