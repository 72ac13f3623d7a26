"""Pieces of drawings that are SVG in the page: places in percent, so that they fit any width and text keeps its size.

Colours are classes of `assets/drawings.css`, since a page may forbid styles in attributes. All names are escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from markupsafe import Markup

from simulator.answers import Interval
from simulator.models.timeline import TERM_LABELS, TERMS
from simulator.records import Record
from simulator.reporting.figures.style.panels import Boxes, Panel
from simulator.reporting.wording.values import format_share
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


def choose_ticks(high: float) -> list[float]:
    """At most five ticks from 0 to at most `high`, in steps of 1, 2 or 5 times a power of ten; at least two.

    >>> choose_ticks(0.45), choose_ticks(1.0)
    ([0.0, 0.1, 0.2, 0.3, 0.4], [0.0, 0.5, 1.0])
    """
    if not (math.isfinite(high) and high > 0):
        return [0.0]
    power = 10.0 ** math.floor(math.log10(high) - 1)
    step = next(item * power for item in (1, 2, 5, 10, 20, 50, 100) if high / (item * power) < 5 - 1e-9)
    return [float(f"{number * step:.12g}") for number in range(int(high / step + 1e-9) + 1)]


def draw_lanes(lanes: Iterable[Markup], high: float, *below: Markup) -> Markup:
    """Lanes on one scale from 0 to `high` seconds, their axis, and what stands below it."""
    texts = []
    for tick in choose_ticks(high):
        share = tick / high
        side = "start" if share < 0.05 else "end" if share > 0.95 else "middle"
        texts.append(_TEXT.format(percent(share), 14, side, "", show_time(float(f"{tick:.6g}"))))
    axis = Markup('<svg class="axis" aria-hidden="true">{}</svg>').format(Markup("").join(texts))
    return Markup('<div class="drawing">{}</div>').format(Markup("").join([*lanes, axis, *below]))


def legend(entries: Iterable[tuple[Markup, str]]) -> Markup:
    """A legend: a small drawing and its words."""
    item = Markup('<li><svg aria-hidden="true">{}</svg>{}</li>')
    return Markup('<ul class="legend">{}</ul>').format(Markup("").join(item.format(*entry) for entry in entries))


def key(name: str) -> Markup:
    """The square of a class in a legend."""
    return Markup('<rect class="{}" width="100%" height="100%"/>').format(name)


def amount_legend(most: str) -> Markup:
    """The shades of amounts from none to all."""
    words = ["little", *[""] * (AMOUNTS - 2), most]
    return legend((key(f"amount-{number}"), word) for number, word in enumerate(words))


_INTERVAL = Markup(
    '<g class="interval"><title>{title}</title><line x1="{low}" x2="{high}" y1="29" y2="29"/>'
    '<line x1="{low}" x2="{low}" y1="25" y2="33"/><line x1="{high}" x2="{high}" y1="25" y2="33"/></g>'
)
_INTERVAL_KEY = Markup('<line class="interval" x1="0" x2="100%" y1="6" y2="6"/>')


class Bar(Record):
    """An iteration: its name, seconds of each term, and its 90 % interval; without width where none is known."""

    name: str
    terms: Mapping[str, float]
    interval: Interval = (0.0, 0.0)

    @property
    def time(self) -> float:
        """Seconds of the iteration."""
        return sum(self.terms.values())


def draw_term_bars(bars: Sequence[Bar]) -> Markup:
    """One bar for each iteration on one scale, the first on top, with its interval below it and a legend.

    The page needs `assets/theme.css` and `assets/drawings.css`.
    """
    high = 1.01 * max([1e-12, *(end for bar in bars for end in (bar.time, *bar.interval))])
    shown = [term for term in TERMS if any(bar.terms.get(term) for bar in bars)]
    entries = [(key(f"term-{term}"), TERM_LABELS[term]) for term in shown]
    entries += [(_INTERVAL_KEY, "90 % interval")] * any(low < top for low, top in (bar.interval for bar in bars))
    return draw_lanes((_bar_lane(bar, high) for bar in bars), high, legend(entries))


def _bar_lane(bar: Bar, high: float) -> Markup:
    parts, said, at, whole = [_GRID.format(percent(tick / high)) for tick in choose_ticks(high)], [], 0.0, bar.time
    for term in TERMS:
        seconds = bar.terms.get(term, 0.0)
        if seconds:
            title = f"{TERM_LABELS[term]}: {show_time(seconds)}, {format_share(seconds / whole)} of the iteration"
            parts.append(rectangle(f"term-{term}", at / high, seconds / high, title, "20"))
            said.append(f"{TERM_LABELS[term]} {show_time(seconds)}")
        at += seconds
    value = show_time(whole)
    low, top = bar.interval
    if low < top:
        words = f"{show_time(low)} to {show_time(top)}"
        value += f" (90 % interval {words})"
        parts.append(
            _INTERVAL.format(title=f"90 % interval: {words}", low=percent(low / high), high=percent(top / high))
        )
    return lane(bar.name, value, parts, "terms", f"{bar.name}: {', '.join(said) or 'no time'}")


_EMPTY = Markup('<rect class="empty" width="100%" height="100%"/>')


def link_strips(panel: Panel, boxes: Boxes) -> Markup:
    """One strip for each link, the busiest on top, from the panel of the figure `link_utilisation` and its boxes."""
    end, lanes = panel.x.high or 0.0, [[_EMPTY] for _ in panel.y.names]
    for x, y, width, used, (said,) in zip(boxes.x, boxes.y, boxes.width, boxes.strengths, boxes.told, strict=True):
        lanes[int(y)].append(rectangle(shade(used), (x - width / 2) / end, width / end, said))
    names = (name.rpartition(", ") for name in panel.y.names)
    drawn = (lane(name, busy, parts) for (name, _, busy), parts in zip(names, lanes, strict=True))
    words = Markup('<p class="of">{}</p>').format(f"{panel.x.label}; {panel.title}:")
    return draw_lanes(drawn, end, words, amount_legend("all of it"))


_CELL = Markup('<rect class="{}" x="{}" y="{}" width="{}" height="1"><title>{}</title></rect>')
_MATRIX = Markup(
    '<div class="drawing"><p class="of">Senders from top to bottom, receivers from left to right.</p>'
    '<div class="matrix"><svg class="senders" aria-hidden="true">{senders}</svg>'
    '<svg class="cells" viewBox="0 0 {count} {count}" preserveAspectRatio="none" role="img" aria-label="{said}">{cells}'
    '</svg><svg class="receivers corner" aria-hidden="true">{receivers}</svg></div>'
    '<p class="of">sent per iteration, {most}:</p>{legend}</div>'
)
_ROWS, _COLUMNS, _FEW = 12, 8, 4
"""Labels of senders, of receivers, and of receivers on a narrow screen."""
_CELLS = 20_000


def traffic_grid(panel: Panel, boxes: Boxes) -> Markup | None:
    """Bytes from each sender to each receiver, from the panel of the figure `traffic_matrix` and its boxes.

    None where every place sends as much to as many as any other, which a matrix does not show better than a number,
    and where there are too many cells to draw.
    """
    names, cells = panel.x.names, []
    sums = np.zeros((2, len(names)))
    for x, y, width, share, (said,) in zip(boxes.x, boxes.y, boxes.width, boxes.strengths, boxes.told, strict=True):
        first = round(x - (width - 1) / 2)
        sums[0, int(y)] += width * share
        sums[1, first : first + int(width)] += share
        cells.append(_CELL.format(shade(share), first, int(y), int(width), said))
    if len(cells) > _CELLS or bool(np.all(np.ptp(sums, axis=1) <= 1e-9 * sums.max(axis=1))):
        return None
    return _MATRIX.format(
        senders=_labels(names, _ROWS, False),
        receivers=_labels(names, _COLUMNS, True),
        count=len(names),
        said=f"{len(names)} senders and receivers, {panel.title}",
        cells=Markup("").join(cells),
        most=panel.title,
        legend=amount_legend("most"),
    )


def _labels(names: Sequence[str], most: int, across: bool) -> Markup:
    """Names at the middle of their rows or columns, as many as have room."""
    step = -(-len(names) // most)
    few = -(-len(names) // (step * _FEW)) * step
    texts = []
    for number in range(0, len(names), step):
        middle = percent((number + 0.5) / len(names))
        if across:
            look, last = "" if number % few == 0 else "roomy", number > 0.9 * len(names)
            place = ("100%", "14", "end") if last else (middle, "14", "middle")
            texts.append(_TEXT.format(*place, look, names[number]))
        else:
            texts.append(
                Markup('<text x="100%" y="{}" text-anchor="end" dominant-baseline="central">{}</text>').format(
                    middle, names[number]
                )
            )
    return Markup("").join(texts)
