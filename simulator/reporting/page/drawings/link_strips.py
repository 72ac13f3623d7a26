"""Links over the time of an iteration as strips: SVG that fits any width and needs no script."""

from __future__ import annotations

from markupsafe import Markup

from simulator.reporting.figures.style.panels import Boxes, Panel
from simulator.reporting.page.drawings.svg import amount_legend, choose_ticks, lane, rectangle, shade, time_axis

_EMPTY = Markup('<rect class="empty" width="100%" height="100%"/>')


def link_strips(panel: Panel, boxes: Boxes) -> Markup:
    """One strip for each link, the busiest on top, from the panel of the figure `link_utilisation` and its boxes."""
    end, lanes = panel.x.high or 0.0, [[_EMPTY] for _ in panel.y.names]
    for x, y, width, used, (said,) in zip(boxes.x, boxes.y, boxes.width, boxes.strengths, boxes.told, strict=True):
        lanes[int(y)].append(rectangle(shade(used), (x - width / 2) / end, width / end, said))
    names = (name.rpartition(", ") for name in panel.y.names)
    drawn = Markup("").join(lane(name, busy, parts) for (name, _, busy), parts in zip(names, lanes, strict=True))
    words = f"{panel.x.label}; {panel.title}:"
    axis, legend = time_axis(choose_ticks(end), end), amount_legend("little", "all of it")
    return Markup('<div class="drawing">{}{}<p class="of">{}</p>{}</div>').format(drawn, axis, words, legend)
