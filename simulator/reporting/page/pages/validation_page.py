"""The page of a validation."""

from __future__ import annotations

from typing import Any

from simulator.reporting.figures.data.sources import Source
from simulator.reporting.page.charts import chart_of_settings
from simulator.reporting.page.pages.run_page import provenance
from simulator.reporting.page.parts import Page
from simulator.reporting.wording.tables import Column, Table
from simulator.reporting.wording.values import format_value
from simulator.units import count_of

_ERRORS = (
    Column("group", "set-up"),
    Column("n", "rows", "count"),
    Column("mape", "MAPE", "share", "mean absolute relative error"),
    Column("median_ape", "median", "share", "median absolute relative error"),
    Column("p95_ape", "95th percentile", "share"),
    Column("max_ape", "largest", "share"),
    Column("bias", "bias", "error", "mean signed relative error"),
    Column("coverage", "inside the interval", "share", "share of measured values inside the 90 % interval"),
)
_ROWS = (
    Column("group", "set-up"),
    Column("scenario", "scenario"),
    Column("quantity", "quantity"),
    Column("measured", "measured", "time"),
    Column("predicted", "predicted", "time"),
    Column("signed_error", "error", "error", "predicted / measured - 1"),
    Column(
        "baseline_signed_error", "error of the trivial sum", "error", "the same error of a sum that needs no simulator"
    ),
    Column("used_in_fit", "used in fit", "yes", "a term of the model was fitted to it, so it is no prediction"),
    Column("warnings", "warnings", "text"),
    Column("digest", "digest", "text", "identity of the resolved scenario"),
)
_QUANTITIES = "quantity"


def validation_page(source: Source) -> Page:
    """Errors overall and by set-up, the figure for each quantity, and every row."""
    document: dict[str, Any] = source.document
    rows, overall = document["rows"], document["overall"]
    whole = document.get("iterations", overall)
    quantities = list(dict.fromkeys(str(row["quantity"]) for row in rows))
    chart = chart_of_settings(
        "measured_predicted", source, _QUANTITIES, {name.replace("_", " "): {"quantity": name} for name in quantities}
    )
    fitted = sum(bool(row["used_in_fit"]) for row in rows)
    groups = [{"group": name, **errors} for name, errors in document["groups"].items()]
    groups += [{"group": "whole iterations", **whole}, {"group": "overall", **overall}]
    shown = [column for column in _ROWS if any(column.key in row for row in rows)]
    return Page(
        title="Predicted against measured",
        subtitle=f"a validation: {len(rows)} measured values in {len(document['groups'])} set-ups",
        glance=[
            ("whole iterations: mean absolute error", format_value("share", whole["mape"])),
            ("median", format_value("share", whole["median_ape"])),
            ("95th percentile", format_value("share", whole["p95_ape"])),
            ("bias", format_value("error", whole["bias"])),
            ("whole iterations predicted", f"{whole['n']}"),
            ("all predictions", f"{overall['n']}"),
            ("rows used in fitting, not counted", f"{fitted}"),
        ],
        warnings=_warnings(rows),
        charts=[chart] if chart is not None else [],
        tables=[
            Table.of("Errors by set-up", _ERRORS, groups,
                     note="Rows that were used in fitting are not counted."),
            Table("Every measured value", shown, [[_value(row, column.key) for column in shown] for row in rows],
                  choose=("group", "quantity")),
        ],
        provenance=provenance(document),
    )  # fmt: skip


def _value(row: dict[str, Any], key: str) -> Any:
    value = row.get(key)
    if key == "digest" and value:
        return str(value)[:12]
    if key == "quantity":
        return str(value).replace("_", " ")
    return len(value) if isinstance(value, list) else value


def _warnings(rows: list[dict[str, Any]]) -> list[str]:
    """Each warning once, with its number of scenarios."""
    scenarios: dict[str, set[str]] = {}
    for row in rows:
        for warning in row.get("warnings") or ():
            scenarios.setdefault(warning, set()).add(row["scenario"])
    return [f"{warning} ({count_of(len(names), 'scenario')})" for warning, names in scenarios.items()]
