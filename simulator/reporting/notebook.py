"""Results as a notebook shows them: plain HTML without scripts, readable on light and on dark pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from simulator.models.terms import TERM_LABELS, split_idle
from simulator.prediction.result import RunResult
from simulator.reporting.answers.advised import MethodAdvice
from simulator.reporting.answers.explained import ExplainedIteration
from simulator.reporting.figures.style.colours import GREY, PHASES
from simulator.units import count_of, show_bytes, show_probability, show_time

_RANKED = 10
_WHOLE = ("time", "share", "opponent", "iteration")
"""Columns whose cells are not wrapped on a narrow page."""
_BOX = "max-width:52em;line-height:1.45;overflow-x:auto"
_BAR = "display:flex;height:1.3em;border:1px solid #8888;border-radius:2px;overflow:hidden"
_TABLE = "border-collapse:collapse;margin-top:.4em;color:inherit;font-size:inherit"
_CELL = "padding:.1em .8em .1em 0;text-align:left;vertical-align:top"
_HATCHED = f"repeating-linear-gradient(45deg,{GREY},{GREY} 4px,#777777 4px,#777777 6px)"


def result_html(result: RunResult) -> str:
    """A run: its time, the bar of its terms above that of its opponent, and the answer."""
    time, (low, high) = result.iteration_time, result.interval
    interval = f" (90 % interval {show_time(low)} to {show_time(high)})" if high > low else ""
    facts = [f"<b>{show_time(time)}</b> an iteration{interval}"]
    if result.throughput is not None and result.scaling_efficiency is not None:
        facts.append(f"{result.throughput:.5g} samples/s on {count_of(result.workers, 'worker')}")
        facts.append(f"efficiency {100 * result.scaling_efficiency:.1f} %")
    facts.append(f"{show_bytes(result.traffic.sent_per_worker)} sent by a worker")
    parts = [_line(f"<b>{escape(result.name)}</b>"), _line("; ".join(facts))]
    terms, comparison = split_idle(result.breakdown, result.idle), result.comparison
    if comparison is None:
        parts += [_bar(terms, time), _legend(terms, time)]
    else:
        others = split_idle(comparison.opponent_breakdown, comparison.opponent_idle)
        longest = max(time, comparison.opponent_time)
        parts += [_bar(terms, longest), _line(escape(comparison.baseline), "font-size:90%;margin-top:.3em")]
        parts += [_bar(others, longest), _legend(terms, time, others)]
        if result.question:
            parts.append(_line(f"<b>{escape(result.question)}</b>", "margin-top:.5em"))
        parts.append(_line(escape(comparison.text)))
    parts += [_line(f"Warning: {escape(text)}", "font-size:90%;opacity:.85") for text in result.warnings[:2]]
    return _box(parts)


def explanation_html(explanation: ExplainedIteration) -> str:
    """An explanation: its summary, and every term with its time and formula."""
    rows = [
        (escape(term.label), show_time(term.seconds), f"{100 * term.share:.1f} %", escape(term.formula))
        for term in explanation.terms
        if term.seconds
    ]
    title = f"<b>{escape(explanation.scenario)}</b>: {show_time(explanation.iteration_time)} an iteration"
    parts = [_line(title), _line(escape(explanation.summary))]
    return _box([*parts, _table(("term", "time", "share", "formula"), rows)])


def advice_html(advice: MethodAdvice) -> str:
    """Advice: the answer, and the best combination of each of the first ten methods."""
    best = [row for row in advice.ranking if row.best_of_method][:_RANKED]
    rows = [
        (
            escape(row.method),
            escape(f"{row.schedule}, {row.topology}"),
            show_time(row.iteration_time),
            "-" if row.speed_up_over_dense is None else f"{row.speed_up_over_dense:.2f}",
            "-" if row.probability is None else show_probability(row.probability),
        )
        for row in best
    ]
    parts = [_line(f"<b>{escape(advice.scenario)}</b>"), _line(escape(advice.answer))]
    head = ("method", "schedule, topology", "iteration", "times as fast as dense", "probability to pay")
    return _box([*parts, _table(head, rows)])


def answer_html(title: str, text: str) -> str:
    """An answer of one paragraph."""
    return _box([_line(f"<b>{escape(title)}</b>")] * bool(title) + [_line(escape(text))])


def _box(parts: Iterable[str]) -> str:
    return f'<div style="{_BOX}">{"".join(parts)}</div>'


def _line(html: str, style: str = "") -> str:
    return f'<div style="{style}">{html}</div>' if style else f"<div>{html}</div>"


def _colour(term: str) -> str:
    """The colour of a term in figures; waiting is hatched, as it is there."""
    return PHASES.get(term, _HATCHED)


def _bar(terms: Mapping[str, float], whole: float) -> str:
    """One stacked bar, whose full width stands for `whole` seconds; texts on hovering and for screen readers."""
    label = "; ".join(f"{TERM_LABELS[term]} {show_time(seconds)}" for term, seconds in terms.items() if seconds)
    pieces = [
        f'<div title="{TERM_LABELS[term]} {show_time(seconds)}" '
        f'style="width:{100 * seconds / whole:.3f}%;background:{_colour(term)}"></div>'
        for term, seconds in terms.items()
        if seconds and whole
    ]
    return f'<div role="img" aria-label="{label}" style="{_BAR}">{"".join(pieces)}</div>'


def _legend(terms: Mapping[str, float], time: float, others: Mapping[str, float] | None = None) -> str:
    """Every term that takes time: its colour, seconds and share, and the seconds of the opponent."""
    rows = []
    for term, seconds in terms.items():
        other = others[term] if others is not None else 0.0
        if not seconds and not other:
            continue
        swatch = f'<span style="display:inline-block;width:.9em;height:.9em;background:{_colour(term)}"></span>'
        share = f"{100 * seconds / time:.1f} %" if time else ""
        row = [f"{swatch} {TERM_LABELS[term]}", show_time(seconds), share]
        rows.append([*row, show_time(other)] if others is not None else row)
    head = ("where the time goes", "time", "share", "opponent")
    return _table(head if others is not None else head[:3], rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already; times and shares stay on one line."""
    top = "".join(f'<th scope="col" style="{_CELL};font-weight:600">{name}</th>' for name in head)
    whole = f"{_CELL};white-space:nowrap"
    styles = [whole if name in _WHOLE else _CELL for name in head]
    lines = (
        "".join(f'<td style="{style}">{cell}</td>' for style, cell in zip(styles, row, strict=True)) for row in rows
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<table style="{_TABLE}"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'
