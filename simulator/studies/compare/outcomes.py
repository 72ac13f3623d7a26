"""What can be compared: stored results, which are read, and scenarios, which are run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.errors import InputError, Problem, format_value
from simulator.loading.documents import MAX_BYTES, read_document
from simulator.prediction.result import RunResult
from simulator.prediction.run import Prediction, run, with_responses
from simulator.prediction.run_files import check_table, read_json, read_result
from simulator.records import Record
from simulator.reporting.answers.compared import VersionChange
from simulator.scenario.reading import load

if TYPE_CHECKING:
    import pandas as pd

_NEEDED = ("scenario", "digest", "iteration_time_s", "iteration_time_interval_s", "breakdown_s", "traffic", "density")
_ACCEPTED = "a scenario, a file of `sparsim run --json`, or a folder of `sparsim run --out` or `sparsim sweep --out`"
_JSON = "JSON as `sparsim run --json` prints it"


class RunOutcome(Record):
    """One run: its result, the resolved scenario where it is known, and the prediction if it was run here."""

    place: str
    result: RunResult
    inputs: Mapping[str, Any] | None
    prediction: Prediction | None = None


@dataclass(frozen=True, slots=True)
class SweepOutcome:
    """A sweep: a table with one row per point, the varied keys (columns), and its manifest."""

    place: str
    table: pd.DataFrame
    keys: tuple[str, ...]
    manifest: Mapping[str, Any]


def open_outcome(place: str, overrides: tuple[str, ...] = ()) -> RunOutcome | SweepOutcome:
    """Read a folder or a JSON file, or run a scenario with `overrides`.

    Raises InputError for anything else, and for `overrides` of a stored result.
    """
    path = Path(place)
    stored = path.is_dir() or (path.suffix == ".json" and path.is_file())
    if stored and overrides:
        hint = "a stored result cannot be changed; give the scenario instead"
        raise InputError(Problem(place, "a scenario where keys are set", "a stored result", hint))
    if path.is_dir() and (path / "result.json").is_file():
        return RunOutcome(place, _read_result(path / "result.json"), _read_scenario(path / "scenario.yaml"))
    if path.is_dir():
        return _read_sweep(place, path)
    if stored:
        return RunOutcome(place, _read_result(path), None)
    scenario = load(place, overrides)
    options = "".join(f" --set {item}" for item in overrides)
    prediction = with_responses(run(scenario))
    return RunOutcome(place + options, prediction.result, scenario.resolved(), prediction)


def changed_versions(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[VersionChange]:
    """Software whose version differs."""
    names = sorted({*first, *second})
    return [VersionChange(n, first.get(n), second.get(n)) for n in names if first.get(n) != second.get(n)]


def _read_result(path: Path) -> RunResult:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(Problem(str(path), f"at most {MAX_BYTES} bytes", f"{path.stat().st_size} bytes"))
        made = read_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(Problem(str(path), "a readable file", error.strerror or str(error))) from None
    except json.JSONDecodeError as error:
        raise InputError(Problem(f"{path}:{error.lineno}:{error.colno}", _JSON, error.msg)) from None
    except (UnicodeDecodeError, RecursionError):
        raise InputError(Problem(str(path), _JSON, "something else")) from None
    except ValueError as error:  # NaN and Infinity
        raise InputError(Problem(str(path), _JSON, str(error))) from None
    absent = [key for key in _NEEDED if key not in made] if isinstance(made, dict) else list(_NEEDED)
    if absent:
        raise InputError(Problem(str(path), "a result of `sparsim run`", f"no {', '.join(absent)}"))
    return read_result(made, str(path))


def _read_scenario(path: Path) -> Mapping[str, Any] | None:
    if not path.is_file():
        return None
    data = read_document(path).data
    if not isinstance(data, dict):
        raise InputError(Problem(str(path), "a scenario: a mapping", format_value(data)))
    return data


def _read_sweep(place: str, folder: Path) -> SweepOutcome:
    import pandas as pd

    path = folder / "results.parquet"
    if not path.is_file():
        parts = any(folder.glob("results-*.parquet"))
        hint = "these are shards: run the same sweep without --shard to join them" if parts else ""
        raise InputError(Problem(place, _ACCEPTED, "a folder with neither result.json nor results.parquet", hint))
    try:
        with path.open("rb") as file:
            table = pd.read_parquet(file)
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # errors of pyarrow and json are ValueErrors
        raise InputError(Problem(str(folder), "results of `sparsim sweep`", format_value(str(error)))) from None
    columns = list(table.columns)
    if not {"digest", "error"} <= set(columns):  # a sweep whose points all failed has no other columns
        raise InputError(Problem(str(path), "results of `sparsim sweep`", f"columns {format_value(columns)}"))
    return SweepOutcome(place, check_table(table, str(path)), tuple(columns[: columns.index("digest")]), manifest)
