"""A validation in blocks, all of them tables: its errors by set-up, and every measured value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simulator.answers import Answer
from simulator.prediction.result import SHARES
from simulator.records import asdict
from simulator.reporting.answers.validated import ValidatedModel, ValidationRow
from simulator.reporting.wording.blocks import Column, Table, markdown_table

ERRORS = (
    Column("group", "set-up"),
    Column("n", "rows", "count"),
    Column("mape", "MAPE", "size", "mean absolute relative error"),
    Column("baseline_mape", "trivial sum", "size", "MAPE of a sum that needs no simulator, on the rows that have one"),
    Column("median_ape", "median", "size", "median absolute relative error"),
    Column("max_ape", "max", "size", "largest absolute relative error"),
    Column("bias", "bias", "error", "mean signed relative error"),
    *(
        Column(f"coverage_{level}", f"in {level} %", "size", f"share of iterations inside the {level} % interval")
        for level in SHARES
    ),
    Column("half_width", "half-width", "size", "median of half the width of the 90 % interval over the prediction"),
)


def _row_columns(kind: str) -> tuple[Column, ...]:
    """Columns of measured values, which are all times or all shares."""
    return (
        Column("scenario", "scenario"),
        Column("quantity", "quantity"),
        Column("measured", "measured", kind),
        Column("predicted", "predicted", kind),
        Column("signed_error", "error", "error", "predicted / measured - 1"),
        Column("baseline_signed_error", "trivial sum", "error", "the same error of a sum that needs no simulator"),
        Column("two formulas", "two formulas", "error", "that of FLOP over a share of peak and bytes over bandwidth"),
        Column("used_in_fit", "fit", "fitted", "a term of the model was fitted to it, so it is no prediction"),
    )


_SIGNS = (
    Column("scenario", "scenario"),
    Column("against", "against", "text", "the fastest measured dense row of the same set-up"),
    Column("measured_speed_up", "measured speed-up", "number", "time of the dense row over that of the compressed one"),
    Column("predicted_speed_up", "predicted speed-up", "number"),
    Column("measured_pays", "pays, measured", "yes", "none where the measured times differ by 1 % at most"),
    Column("predicted_pays", "pays, predicted", "yes"),
    Column("used_in_fit", "fit", "fitted", "a term of the model was fitted to one of the two rows"),
)
_SIGN_SUMS = (
    ERRORS[0],
    Column("pairs", "pairs", "count", "compressed rows with a dense one of their set-up"),
    Column("used_in_fit", "fitted", "count", "pairs with a row that was used in fitting, which do not count"),
    Column("neither", "within 1 %", "count", "pairs whose measured times differ by 1 % at most, which do not count"),
    Column("n", "counted", "count"),
    Column("right", "right", "count", "pairs whose faster row is predicted to be the faster one"),
    Column("share", "share", "size", "right over counted"),
)
_PROBABILITIES = (
    Column("low", "from", "share", "bounds of the stated probability that compression pays"),
    Column("high", "below", "share"),
    Column("n", "pairs", "count"),
    Column("stated", "stated", "share", "mean of their probabilities"),
    Column("observed", "pays", "share", "share of them for which it was measured to pay"),
)
_FORMULAS = (
    ERRORS[0],
    Column("formula", "by"),
    Column("n", "rows", "count"),
    ERRORS[4],
    ERRORS[2],
    ERRORS[5],
    Column("source", "formula"),
)
_DETAILS = (
    Column("warnings", "warnings"),
    Column("digest", "digest", "text", "identity of the resolved scenario"),
)


def accuracy_markdown(found: ValidatedModel) -> str:
    """The errors per group as a Markdown table, for the documentation: computed each time that it is built."""
    return markdown_table(_errors(found))


def validation_tables(found: ValidatedModel, brief: bool = False) -> Iterator[Table]:
    """Every measured value, every sign, and the sums by set-up; `brief` leaves out set-ups, warnings and digests."""
    for title, kind, unit in (("Every measured time", "time", "s"), ("Every measured density", "share", "")):
        rows = [{**row, **_shorten(row)} for row in found.rows if row["unit"] == unit]
        columns = _row_columns(kind) if brief else (ERRORS[0], *_row_columns(kind), *_DETAILS)
        shown = [column for column in columns if any(column.key in row for row in rows)]
        if rows:
            yield Table.of(title, shown, rows, choose=() if brief else ("group", "quantity"))
    if found.signs:
        columns = _SIGNS if brief else (ERRORS[0], *_SIGNS)
        yield Table.of("Whether compression pays", columns, found.signs, choose=() if brief else ("group",))
        sums = found.signs_summary
        yield Table.of("Whether compression pays, by set-up", _SIGN_SUMS, _summed(sums.groups, overall=sums.overall))
        if sums.probabilities:
            yield Table.of("Stated probabilities that compression pays", _PROBABILITIES, sums.probabilities)
    if found.formulas:
        yield Table.of("By closed formulas, without rows used in fitting", _FORMULAS, found.formulas)
    yield _errors(found)


def _errors(found: ValidatedModel) -> Table:
    """Errors of each set-up, of whole iterations and of all rows that were not used in fitting."""
    others = {"whole iterations": found.iterations, "of these on measured parts": found.on_measured}
    rows = _summed(found.groups, **others, overall=found.overall)
    return Table.of("Errors by set-up, without rows used in fitting", ERRORS, rows)


def _summed(groups: Mapping[str, Answer], **others: Answer) -> list[Mapping[str, Any]]:
    """A row for each of the groups, and for each of the other sums."""
    return [{"group": name, **asdict(each)} for name, each in {**groups, **others}.items()]


def _shorten(row: ValidationRow) -> Mapping[str, object]:
    short: dict[str, object] = {"quantity": str(row["quantity"]).replace("_", " ")}
    short |= row.get("formula_errors", {})
    if row.get("digest"):
        short["digest"] = str(row["digest"])[:12]
    if "warnings" in row:
        short["warnings"] = len(row["warnings"])
    return short
