"""Results as a notebook shows them: plain HTML without scripts, readable on light and on dark pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from simulator.prediction.result import RunResult
from simulator.reporting.answers.advised import MethodAdvice
from simulator.reporting.answers.explained import ExplainedIteration
from simulator.reporting.figures.style.colours import GREY, PHASES
from simulator.reporting.wording.blocks import Block, Text, texts
from simulator.reporting.wording.runs import TermTimes, terms_of
from simulator.reporting.wording.tables import Table, columns
from simulator.reporting.wording.values import LEFT
from simulator.units import count_of, show_bytes, show_time

_RANKED = 10
_STYLES = {"title": "font-weight:bold", "dim": "font-size:90%;opacity:.85"}
_TABLE = "border-collapse:collapse;margin-top:.4em;color:inherit;font-size:inherit"
_CELL = "padding:.1em .8em .1em 0;text-align:left;vertical-align:top"
_HATCHED = f"repeating-linear-gradient(45deg,{GREY},{GREY} 4px,#777777 4px,#777777 6px)"
_BOX = Markup('<div style="max-width:52em;line-height:1.45;overflow-x:auto">{}</div>')
_BAR = Markup(
    '<div role="img" aria-label="{}" style="display:flex;height:1.3em;border:1px solid #8888;border-radius:2px;'
    'overflow:hidden">{}</div>'
)
_PIECE = Markup('<div title="{}" style="width:{:.3f}%;background:{}"></div>')
_HEAD = Markup('<th scope="col" style="{};font-weight:600">{}</th>')
_DATA = Markup('<td style="{}">{}</td>')
_SWATCH = Markup('<span style="display:inline-block;width:.9em;height:.9em;background:{}"></span> {}')


def result_html(result: RunResult) -> str:
    """A run: its time, the bar of its terms above that of its opponent, and the answer."""
    time, (low, high), comparison = result.iteration_time, result.interval, result.comparison
    interval = f" (90 % interval {show_time(low)} to {show_time(high)})" if high > low else ""
    facts = [Markup("<b>{}</b> an iteration{}").format(show_time(time), interval)]
    if result.throughput is not None and result.scaling_efficiency is not None:
        facts.append(Markup(f"{result.throughput:.5g} samples/s on {count_of(result.workers, 'worker')}"))
        facts.append(Markup(f"efficiency {100 * result.scaling_efficiency:.1f} %"))
    facts.append(Markup(f"{show_bytes(result.traffic.sent_per_worker)} sent by a worker"))
    *terms, sums = terms_of(result)
    longest = max(time, sums.other or 0.0)
    blocks: list[Block] = [Text(result.name, "title"), Markup("; ").join(facts)]
    blocks.append(_draw_bar([(row, row.seconds) for row in terms], longest))
    if comparison is not None:
        blocks.append(Text(comparison.baseline, "dim"))
        blocks.append(_draw_bar([(row, row.other or 0.0) for row in terms], longest))
    blocks.append(_legend(terms, comparison is not None))
    if comparison is not None:
        blocks += [*texts(filter(None, [result.question]), "title"), comparison.text]
    return _html([*blocks, *texts((f"Warning: {text}" for text in result.warnings[:2]), "dim")])


def explanation_html(explanation: ExplainedIteration) -> str:
    """An explanation: its summary, and every term with its time and formula."""
    title = Markup("<b>{}</b>: {} an iteration").format(explanation.scenario, show_time(explanation.iteration_time))
    heads = (*columns("words", label="term"), *columns("time", seconds="time"), *columns("size", "share"))
    terms = (term for term in explanation.terms if term.seconds)
    return _html([title, explanation.summary, Table.of("", (*heads, *columns("words", "formula")), terms)])


def advice_html(advice: MethodAdvice) -> str:
    """Advice: the answer, and the best combination of each of the first ten methods."""
    heads = (
        *columns("words", "method", "schedule, topology"),
        *columns("time", "iteration"),
        *columns("ratio", "times as fast as dense"),
        *columns("probability", "probability to pay"),
    )
    rows = [
        (row.method, f"{row.schedule}, {row.topology}", row.iteration_time, row.speed_up_over_dense, row.probability)
        for row in advice.ranking
        if row.best_of_method
    ]
    return _html([Text(advice.scenario, "title"), advice.answer, Table("", heads, rows[:_RANKED])])


def answer_html(title: str, text: str) -> str:
    """An answer of one paragraph."""
    return _html([*texts(filter(None, [title]), "title"), text])


def _draw_bar(terms: Sequence[tuple[TermTimes, float]], whole: float) -> Markup:
    """One stacked bar, whose full width stands for `whole` seconds; texts on hovering and for screen readers."""
    said = [(row.term, f"{row.label} {show_time(seconds)}", seconds) for row, seconds in terms if seconds]
    pieces = (_PIECE.format(text, 100 * seconds / whole, _colour(term)) for term, text, seconds in said)
    return _BAR.format("; ".join(text for _, text, _ in said), Markup("").join(pieces))


def _colour(term: str) -> str:
    """The colour of a term in figures; waiting is hatched, as it is there."""
    return PHASES.get(term, _HATCHED)


def _legend(terms: Sequence[TermTimes], compared: bool) -> Table:
    """Every term that takes time: its colour, seconds and share, and the seconds of the opponent."""
    heads = (*columns("words", "where the time goes"), *columns("time", "time"), *columns("size", "share"))
    rows = [
        (_SWATCH.format(_colour(row.term), row.label), row.seconds, row.share, row.other)[: len(heads) + compared]
        for row in terms
        if row.seconds or row.other
    ]
    return Table("", (*heads, *columns("time", "opponent")) if compared else heads, rows)


def _html(blocks: Iterable[Block]) -> str:
    """What an answer says as HTML; text that is markup stays as it is."""
    return str(_BOX.format(Markup("").join(map(_block_html, blocks))))


def _block_html(block: Block) -> Markup:
    if isinstance(block, Table):
        return _table(block)
    text, style = (block.text, _STYLES[block.style]) if isinstance(block, Text) else (block, "")
    return Markup('<div style="{}">{}</div>').format(style, text)


def _table(table: Table) -> Markup:
    """A table; figures stay on one line."""
    styles = [_CELL if column.kind in LEFT else f"{_CELL};white-space:nowrap" for column in table.columns]
    head = (_HEAD.format(_CELL, column.label) for column in table.columns)
    rows = (Markup("").join(map(_DATA.format, styles, row)) for row in table.text_rows())
    body = Markup("").join(map(Markup("<tr>{}</tr>").format, rows))
    parts = '<table style="{}"><thead><tr>{}</tr></thead><tbody>{}</tbody></table>'
    return Markup(parts).format(_TABLE, Markup("").join(head), body)
