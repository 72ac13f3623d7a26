"""Bars and timelines as values for SVG: places in percent of the width, so that texts keep their size."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from simulator.models.terms import BREAKDOWN, TERM_LABELS
from simulator.models.timeline import Span, merge_intervals
from simulator.units import join_words, show_time

_FINEST = 1 / 1500
"""Gaps below this share of the width are not drawn."""
_TICKS = 6


@dataclass(frozen=True, slots=True)
class Piece:
    """A rectangle from `x`, `width` wide, in percent, in the colour of a term; that of idle time is hatched."""

    x: str
    width: str
    term: str
    title: str


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar with its name and what stands behind it; `interval`: the ends of its 90 % interval in percent."""

    name: str
    value: str
    pieces: tuple[Piece, ...]
    interval: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Axis:
    """Ticks of an axis of time: places in percent, and labels."""

    ticks: tuple[tuple[str, str], ...]


def breakdown_bars(runs: Sequence[tuple[str, dict[str, float], Sequence[float]]]) -> tuple[list[Bar], Axis]:
    """A bar for each run: its name, its terms (s) and its 90 % interval (s)."""
    longest = max([1e-12, *(max(sum(terms.values()), interval[1]) for _, terms, interval in runs)])
    bars = []
    for name, terms, (low, high) in runs:
        whole, at, pieces = sum(terms.values()), 0.0, []
        for term in BREAKDOWN:
            seconds = terms[term]
            if seconds > 0:
                title = f"{TERM_LABELS[term]}: {show_time(seconds)}, {100 * seconds / whole:.1f} %"
                pieces.append(_piece(at, seconds, longest, term, title))
                at += seconds
        ends = (_percent(low / longest), _percent(high / longest)) if high > low else None
        said = f"{show_time(whole)} ({show_time(low)} to {show_time(high)})" if ends else show_time(whole)
        bars.append(Bar(name, said, tuple(pieces), ends))
    return bars, axis_to(longest)


def legend_of(runs: Sequence[dict[str, float]]) -> list[tuple[str, str]]:
    """Each term that any of the runs has, with its label."""
    return [(term, TERM_LABELS[term]) for term in BREAKDOWN if any(terms[term] > 0 for terms in runs)]


def timeline_tracks(runs: Sequence[tuple[str, Sequence[Span]]]) -> tuple[list[Bar], Axis]:
    """Tracks of one iteration of each run on one scale: what its slowest worker computes, and when it communicates."""
    longest = max([1e-12, *(span.end for _, spans in runs for span in spans)])
    bars: list[Bar] = []
    for name, spans in runs:
        compute = [span for span in spans if span.stream == "compute"]
        exchange = [span for span in spans if span.stream == "communication"]
        kernels = [span for span in spans if span.stream not in ("compute", "communication")]
        bars.append(Bar(name, "computes", tuple(_compute_pieces(compute, longest))))
        if exchange:
            bars.append(
                Bar(
                    "", "communicates", tuple(_busy_pieces(exchange, longest, "communication_exposed", "communication"))
                )
            )
        if kernels:
            bars.append(Bar("", "kernels of exchanges", tuple(_busy_pieces(kernels, longest, "combine", "kernel"))))
    return bars, axis_to(longest)


def _compute_pieces(spans: Sequence[Span], longest: float) -> Iterable[Piece]:
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
        yield _piece(start, end - start, longest, term or "idle", title)


def _busy_pieces(spans: Sequence[Span], longest: float, term: str, label: str) -> Iterable[Piece]:
    fine = _FINEST * longest
    for start, end in merge_intervals((span.start, span.end + fine) for span in spans):
        until = max(start, end - fine)
        title = f"{label}: {show_time(start)} to {show_time(until)}"
        yield _piece(start, max(until - start, fine), longest, term, title)


def axis_to(longest: float) -> Axis:
    """An axis from 0 with about six ticks at multiples of 1, 2 or 5."""
    power = 10 ** math.floor(math.log10(longest / _TICKS))
    step = next(factor * power for factor in (1, 2, 5, 10) if longest / (factor * power) <= _TICKS)
    count = math.floor(longest / step * (1 + 1e-9))
    return Axis(tuple((_percent(place * step / longest), show_time(place * step)) for place in range(count + 1)))


def _piece(start: float, seconds: float, longest: float, term: str, title: str) -> Piece:
    return Piece(_percent(start / longest), _percent(seconds / longest), term, title)


def _percent(share: float) -> str:
    return f"{100 * share:.3f}%"
