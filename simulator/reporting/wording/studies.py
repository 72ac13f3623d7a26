"""Studies in blocks: a plan backwards, time to quality, and a validation, which is all tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simulator.answers import Answer
from simulator.prediction.result import SHARES
from simulator.records import asdict, replace
from simulator.reporting.answers.planned import BackwardsPlan, UnknownNeeded
from simulator.reporting.answers.trained import MethodTime, SettingSteps, TrainingLaw, TrainingQuality
from simulator.reporting.answers.validated import ValidatedModel, ValidationRow
from simulator.reporting.wording.blocks import PRINTED, Block, Column, Table, Text, columns, markdown_table, texts
from simulator.scenario.bandwidths import NIC, WORDS
from simulator.units import show_minutes, show_time

_UNKNOWNS = WORDS | {
    NIC: "bandwidth",
    "cluster.nodes": "nodes",
    "scheduler.inner_steps": "local steps",
    "sparsifier.density": "density",
}


def plan_blocks(plan: BackwardsPlan) -> Iterator[Block]:
    """The target, what is needed of each unknown, and the measurement that would narrow the answers most."""
    target, now = plan.target, plan.now
    bound = "met" if now.met else "not met"
    yield Text(f"{plan.scenario}: {target.text}", "title")
    yield f"As it is: {now.shown}, against {target.against}; the target is {bound}. With all else as it is:"
    yield Table.facts([(_UNKNOWNS[answer.key], _describe_answer(answer)) for answer in plan.answers])
    if plan.note:
        yield Text(plan.note, "note")
    measurement = plan.measurement
    if measurement is not None:
        yield (
            f"To narrow these answers, measure {measurement.what} (about {show_minutes(measurement.minutes)}): "
            f"{100 * measurement.share:.0f} % of the doubt."
        )
        yield Text(f"  {measurement.command}", "command")


def _describe_answer(answer: UnknownNeeded) -> str:
    """What an unknown has to be, in words."""
    now = f"(now {answer.now_shown})"
    if answer.status == "refused":
        return f"no value could be run: {answer.reason}"
    if answer.status == "always":
        return f"any value that was tried meets it {now}"
    if answer.status == "never":
        why = f"; {answer.reason}" if answer.reason else ""
        return f"no value tried meets it: at best {answer.best_reached_shown}, with {answer.best_shown} {now}{why}"
    low, high = answer.interval_shown or (None, None)
    ends = f"{low or 'below what was tried'} to {high or 'above what was tried'}"
    text = f"at {'least' if answer.upwards else 'most'} {answer.needed_shown} {now}; 90 % interval {ends}"
    return text + ("; it is met and missed in turn elsewhere" if answer.again else "")


_METHODS = (
    *columns("text", "method"),
    *columns("count", iterations_to_target="iterations"),
    *columns("figure", interval="90 % interval"),
    *columns("number", iterations_over_dense="of dense"),
    *columns("time", iteration_time="iteration", time_to_target="to target"),
    *columns("figure", time_interval="90 % interval"),
    *columns("number", "cost"),
    *columns("figure", speed_up="against dense"),
    *columns("probability", probability="pays"),
    *columns("yes", pareto="front"),
)
_SETTINGS = (
    *columns("text", "method", "task"),
    *columns("count", "workers", batch_size="batch"),
    *columns("count", iterations_to_target="iterations"),
    *columns("figure", interval="90 % interval", seeds="seeds that reached it"),
)
_LAWS = (
    *columns("text", "method", "task", form="iterations, B = workers x batch"),
    *columns("figure", "factors", "density", "workers", batch_size="batch", left_out="settings left out"),
)
_FRONT = (
    "Over dense: iterations over those of dense. Against dense: how many times faster to the target, with the 90 % "
    "interval. Pays: probability that it is faster. Front: no other method needs fewer iterations and less time for "
    "each, so that it may be the fastest one on another network."
)


def quality_blocks(found: TrainingQuality) -> Iterator[Block]:
    """The answer, where there is a scenario; the tables; warnings and notes."""
    if found.scenario is not None:
        yield Text(found.scenario, "title")
        yield found.answer or ""
        yield f"The opponent is {found.opponent}."
        yield ""
    for table in quality_tables(found):
        yield replace(table, most=PRINTED)
        if table.note:
            yield Text(table.note, "dim")
        yield ""
    yield from texts((f"left out {item.method}: {item.reason}" for item in found.refused or ()), "dim")
    yield from texts(found.warnings or (), "warning")
    yield from texts(found.notes, "note")


def quality_tables(found: TrainingQuality) -> Iterator[Table]:
    """The methods on the scenario's cluster, where there is one, else what every setting took; then the laws."""
    if found.methods is not None:
        shown = [item for item in _METHODS if item.key != "cost" or found.methods[0].cost is not None]
        yield Table.of(f"Time to {found.target}", shown, map(_method, found.methods), note=_FRONT)
    else:
        yield Table.of(f"Iterations to {found.target}", _SETTINGS, map(_setting, found.settings))
    if found.laws:
        note = "Settings left out: the middle factor between measured and predicted, and how many intervals hold."
        yield Table.of("Laws, inside of what was run", _LAWS, map(_law, found.laws), note=note)


def _method(item: MethodTime) -> Mapping[str, object]:
    low, high = item.speed_up_interval
    judged = item.verdict is not None
    return {
        **asdict(item),
        "interval": _whole(item.iterations_to_target_interval),
        "time_interval": _times(item.time_to_target_interval),
        "speed_up": f"{item.speed_up_over_dense:.2f}" + (f" ({low:.2f} to {high:.2f})" if judged else ""),
    }


def _setting(item: SettingSteps) -> Mapping[str, object]:
    ends = item.iterations_to_target_interval
    interval = f"not within {item.iterations_run}" if ends is None else _whole(ends)
    return {**asdict(item), "interval": interval, "seeds": f"{item.reached} of {item.trained}"}


def _law(law: TrainingLaw) -> Mapping[str, object]:
    left, factors = law.left_out, ", ".join(f"{name} {value:.3g}" for name, value in law.factors.items())
    errors = f"{left.settings}: x {left.median_factor:.3f}, {left.inside} hold" if left.settings else "none"
    return {
        **asdict(law),
        "factors": factors,
        **{name: _range(ends) for name, ends in law.range.items()},
        "left_out": errors,
    }


def _whole(interval: Sequence[float]) -> str:
    return " to ".join(f"{end:,.0f}" for end in interval)


def _times(interval: Sequence[float]) -> str:
    """Both ends, with the unit once where it is the same."""
    low, high = map(show_time, interval)
    number, _, unit = low.rpartition(" ")
    return f"{number if high.endswith(f' {unit}') else low} to {high}"


def _range(ends: Sequence[float]) -> str:
    low, high = ends
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


_ERRORS = (
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
    _ERRORS[0],
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
    _ERRORS[0],
    Column("formula", "by"),
    Column("n", "rows", "count"),
    _ERRORS[4],
    _ERRORS[2],
    _ERRORS[5],
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
        heads = _row_columns(kind) if brief else (_ERRORS[0], *_row_columns(kind), *_DETAILS)
        shown = [column for column in heads if any(column.key in row for row in rows)]
        if rows:
            yield Table.of(title, shown, rows, choose=() if brief else ("group", "quantity"))
    if found.signs:
        heads = _SIGNS if brief else (_ERRORS[0], *_SIGNS)
        yield Table.of("Whether compression pays", heads, found.signs, choose=() if brief else ("group",))
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
    return Table.of("Errors by set-up, without rows used in fitting", _ERRORS, rows)


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
