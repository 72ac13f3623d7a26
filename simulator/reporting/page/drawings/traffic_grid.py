"""The traffic matrix as cells: SVG that fits any width and needs no script."""

from __future__ import annotations

from itertools import groupby

import pandas as pd
from markupsafe import Markup

from simulator.reporting.figures.traffic_matrix import workers_first
from simulator.reporting.page.drawings.svg import amount_legend, percent, shade, text_at
from simulator.units import show_bytes

_CELL = Markup('<rect class="{}" x="{}" y="{}" width="{}" height="1"><title>{}</title></rect>')
_MATRIX = Markup(
    '<div class="drawing"><p class="of">Senders from top to bottom, receivers from left to right.</p>'
    '<div class="matrix"><svg class="senders" aria-hidden="true">{senders}</svg>'
    '<svg class="cells" viewBox="0 0 {count} {count}" preserveAspectRatio="none" role="img" aria-label="{said}">{cells}'
    '</svg><svg class="receivers corner" aria-hidden="true">{receivers}</svg></div>'
    '<p class="of">sent per iteration:</p>{legend}</div>'
)
_ROWS, _COLUMNS, _FEW = 12, 8, 4
"""Labels of senders, of receivers, and of receivers on a narrow screen."""
_CELLS = 20_000


def traffic_grid(data: pd.DataFrame) -> Markup | None:
    """Bytes from each sender to each receiver; the stronger the colour, the more.

    None where every place sends as much to as many as any other, which a matrix does not show better than a number,
    and where there are too many cells to draw. `data` is the table of the figure `traffic_matrix`.
    """
    names = sorted({*data["source"], *data["destination"]}, key=workers_first)
    place = {name: number for number, name in enumerate(names)}
    most = float(data["bytes"].max())
    if not most > 0 or _is_even(data, len(names)):
        return None
    items = sorted(
        (place[row.source], place[row.destination], float(row.bytes)) for row in data.itertuples() if row.bytes > 0
    )
    # Neighbours that receive the same from one sender are one cell.
    cells = []
    for _, group in groupby(enumerate(items), key=lambda item: (item[1][0], item[1][1] - item[0], item[1][2])):
        run = [item for _, item in group]
        (sender, first, nbytes), (_, last, _) = run[0], run[-1]
        to = names[first] if first == last else f"each of {names[first]} to {names[last]}"
        said = f"{names[sender]} to {to}: {show_bytes(nbytes)}"
        cells.append(_CELL.format(shade(nbytes / most), first, sender, last - first + 1, said))
    if len(cells) > _CELLS:
        return None
    return _MATRIX.format(
        senders=_labels(names, _ROWS, False),
        receivers=_labels(names, _COLUMNS, True),
        count=len(names),
        said=f"{len(names)} senders and receivers, at most {show_bytes(most)} between two",
        cells=Markup("").join(cells),
        legend=amount_legend("little", show_bytes(most)),
    )


def _is_even(data: pd.DataFrame, count: int) -> bool:
    """Whether all places send the same in all, and receive the same."""
    sums = [data.groupby(end)["bytes"].sum() for end in ("source", "destination")]
    return all(len(each) == count and each.max() - each.min() <= 1e-9 * each.max() for each in sums)


def _labels(names: list[str], most: int, across: bool) -> Markup:
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
