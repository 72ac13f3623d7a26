"""The tables of a validation: its errors by set-up, and every measured value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from simulator.reporting.wording.tables import Column, Table

ERRORS = (
    Column("group", "set-up"),
    Column("n", "rows", "count"),
    Column("mape", "MAPE", "size", "mean absolute relative error"),
    Column("median_ape", "median", "size", "median absolute relative error"),
    Column("p95_ape", "p95", "size", "95th percentile of the absolute relative error"),
    Column("max_ape", "max", "size", "largest absolute relative error"),
    Column("bias", "bias", "error", "mean signed relative error"),
    Column("coverage", "in interval", "size", "share of measured values inside the 90 % interval"),
)
_ROWS = (
    Column("scenario", "scenario"),
    Column("quantity", "quantity"),
    Column("measured", "measured", "time"),
    Column("predicted", "predicted", "time"),
    Column("signed_error", "error", "error", "predicted / measured - 1"),
    Column("baseline_signed_error", "trivial sum", "error", "the same error of a sum that needs no simulator"),
    Column("used_in_fit", "fit", "fitted", "a term of the model was fitted to it, so it is no prediction"),
)
_DETAILS = (
    Column("warnings", "warnings"),
    Column("digest", "digest", "text", "identity of the resolved scenario"),
)


def validation_tables(document: dict[str, Any], brief: bool = False) -> Iterator[Table]:
    """Every measured value, and the errors by set-up; `brief` leaves out set-ups, warnings and digests of values."""
    rows = [row | _shorten(row) for row in document["rows"]]
    columns = _ROWS if brief else (ERRORS[0], *_ROWS, *_DETAILS)
    shown = [column for column in columns if any(column.key in row for row in rows)]
    yield Table.of("Every measured value", shown, rows, choose=() if brief else ("group", "quantity"))
    yield Table.of("Errors by set-up, without rows used in fitting", ERRORS, error_rows(document))


def error_rows(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Errors of each set-up, of whole iterations and of all rows that were not used in fitting."""
    overall = document["overall"]
    sums = {"whole iterations": document.get("iterations", overall), "overall": overall}
    return [{"group": name, **errors} for name, errors in (document["groups"] | sums).items()]


def _shorten(row: dict[str, Any]) -> dict[str, Any]:
    short: dict[str, Any] = {"quantity": str(row["quantity"]).replace("_", " ")}
    if row.get("digest"):
        short["digest"] = str(row["digest"])[:12]
    if "warnings" in row:
        short["warnings"] = len(row["warnings"])
    return short
