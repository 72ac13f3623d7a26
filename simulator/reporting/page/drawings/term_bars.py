"""The terms of iterations as bars: SVG that fits any width and needs no script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from simulator.models.timeline import TERM_LABELS, TERMS
from simulator.records import Record
from simulator.reporting.page.drawings import svg
from simulator.reporting.wording.values import format_share
from simulator.units import show_time

_INTERVAL = Markup(
    '<g class="interval"><title>{title}</title><line x1="{low}" x2="{high}" y1="29" y2="29"/>'
    '<line x1="{low}" x2="{low}" y1="25" y2="33"/><line x1="{high}" x2="{high}" y1="25" y2="33"/></g>'
)
_KEY = Markup('<line class="interval" x1="0" x2="100%" y1="6" y2="6"/>')


class Bar(Record):
    """An iteration: its name, seconds of each term (keys of `terms.TERMS`), and its 90 % interval where known."""

    name: str
    terms: Mapping[str, float]
    interval: tuple[float, float] | None = None

    @property
    def time(self) -> float:
        """Seconds of the iteration."""
        return sum(self.terms.values())


def known_interval(ends: Sequence[float] | None) -> tuple[float, float] | None:
    """The ends of an interval; None where they are the same, which is how results say that none is known."""
    return (float(ends[0]), float(ends[1])) if ends is not None and ends[1] > ends[0] else None


def draw_term_bars(bars: Sequence[Bar]) -> Markup:
    """One bar for each iteration on one scale, the first on top, with its interval below it and a legend.

    The page needs `assets/theme.css` and `assets/drawings.css`.
    """
    ends = [max(bar.time, bar.interval[1] if bar.interval else 0.0) for bar in bars]
    high = 1.01 * max([*ends, 1e-12])
    ticks = svg.choose_ticks(high)
    lanes = Markup("").join(_lane(bar, high, ticks) for bar in bars)
    shown = [term for term in TERMS if any(bar.terms.get(term) for bar in bars)]
    entries = [(svg.key(f"term-{term}"), TERM_LABELS[term]) for term in shown]
    entries += [(_KEY, "90 % interval")] * any(bar.interval for bar in bars)
    return Markup('<div class="drawing">{}{}{}</div>').format(lanes, svg.time_axis(ticks, high), svg.legend(entries))


def _lane(bar: Bar, high: float, ticks: Sequence[float]) -> Markup:
    parts, said, at, whole = [svg.grid_lines(ticks, high)], [], 0.0, bar.time
    for term in TERMS:
        seconds = bar.terms.get(term, 0.0)
        if seconds:
            title = f"{TERM_LABELS[term]}: {show_time(seconds)}, {format_share(seconds / whole)} of the iteration"
            parts.append(svg.rectangle(f"term-{term}", at / high, seconds / high, title, "20"))
            said.append(f"{TERM_LABELS[term]} {show_time(seconds)}")
        at += seconds
    value = show_time(whole)
    if bar.interval:
        words = " to ".join(map(show_time, bar.interval))
        value += f" (90 % interval {words})"
        low, top = (svg.percent(end / high) for end in bar.interval)
        parts.append(_INTERVAL.format(title=f"90 % interval: {words}", low=low, high=top))
    return svg.lane(bar.name, value, parts, "terms", f"{bar.name}: {', '.join(said) or 'no time'}")
