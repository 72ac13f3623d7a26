"""What can be compared: stored results, which are read, and scenarios, which are run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.errors import InputError, Problem, format_value
from simulator.loading.documents import read_document, read_text
from simulator.prediction.result import RunResult
from simulator.prediction.run import Prediction, run, with_responses
from simulator.prediction.run_files import check_table, read_json, read_parquet, read_result
from simulator.records import Record
from simulator.reporting.answers.compared import VersionChange
from simulator.scenario.reading import load

if TYPE_CHECKING:
    pass

_ACCEPTED = "a scenario, a file of `sparsim run --json`, or a folder of `sparsim run --out` or `sparsim sweep --out`"


class RunOutcome(Record):
    """One run: its result, the resolved scenario where it is known, and the prediction if it was run here."""

    place: str
    result: RunResult
    inputs: Mapping[str, Any] | None
    prediction: Prediction | None = None


@dataclass(frozen=True, slots=True)
class SweepOutcome:
    """A sweep: the row of each point by column (None where a cell is empty), the varied keys, and its manifest."""

    place: str
    rows: list[dict[str, Any]]
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
        inputs = path / "scenario.yaml"
        known = read_document(inputs).mapping("a scenario: a mapping") if inputs.is_file() else None
        return RunOutcome(place, _read_result(path / "result.json"), known)
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
    document = read_json(read_text(path), str(path))
    if not isinstance(document, dict) or "breakdown_s" not in document:
        raise InputError(Problem(str(path), "a result of `sparsim run`", "another JSON document"))
    return read_result(document, str(path))


def _read_sweep(place: str, folder: Path) -> SweepOutcome:
    path, manifest = folder / "results.parquet", folder / "manifest.json"
    if not path.is_file():
        parts = any(folder.glob("results-*.parquet"))
        hint = "these are shards: run the same sweep without --shard to join them" if parts else ""
        raise InputError(Problem(place, _ACCEPTED, "a folder with neither result.json nor results.parquet", hint))
    table = read_parquet(path)
    columns = list(table.columns)
    if not {"digest", "error"} <= set(columns):  # a sweep whose points all failed has no other columns
        raise InputError(Problem(str(path), "results of `sparsim sweep`", f"columns {format_value(columns)}"))
    about, keys = read_json(read_text(manifest), str(manifest)), tuple(columns[: columns.index("digest")])
    table = check_table(table, str(path)).astype(object)
    return SweepOutcome(place, table.where(table.notna(), None).to_dict("records"), keys, about)
