"""One iteration over time, as SVG that fits any width and needs no script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from simulator.models.terms import TERM_LABELS
from simulator.models.timeline import Span, merge_intervals
from simulator.reporting.page.drawings import choose_ticks, lane, rectangle, time_axis
from simulator.units import join_words, show_time

_FINEST = 1 / 1500
"""Gaps below this share of the width are not drawn."""


def draw_timeline(runs: Sequence[tuple[str, Sequence[Span]]]) -> Markup:
    """Tracks of one iteration of each run on one scale: what its slowest worker computes, and when it communicates.

    The page needs the style sheets `theme.css` and `drawings.css` of reports.
    """
    longest = max([1e-12, *(span.end for _, spans in runs for span in spans)])
    lanes = Markup("").join(lane for name, spans in runs for lane in _lanes(name, spans, longest))
    return Markup('<div class="drawing">{}{}</div>').format(lanes, time_axis(choose_ticks(longest), longest))


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
