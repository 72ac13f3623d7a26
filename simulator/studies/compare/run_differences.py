"""What differs between two results, stored or run: of runs inputs, every figure, evidence, warnings and versions."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from simulator.errors import InputError, Problem
from simulator.loading.documents import read_document, read_text
from simulator.models.timeline import BREAKDOWN
from simulator.prediction.doubts.verdict import judge, verdict_fields
from simulator.prediction.result import RunResult
from simulator.prediction.run import Prediction, run, with_responses
from simulator.prediction.run_files import read_json, read_result
from simulator.records import Record
from simulator.reporting.answers.compared import (
    BasisPair,
    FidelityPair,
    FigurePair,
    InputChange,
    InputChanges,
    RunDifferences,
    Side,
    SweepDifferences,
    WarningSides,
)
from simulator.scenario.reading import load
from simulator.scenario.scenario import NOTES
from simulator.studies.compare.sweep_differences import SweepOutcome, changed_versions, compare_sweeps, read_sweep
from simulator.studies.compare.verdict_words import (
    TWO_RUNS,
    describe_times,
    describe_verdict,
    is_alike,
)
from simulator.studies.storage.row_table import row_of

Key = TypeVar("Key")
_NAMED_PARTS = ("workload", "cluster.gpu", "cluster.network", "cluster.runtime")
"""Parts that are usually exchanged as a whole: more than `_MANY` changes in one of them are listed as one."""
_MANY = 6
_GROUPS = {
    "iteration_time_s": "iteration",
    "iteration_time_interval_s": "iteration",
    "throughput_samples_per_s": "iteration",
    "scaling_efficiency": "iteration",
    "breakdown_s": "where the time goes",
    "idle_s": "idle time, by cause",
    "communication_total_s": "communication",
    "waiting_s": "communication",
    "traffic": "traffic",
    "axes": "axes of the sharded model",
    "period": "period of local steps",
    "elastic": "failures",
    "density": "density",
    "memory": "memory of a GPU",
}


class RunOutcome(Record):
    """One run: its result, the resolved scenario where it is known, and the prediction if it was run here."""

    place: str
    result: RunResult
    inputs: Mapping[str, Any] | None
    prediction: Prediction | None = None


def compare_outcomes(
    a: str, b: str, overrides_a: tuple[str, ...] = (), overrides_b: tuple[str, ...] = ()
) -> RunDifferences | SweepDifferences:
    """Compare two runs or two sweeps, named as `open_outcome` takes them.

    Raises InputError where one is a run and the other a sweep.
    """
    first, second = open_outcome(a, overrides_a), open_outcome(b, overrides_b)
    if isinstance(first, RunOutcome) and isinstance(second, RunOutcome):
        return compare_runs(first, second)
    if isinstance(first, SweepOutcome) and isinstance(second, SweepOutcome):
        return compare_sweeps(first, second)
    one, other = (a, b) if isinstance(first, RunOutcome) else (b, a)
    raise InputError(Problem("compare", "two runs or two sweeps", f"the run {one} and the sweep {other}"))


def open_outcome(place: str, overrides: tuple[str, ...] = ()) -> RunOutcome | SweepOutcome:
    """Read a folder or a JSON file, or run a scenario with `overrides`.

    Raises InputError for anything else, and for `overrides` of a stored result.
    """
    path = Path(place)
    if not path.is_dir() and not (path.suffix == ".json" and path.is_file()):
        scenario = load(place, overrides)
        options = "".join(f" --set {item}" for item in overrides)
        prediction = with_responses(run(scenario))
        return RunOutcome(place + options, prediction.result, scenario.resolved(), prediction)
    if overrides:
        hint = "a stored result cannot be changed; give the scenario instead"
        raise InputError(Problem(place, "a scenario where keys are set", "a stored result", hint))
    stored, inputs = path / "result.json" if path.is_dir() else path, path / "scenario.yaml"
    if not stored.is_file():
        return read_sweep(path, place)
    document = read_json(read_text(stored), str(stored))
    if not isinstance(document, dict) or "breakdown_s" not in document:
        raise InputError(Problem(str(stored), "a result of `sparsim run`", "another JSON document"))
    known = read_document(inputs).mapping("a scenario: a mapping") if inputs.is_file() else None
    return RunOutcome(place, read_result(document, str(stored)), known)


def compare_runs(a: RunOutcome, b: RunOutcome) -> RunDifferences:
    """Inputs that differ, every figure of both, their evidence and their warnings.

    Of two runs made here, also the verdict on whether B is faster, with what is lost where machines come and go: errors
    that both share cancel, which stored results do not tell.
    """
    one, other = runs = a.result, b.result
    before, time = one.lasting_time, other.lasting_time
    terms = {key: other.breakdown[key] - one.breakdown[key] for key in BREAKDOWN}
    verdict, said = None, f"B takes {time / before:.2f} times as long as A. " if before else "A takes no time. "
    if a.prediction and b.prediction and time and before:
        verdict = judge(b.prediction.lasting, a.prediction.lasting)
    if max(time, before) == math.inf:
        said = ""
    elif verdict is not None:
        said = f"{describe_verdict(verdict, TWO_RUNS)} "
    elif is_alike(time, before):
        said = "It makes no difference. "
    answer = f"{said}{describe_times(('B', 'A'), (other, one), terms)}"
    (low, high), (other_low, other_high) = one.interval, other.interval
    warnings, others = one.warning_texts, other.warning_texts
    return RunDifferences(
        compared="runs",
        a=Side(a.place, one.name, one.digest),
        b=Side(b.place, other.name, other.digest),
        answer=answer,
        alike=is_alike(time, before),
        intervals_overlap=low <= other_high and other_low <= high,
        inputs=_compare_inputs(a, b),
        figures=list(_compare_figures(row_of(one), row_of(other))),
        fidelity=FidelityPair(one.fidelity, other.fidelity),
        # Curves, laws and terms that either prediction rests on, and on which side each is used.
        calibration=[
            BasisPair(*key, where, (mine or theirs).held_out_mape, mine and mine.in_range, theirs and theirs.in_range)
            for key, mine, theirs, where in _pairs(*({(it.what, it.id): it for it in run.calibration} for run in runs))
        ],
        warnings=WarningSides(
            both=[item for item in warnings if item in others],
            only_a=[item for item in warnings if item not in others],
            only_b=[item for item in others if item not in warnings],
        ),
        versions=changed_versions(one.versions, other.versions),
        speed_up=None if verdict is None or math.isinf(verdict.log) else verdict.value,
        **verdict_fields(verdict),
    )


def _compare_inputs(a: RunOutcome, b: RunOutcome) -> InputChanges:
    """Dotted keys that differ: all of them in `changes`; in `told`, an exchanged part is one entry."""
    if a.inputs is None or b.inputs is None:
        unknown = [item.place for item in (a, b) if item.inputs is None]
        return InputChanges(known=False, unknown=unknown, changes=[], told=[])
    first, second = (
        dict(_flatten({key: value for key, value in inputs.items() if key not in NOTES}))
        for inputs in (a.inputs, b.inputs)
    )
    changes = [
        InputChange(key, one, other, where)
        for key, one, other, where in _pairs(first, second)
        if where != "both" or one != other
    ]
    return InputChanges(known=True, unknown=[], changes=changes, told=_group_changes(changes))


def _pairs(first: Mapping[Key, Any], second: Mapping[Key, Any]) -> Iterator[tuple[Key, Any, Any, str]]:
    """Every key of either, its value in both (None where it is missing), and which of them have it."""
    for key in dict.fromkeys([*first, *second]):
        where = "both" if key in first and key in second else "a" if key in first else "b"
        yield key, first.get(key), second.get(key), where


def _flatten(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys with plain values; a list of plain values stays one value."""
    if isinstance(value, dict) and value:
        inner: Iterator[tuple[Any, Any]] = iter(value.items())
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        inner = iter(enumerate(value))
    else:
        yield name, json.dumps(value) if isinstance(value, list | dict) else value
        return
    for key, item in inner:
        yield from _flatten(item, f"{name}.{key}" if name else str(key))


def _group_changes(changes: list[InputChange]) -> list[InputChange]:
    """The changes without sources of figures; a part with many changes becomes one entry."""
    by_key, grouped = {change.key: change for change in changes}, dict[str, InputChange]()
    for key, change in by_key.items():
        part = next((part for part in _NAMED_PARTS if key.startswith(f"{part}.")), key)
        inside = sum(each.startswith(f"{part}.") for each in by_key)
        named = by_key.get(f"{part}.name")
        told = change if inside <= _MANY else InputChange(part, named and named.a, named and named.b, "both", inside)
        if not key.endswith(".source"):
            grouped[told.key] = told
    return list(grouped.values())


def _compare_figures(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[FigurePair]:
    """Every figure of either run, with its group, unit, difference (B - A) and ratio (B / A)."""
    groups = list(dict.fromkeys(_GROUPS.values()))
    rows = [(_GROUPS[part], *row) for row in _pairs(first, second) if (part := row[0].partition(".")[0]) in _GROUPS]
    for group, key, a, b, _ in sorted(rows, key=lambda row: groups.index(row[0])):
        if (a is None and b is None) or any(isinstance(value, str | bool) for value in (a, b)):
            continue
        difference = None if a is None or b is None else b - a
        ratio = b / a if a and b is not None else None
        yield FigurePair(group, key, _unit(key), a, b, difference, ratio)


def _unit(key: str) -> str:
    if key.endswith("_per_s"):
        return "1/s"
    if any(part.endswith("_s") for part in key.split(".")):
        return "s"
    if "bytes" in key:
        return "B"
    return "share" if key.endswith(("utilisation", "efficiency")) else ""
