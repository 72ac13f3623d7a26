"""Time to quality in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from simulator.records import asdict, replace
from simulator.reporting.answers.trained import MethodTime, SettingSteps, TrainingLaw, TrainingQuality
from simulator.reporting.wording.blocks import PRINTED, Block, Table, Text, columns, texts
from simulator.units import show_time

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
FRONT = (
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
        yield Table.of(f"Time to {found.target}", shown, map(_method, found.methods), note=FRONT)
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
