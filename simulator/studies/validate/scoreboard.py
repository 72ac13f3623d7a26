"""The scoreboard of a validation: errors, coverage and width of intervals, by set-up, whole iterations and overall."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

from simulator.calibration.fits.accuracy import errors_as_dict
from simulator.prediction.measured import WHOLE
from simulator.prediction.result import SHARES
from simulator.reporting.answers.validated import ErrorSummary, ValidationRow

LEVELS = tuple(str(percent) for percent in SHARES)
"""Per cent of cases that the intervals of a row are to hold."""
_MOSTLY = 0.5
NARROW = 0.2
"""Half-width of a 90 % interval, over the prediction, below which a row decides something."""


def scoreboard(
    rows: Sequence[ValidationRow],
) -> tuple[dict[str, ErrorSummary], ErrorSummary, ErrorSummary, ErrorSummary]:
    """Errors of rows that no constant was fitted to: by set-up, of whole iterations, of those whose doubt rests by more
    than half on measured inputs and on the model itself, and overall."""
    groups = sorted({str(row["group"]) for row in rows})
    counted = [row for row in rows if not row["used_in_fit"]]
    whole = [row for row in counted if row["quantity"] in WHOLE]
    return (
        {name: errors_of([row for row in counted if row["group"] == name]) for name in groups},
        errors_of(whole),
        errors_of([row for row in whole if row["measured_share"] > _MOSTLY]),
        errors_of(counted),
    )


def errors_of(rows: Sequence[ValidationRow]) -> ErrorSummary:
    """The errors of rows, all of which count; coverage and width are those of the rows with intervals."""
    signed = [row["signed_error"] for row in rows]
    figures: dict[str, Any] = errors_as_dict(signed) or {}
    trivial = [abs(row["baseline_signed_error"]) for row in rows if row["baseline_signed_error"] is not None]
    judged = [row for row in rows if row["intervals"] is not None]
    figures |= {f"coverage_{level}": _mean([_is_inside(row, level) for row in judged]) for level in LEVELS}
    narrow = [_is_inside(row, "90") for row in judged if _half_width(row) < NARROW]
    figures["narrow_coverage_90"] = _mean(narrow)
    half_width = median(_half_width(row) for row in judged) if judged else None
    return ErrorSummary(baseline_mape=_mean(trivial), half_width=half_width, **figures)


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _is_inside(row: ValidationRow, level: str) -> bool:
    low, high = row["intervals"][level]
    return bool(low <= row["measured"] <= high)


def _half_width(row: ValidationRow) -> float:
    low, high = row["intervals"]["90"]
    return float((high - low) / 2 / row["predicted"])
