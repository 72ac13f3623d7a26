"""The traffic matrix as cells: SVG that fits any width and needs no script."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from simulator.reporting.figures.style.panels import Boxes, Panel
from simulator.reporting.page.drawings.svg import amount_legend, percent, shade, text_at

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
        legend=amount_legend("little", "most"),
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
            place = ("100%", "14", names[number], "end") if last else (middle, "14", names[number], "middle")
            texts.append(text_at(*place, look))
        else:
            texts.append(
                Markup('<text x="100%" y="{}" text-anchor="end" dominant-baseline="central">{}</text>').format(
                    middle, names[number]
                )
            )
    return Markup("").join(texts)
