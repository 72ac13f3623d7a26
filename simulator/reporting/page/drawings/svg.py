"""Pieces of drawings that are SVG in the page: places in percent, so that they fit any width and text keeps its size.

Colours are classes of `assets/drawings.css`, since a page may forbid styles in attributes. All names are escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup

from simulator.units import show_time

AMOUNTS = 5
"""Shades of an amount, `amount-0` (little) to `amount-4` (all of it)."""
_RECT = Markup('<rect class="{}" x="{}" width="{}" height="{}"><title>{}</title></rect>')
_TEXT = Markup('<text x="{}" y="{}" text-anchor="{}" class="{}">{}</text>')
_LANE = Markup(
    '<div class="lane"><p><span class="name">{name}</span> <span class="value">{value}</span></p>'
    '<svg class="{look}" role="img" aria-label="{said}">{parts}</svg></div>'
)
_GRID = Markup('<line class="grid" x1="{0}" x2="{0}" y1="0" y2="100%"/>')


def percent(share: float) -> str:
    """A share of the width or height as SVG writes it.

    >>> percent(0.25), percent(1 / 3)
    ('25%', '33.333%')
    """
    return f"{round(100 * share, 3):g}%"


def rectangle(name: str, x: float, width: float, title: str, height: str = "100%") -> Markup:
    """A rectangle of a class, from and over a share of the width; its title is shown at the pointer."""
    return _RECT.format(name, percent(x), percent(width), height, title)


def lane(name: str, value: str, parts: Iterable[Markup], look: str = "strip", said: str = "") -> Markup:
    """A row of a drawing: its name and what is said of it above its parts; `said` is for screen readers."""
    return _LANE.format(name=name, value=value, parts=Markup("").join(parts), look=look, said=said or f"{name} {value}")


def shade(share: float) -> str:
    """The class of an amount from 0 to 1.

    >>> shade(0.0), shade(0.5), shade(1.0)
    ('amount-0', 'amount-2', 'amount-4')
    """
    return f"amount-{min(AMOUNTS - 1, int(AMOUNTS * max(0.0, share)))}"


def choose_ticks(high: float, most: int = 5) -> list[float]:
    """At most so many ticks from 0 to at most `high`, in steps of 1, 2 or 5 times a power of ten; at least two.

    >>> choose_ticks(0.45), choose_ticks(1.0)
    ([0.0, 0.1, 0.2, 0.3, 0.4], [0.0, 0.5, 1.0])
    """
    if not (math.isfinite(high) and high > 0):
        return [0.0]
    power = 10.0 ** math.floor(math.log10(high) - 1)
    step = next(item * power for item in (1, 2, 5, 10, 20, 50, 100) if high / (item * power) < most - 1e-9)
    return [float(f"{number * step:.12g}") for number in range(int(high / step + 1e-9) + 1)]


def grid_lines(ticks: Iterable[float], high: float) -> Markup:
    """Lines over the whole height at ticks of an axis from 0 to `high`."""
    return Markup("").join(_GRID.format(percent(tick / high)) for tick in ticks)


def time_axis(ticks: Sequence[float], high: float) -> Markup:
    """The axis below lanes: times from 0 to `high`."""
    texts = Markup("").join(
        _TEXT.format(percent(tick / high), 14, _anchor(tick / high), "", show_time(float(f"{tick:.6g}")))
        for tick in ticks
    )
    return Markup('<svg class="axis" aria-hidden="true">{}</svg>').format(texts)


def _anchor(share: float) -> str:
    return "start" if share < 0.05 else "end" if share > 0.95 else "middle"


def text_at(x: str, y: str, text: str, anchor: str, name: str = "") -> Markup:
    """A text at a place in percent."""
    return _TEXT.format(x, y, anchor, name, text)


def legend(entries: Iterable[tuple[Markup, str]]) -> Markup:
    """A legend: a small drawing and its words."""
    item = Markup('<li><svg aria-hidden="true">{}</svg>{}</li>')
    return Markup('<ul class="legend">{}</ul>').format(Markup("").join(item.format(*entry) for entry in entries))


def key(name: str) -> Markup:
    """The square of a class in a legend."""
    return Markup('<rect class="{}" width="100%" height="100%"/>').format(name)


def amount_legend(least: str, most: str) -> Markup:
    """The shades of amounts from none to all."""
    words = [least, *[""] * (AMOUNTS - 2), most]
    return legend((key(f"amount-{number}"), word) for number, word in enumerate(words))
