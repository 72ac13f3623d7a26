"""The pages of studies: of a sweep, a validation, times to quality, and a build-up study."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from simulator.errors import InputError, Problem
from simulator.reporting.answers.trained import TrainingQuality
from simulator.reporting.answers.validated import ValidatedModel, ValidationRow
from simulator.reporting.figures.data.sources import Source, methods, point_labels, varied_keys
from simulator.reporting.page.charts import Page, chart_of, charts_of, join_charts, provenance, sweep_charts
from simulator.reporting.page.plots import constants, points_of
from simulator.reporting.wording.blocks import Column, Table, columns, describe, format_varied
from simulator.reporting.wording.studies import quality_tables, validation_tables
from simulator.reporting.wording.values import format_value
from simulator.scenario.versions import versions
from simulator.units import count_of, show_time

_FAILED = 50
_METHODS = 8
_SAME = 1e-9


def sweep_page(source: Source) -> Page:
    """Figures with choices for the other varied keys, all points to filter and sort, and what they rest on."""
    table, manifest = source.table, _manifest(source)
    best = int(table["iteration_time_s"].to_numpy().argmin()) if len(table) else None
    keys = varied_keys(table)
    glance = [("points", f"{len(table):,}")]
    if manifest.get("failed"):
        glance.append(("failed", f"{manifest['failed']:,}"))
    if best is not None:
        glance.append(("shortest iteration", show_time(table["iteration_time_s"].iloc[best])))
        glance.append(("longest iteration", show_time(table["iteration_time_s"].max())))
    tables = [_varied(table, keys)]
    if evidence := _count_entries(table, "calibration"):
        heads = (*columns("text", what="curve or law, with its held-out error (MAPE)"), *columns("count", "points"))
        tables.append(Table("What the predictions rest on", heads, evidence))
    if manifest.get("failed"):
        tables += _failures(source)
    return Page(
        title=str(manifest.get("sweep") or source.place),
        subtitle=f"a sweep over {', '.join(describe(name).label for name in keys) or 'no key'}",
        answer=_answer(table, point_labels(table)[best]) if best is not None and keys else "",
        glance=glance,
        warnings=[f"{entry} ({n:,} of {len(table):,} points)" for entry, n in _count_entries(table, "warnings")],
        charts=list(sweep_charts(source)),
        points=points_of(table) if len(table) else None,
        tables=tables,
        provenance=_provenance(table, manifest),
    )


def _answer(table: pd.DataFrame, best: str) -> str:
    """Where each method pays, in a sweep with verdicts; and the shortest iteration."""
    parts = []
    if "verdict" in table:
        for method, verdicts in table["verdict"].groupby(methods(table), sort=False):
            judged = verdicts.dropna()
            counts = judged.value_counts()
            if len(judged):
                open_ = f", not decided in {counts['undecided']:,}" if "undecided" in counts else ""
                parts.append(f"{method} in {counts.get('yes', 0):,} of {count_of(len(judged), 'point')}{open_}")
    said = f"Faster than dense: {'; '.join(parts[:_METHODS])}. " if parts else ""
    times = table["iteration_time_s"]
    if times.max() - times.min() <= _SAME * times.max():
        return f"{said}Every iteration takes {show_time(times.max())}."
    return f"{said}The shortest iteration is that of {best}."


def _manifest(source: Source) -> dict[str, Any]:
    path = source.folder / "manifest.json" if source.folder is not None else None
    try:
        counts = json.loads(path.read_text(encoding="utf-8")) if path is not None else {}
    except (OSError, ValueError):
        return {}  # its content is additional: the rows are complete without it
    return counts if isinstance(counts, dict) else {}


def _varied(table: pd.DataFrame, keys: list[str]) -> Table:
    rows = []
    for name in keys:
        values = table[name].dropna().drop_duplicates()
        numbers = pd.api.types.is_numeric_dtype(values)
        shown = [format_varied(name, value) for value in (values.sort_values() if numbers else values)]
        rows.append([name, len(shown), ", ".join(shown[:40]) + (", ..." if len(shown) > 40 else "")])
    heads = (*columns("text", "key"), *columns("count", n="number of values"), *columns("text", v="values"))
    return Table("Varied keys", heads, rows)


def _count_entries(table: pd.DataFrame, name: str) -> list[tuple[str, int]]:
    """The entries of a column of texts joined by semicolons, each with its number of points."""
    entries = table[name].dropna().astype(str).str.split("; ").explode() if name in table else pd.Series(dtype=str)
    return [(str(entry), int(n)) for entry, n in entries[entries != ""].value_counts().sort_index().items()]


def _failures(source: Source) -> Iterator[Table]:
    """Messages of the points that failed, each with its number of points."""
    path = source.folder / "results.parquet" if source.folder is not None else None
    if path is not None and path.is_file():
        with path.open("rb") as file:
            counts = pd.read_parquet(file, columns=["error"])["error"].dropna().value_counts(sort=False)
        rows = [[str(message), int(count)] for message, count in list(counts.items())[:_FAILED]]
        yield Table("Points that failed", (*columns("text", "message"), *columns("count", n="points")), rows)


def _provenance(table: pd.DataFrame, manifest: dict[str, Any]) -> list[tuple[str, str]]:
    said: dict[str, str] = {}
    if "fidelity.tier" in table:
        tiers = table["fidelity.tier"].value_counts(sort=False)
        said["fidelity"] = ", ".join(f"{tier}: {count:,} points" for tier, count in sorted(tiers.items()))
    if "sweep_digest" in manifest:
        said["digest of the sweep"] = manifest["sweep_digest"]
    said["digest of each point"] = "in the table of points; computed from its scenario and the engine's version"
    head = "versions."
    same = constants(table).items()
    return provenance({name.removeprefix(head): value for name, value in same if name.startswith(head)}, **said)


def validation_page(source: Source) -> Page:
    """Errors overall and by set-up, the figure for each quantity, and every row."""
    found: ValidatedModel = source.document
    rows, whole = found.rows, found.iterations
    quantities = list(dict.fromkeys(str(row["quantity"]) for row in rows if row["unit"] == "s"))
    charts = {(k.replace("_", " "),): chart_of("measured_predicted", source, {"quantity": k}) for k in quantities}
    chart = join_charts(charts, ("quantity",))
    fitted = sum(bool(row["used_in_fit"]) for row in rows)
    return Page(
        title="Predicted against measured",
        subtitle=f"a validation: {len(rows)} measured values in {count_of(len(found.groups), 'set-up')}",
        glance=[
            ("whole iterations: mean absolute error", format_value("share", whole.mape)),
            ("median", format_value("share", whole.median_ape)),
            ("95th percentile", format_value("share", whole.p95_ape)),
            ("in their 90 % interval", format_value("share", whole.coverage_90)),
            ("half of the interval's width", format_value("share", whole.half_width)),
            ("bias", format_value("error", whole.bias)),
            ("whole iterations predicted", f"{whole.n}"),
            ("all predictions", f"{found.overall.n}"),
            ("rows used in fitting, not counted", f"{fitted}"),
        ],
        warnings=_row_warnings(rows),
        charts=[chart] if chart is not None else [],
        tables=list(validation_tables(found))[::-1],
        provenance=provenance(found.versions),
    )


def _row_warnings(rows: Sequence[ValidationRow]) -> list[str]:
    """Each warning once, with its number of scenarios."""
    scenarios: dict[str, set[str]] = {}
    for row in rows:
        for warning in row.get("warnings") or ():
            scenarios.setdefault(warning, set()).add(row["scenario"])
    return [f"{warning} ({count_of(len(names), 'scenario')})" for warning, names in scenarios.items()]


def quality_page(source: Source) -> Page:
    """Which method reaches the target first on a cluster, and what its trainings showed."""
    found: TrainingQuality = source.document
    return Page(
        title=f"Time to {found.target}",
        subtitle=f"trainings in {found.trainings}, on {found.scenario}",
        answer=found.answer or "",
        facts=[f"The opponent is {found.opponent}.", *found.notes],
        glance=[("workers", f"{found.workers:,}"), ("methods", str(len(found.methods or ())))],
        warnings=found.warnings or [],
        charts=charts_of(source, "time_to_quality"),
        tables=[
            *quality_tables(found),
            *([Table.of("Left out", columns("text", "method", "reason"), found.refused)] if found.refused else []),
        ],
        provenance=provenance(
            {"sparsim": versions()["sparsim"]},
            digest=found.digest or "",
            tasks=", ".join(f"{task.name} ({task.elements:,} elements)" for task in found.tasks),
        ),
    )


_LABELS = {"build_up": "build-up"}
_KINDS = {"selected": "percent", "aggregated": "percent", "independent": "percent", "workers": "count"}


def build_up_page(source: Source) -> Page:
    """How the selections of the workers add up, and how uneven they are."""
    charts = charts_of(source, "build_up", "padding_imbalance")
    if not charts:
        raise InputError(Problem(source.place, "a build-up study or a trace", "nothing that can be shown"))
    tables = []
    if source.kind == "build_up":
        rows = pd.DataFrame(source.document)
        names = [str(name) for name in rows]
        kinds = {name: _KINDS.get(name, "number") for name in names if pd.api.types.is_numeric_dtype(rows[name])}
        columns = [Column(name, _LABELS.get(name, name.replace("_", " ")), kinds.get(name, "text")) for name in names]
        tables = [Table("Every replay", columns, rows.astype(object).where(rows.notna(), None).to_numpy().tolist(),
                        choose=[name for name in ("method", "workers") if name in names])]  # fmt: skip
    return Page(
        title="Gradient build-up",
        subtitle=f"replays of recorded gradients: {source.place}",
        charts=charts,
        tables=tables,
        provenance=provenance({"sparsim": versions()["sparsim"]}),
    )
