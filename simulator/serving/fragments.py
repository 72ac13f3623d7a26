"""Pieces of the page as HTML: the form, the answer with its timeline, the difference of two scenarios, and the map."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup, escape

from simulator.models.timeline import TERM_LABELS, Span, merge_intervals
from simulator.prediction.result import RunResult
from simulator.reporting.answers.compared import RunDifferences
from simulator.reporting.page.drawings import draw_lanes, draw_term_bars, lane, rectangle
from simulator.reporting.page.pages.run_page import LINKS, bars_of, terms_table
from simulator.reporting.page.theme import make_environment
from simulator.reporting.wording.blocks import Table, columns, describe
from simulator.reporting.wording.comparison import fact_lines, shorten
from simulator.reporting.wording.runs import decisive_table, describe_memory, first_facts, run_facts
from simulator.reporting.wording.values import format_value
from simulator.serving.forms import show_value
from simulator.units import join_words, show_bandwidth, show_time

_FINEST = 1 / 1500
"""Gaps below this share of the width are not drawn."""


def draw_timeline(runs: Sequence[tuple[str, Sequence[Span]]]) -> Markup:
    """Tracks of one iteration of each run on one scale: what its slowest worker computes, and when it communicates.

    The page needs the style sheets `theme.css` and `drawings.css` of reports.
    """
    longest = max([1e-12, *(span.end for _, spans in runs for span in spans)])
    return draw_lanes((lane for name, spans in runs for lane in _lanes(name, spans, longest)), longest)


def _lanes(name: str, spans: Sequence[Span], longest: float) -> Iterable[Markup]:
    compute = [span for span in spans if span.stream == "compute"]
    exchange = [span for span in spans if span.stream == "communication"]
    kernels = [span for span in spans if span.stream not in ("compute", "communication")]
    yield lane(name, "computes", _compute_pieces(compute, longest))
    if exchange:
        yield lane("", "communicates", _busy_pieces(exchange, longest, "communication_exposed", "communication"))
    if kernels:
        yield lane("", "kernels of exchanges", _busy_pieces(kernels, longest, "combine", "kernel"))


def _compute_pieces(spans: Sequence[Span], longest: float) -> Iterable[Markup]:
    """One piece for each stretch of one term; what is too short to see is joined, in the colour of its longest term."""
    joined: list[tuple[dict[str, float], float, float]] = []
    for span in spans:
        if not span.duration:
            continue
        if joined and (set(joined[-1][0]) == {span.term} or joined[-1][2] - joined[-1][1] < _FINEST * longest):
            seconds, start, _ = joined[-1]
            seconds[span.term] = seconds.get(span.term, 0.0) + span.duration
            joined[-1] = (seconds, start, span.end)
        else:
            joined.append(({span.term: span.duration}, span.start, span.end))
    for seconds, start, end in joined:
        term = max(seconds, key=lambda name: seconds[name])
        labels = [TERM_LABELS.get(name, name or "other work") for name in seconds]
        title = f"{join_words(labels)}: {show_time(start)} to {show_time(end)}"
        yield rectangle(f"term-{term or 'idle'}", start / longest, (end - start) / longest, title)


def _busy_pieces(spans: Sequence[Span], longest: float, term: str, label: str) -> Iterable[Markup]:
    fine = _FINEST * longest
    for start, end in merge_intervals((span.start, span.end + fine) for span in spans):
        until = max(start, end - fine)
        title = f"{label}: {show_time(start)} to {show_time(until)}"
        yield rectangle(f"term-{term}", start / longest, max(until - start, fine) / longest, title)


_ASSETS = files("simulator.serving") / "assets"
_REPORTS = files("simulator.reporting.page") / "assets"
SHARED = ("theme.css", "drawings.css")
"""Files of reports that the page uses, too: colours and drawings."""
_STEPS = (1.05, 1.2, 1.5, 2.5)
"""Ratios from which a cell of the map is one shade darker."""
_INTERVAL = "90 % interval"
"""What every interval is called, in sentences, figures at a glance and drawings."""
_COMPARED = ("iteration", "where the time goes", "traffic")


def asset(name: str) -> str:
    """The text of one of the page's files."""
    return ((_REPORTS if name in SHARED else _ASSETS) / name).read_text(encoding="utf-8")


def render(name: str, **values: Any) -> str:
    """One of the page's templates with its values."""
    return _environment().get_template(f"{name}.html.j2").render(values)


def render_answer(result: RunResult, spans: Sequence[Sequence[Span]], final: bool) -> str:
    """The answer: the verdict, figures at a glance, terms, timeline, traffic and warnings of a result.

    `spans`: those of the scenario and of what it is compared with. Until the answer is `final`, every interval is
    called one of first order.
    """
    bars = bars_of(result, "this scenario")
    made = render(
        "answer",
        result=result,
        comparison=result.comparison,
        final=final,
        glance=list(first_facts(result)),
        terms=terms_table(result),
        bars=draw_term_bars(bars),
        timeline=draw_timeline([(bar.name, made) for bar, made in zip(bars, spans, strict=False)]),
        sent=[f"{name}: {text}" for name, text in run_facts(result) if name in ("traffic", "density")],
        links=Table.of("Busiest links", LINKS, result.links or []),
        worth=decisive_table(result.comparison),
        memory=describe_memory(result.memory) if result.memory is not None else "",
    )
    return made if final else made.replace(_INTERVAL, f"first-order {_INTERVAL}")


def render_difference(found: RunDifferences) -> str:
    """What differs between two scenarios."""
    inputs = [[item.key, *(shorten(show_value(value)) for value in (item.a, item.b))] for item in found.inputs.told]
    changed = [item for item in found.figures if item.group in _COMPARED and item.difference]
    rows: list[list[str]] = []
    for item in changed:
        about, change = describe(item.key), f"{100 * (item.ratio - 1):+.3g} %" if item.ratio else "-"
        rows.append([about.label, *(format_value(about.kind, value, "-") for value in (item.a, item.b)), change])
    tables = [
        Table("Inputs that differ", columns("text", "key", "A", "B"), inputs),
        Table("Results that differ", (*columns("text", "result"), *columns("number", "A", "B", "change")), rows),
    ]
    return render("difference", found=found, facts=fact_lines(found), tables=tables)


MapPlace = tuple[int, float]
"""Nodes and bandwidth."""
MapCell = Mapping[str, str]
"""A cell of the map: its text, title and classes."""
REFUSED: MapCell = {"text": "–", "title": "cannot run here", "class": "refused"}
_WAITS: MapCell = {"text": "", "title": "", "class": "waits"}


def render_map(
    bandwidths: Sequence[float], nodes: Sequence[int], cells: Mapping[MapPlace, MapCell], here: MapPlace
) -> str:
    """The map so far, the most nodes on top; the scenario is `here`."""
    rows = [[(count, rate) for rate in bandwidths] for count in reversed(nodes)]
    drawn = [(row[0][0], [{**cells.get(place, _WAITS), "here": place == here} for place in row]) for row in rows]
    return render("map", heads=[*map(show_bandwidth, bandwidths)], rows=drawn)


def describe_cell(time: float, other: float, verdict: str, rival: str) -> MapCell:
    """How many times faster the method is than the fastest dense run, by the seconds of an iteration."""
    if math.isinf(max(time, other)):
        return {**REFUSED, "title": "never ends, with this method or with dense"}
    speed_up = other / time
    ratio, side = max(speed_up, 1 / speed_up), "faster" if speed_up >= 1 else "slower"
    words = {"undecided": ", not decided", "alike": ", no difference"}.get(verdict, "")
    return {
        "text": f"{speed_up:.2f}" if speed_up < 9.995 else f"{speed_up:.0f}",
        "title": f"{ratio:.2f} times {side}: {show_time(time)}, {rival}: {show_time(other)}{words}",
        "class": f"{side} shade-{sum(ratio >= step for step in _STEPS)}{' undecided' if words else ''}",
    }


def mark_code(text: str) -> Markup:
    """A text of the terminal as HTML: what stands between backticks is code.

    >>> mark_code("use `a < b`")
    Markup('use <code>a &lt; b</code>')
    """
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))


@cache
def _environment() -> jinja2.Environment:
    return make_environment(asset, cell=lambda value, kind: format_value(kind, value), words=mark_code)
