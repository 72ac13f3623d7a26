"""The page of a validation."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.reporting.answers.validated import ValidatedModel, ValidationRow
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.page.charts import chart_of_settings
from simulator.reporting.page.parts import Page, provenance
from simulator.reporting.wording.validation_tables import validation_tables
from simulator.reporting.wording.values import format_value
from simulator.units import count_of

_QUANTITIES = "quantity"


def validation_page(source: Source) -> Page:
    """Errors overall and by set-up, the figure for each quantity, and every row."""
    found: ValidatedModel = source.document
    rows, whole = found.rows, found.iterations
    quantities = list(dict.fromkeys(str(row["quantity"]) for row in rows if row["unit"] == "s"))
    chart = chart_of_settings(
        "measured_predicted", source, _QUANTITIES, {name.replace("_", " "): {"quantity": name} for name in quantities}
    )
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
        warnings=_warnings(rows),
        charts=[chart] if chart is not None else [],
        tables=list(validation_tables(found))[::-1],
        provenance=provenance(found.versions),
    )


def _warnings(rows: Sequence[ValidationRow]) -> list[str]:
    """Each warning once, with its number of scenarios."""
    scenarios: dict[str, set[str]] = {}
    for row in rows:
        for warning in row.get("warnings") or ():
            scenarios.setdefault(warning, set()).add(row["scenario"])
    return [f"{warning} ({count_of(len(names), 'scenario')})" for warning, names in scenarios.items()]
