"""Colours of figures: of the terms of an iteration, and of methods with their strokes and marks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import matplotlib as mpl
import numpy as np

from simulator.models.timeline import BREAKDOWN
from simulator.records import Record

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
BLUE, RED, PURPLE, OLIVE, GREY = "#0072B2", "#D55E00", "#CC79A7", "#999933", "#BBBBBB"
PALETTE = (BLUE, RED, GREEN, PURPLE, ORANGE, SKY)
"""Colours that colour-blind readers can distinguish: M. Okabe and K. Ito, Color Universal Design (2002, revised 2008).

Their black is kept for dense, and their yellow left out: thin lines of it are hard to see on white.
"""
_SPENT = [term for term in BREAKDOWN if term != "idle"]
PHASES = {**dict(zip(_SPENT, (SKY, BLUE, OLIVE, RED, ORANGE, PURPLE, GREEN, BLACK), strict=False)), "idle": GREY}
"""The colour of each term of an iteration; the grey one is hatched."""
METHODS = (
    *("topk", "randomk", "gtopk", "dgc", "gaussiank", "redsync", "threshold", "sidco", "sage", "oktopk", "deft"),
    *("exdyna", "micro", "cltk", "omnireduce", "zen", "qsgd", "terngrad", "signsgd", "powersgd", "skip_reduce"),
    *("efsignsgd", "signum", "onebit", "natural", "eight_bit", "sketch", "inceptionn", "sparseloco"),
    *("demo", "quantised_all_reduce"),
)
"""Colours and strokes are assigned in this fixed order, so that a method looks the same in all figures."""
STROKES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


class Look(Record):
    """How the line of a method is drawn."""

    colour: str
    stroke: str
    marker: str

    def line(self, front: float = 1.0) -> dict[str, Any]:
        """The look as fields of `panels.Series`; marks are hollow where the stroke is not solid.

        `front`, from 0 to 1: lines further back are wider, so that one that lies under another can still be seen.
        """
        look = {"colour": self.colour, "stroke": self.stroke, "marker": self.marker, "hollow": self.stroke != "-"}
        return look | {"width": 3.4 - 1.8 * front, "size": 8.5 - 3.5 * front}


def _look(place: int) -> Look:
    colours = len(PALETTE)
    return Look(PALETTE[place % colours], STROKES[place // colours % len(STROKES)], MARKERS[place % len(MARKERS)])


def assign_looks(labels: Iterable[str]) -> dict[str, Look]:
    """A different look for each label; a label's first word is the method's kind.

    The first label of a kind has the kind's own look; further ones, and unknown kinds, have the looks that are free.
    """
    looks: dict[str, Look] = {}
    labels = list(dict.fromkeys(labels))
    for label in labels:
        kind = label.split(" ", maxsplit=1)[0].rstrip(",")
        own = Look(BLACK, "-", "o") if kind == "dense" else _look(METHODS.index(kind)) if kind in METHODS else None
        if own is not None and own not in looks.values():
            looks[label] = own
    free = (
        look for look in map(_look, range(len(PALETTE) * len(STROKES) * len(MARKERS))) if look not in looks.values()
    )
    for label in labels:
        if label not in looks:
            looks[label] = next(free, _look(0))
    return {label: looks[label] for label in labels}


def line_styles(labels: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each label with the look of its line, as fields of `panels.Series`, in the order in which they are drawn."""
    looks = assign_looks(labels)
    for place, (label, look) in enumerate(looks.items(), start=1):
        yield label, look.line(place / len(looks))


def tint(colour: str, strength: float, background: str = "#FFFFFF") -> tuple[tuple[float, float, float], str]:
    """A colour from a tint of the background (0) to itself (1), and black or white, whichever is easier to read on it.

    Contrast by relative luminance (W3C, WCAG 2.1).
    """
    full, empty = (np.array(mpl.colors.to_rgb(item)) for item in (colour, background))
    part = 0.2 + 0.8 * min(max(strength, 0.0), 1.0)
    mixed = empty - part * (empty - full)
    linear = np.where(mixed <= 0.04045, mixed / 12.92, ((mixed + 0.055) / 1.055) ** 2.4)
    luminance = float((linear * (0.2126, 0.7152, 0.0722)).sum())
    return (float(mixed[0]), float(mixed[1]), float(mixed[2])), BLACK if luminance > 0.179 else "#FFFFFF"
