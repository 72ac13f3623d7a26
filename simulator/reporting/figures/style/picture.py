"""A drawn figure in the house style: shown in a notebook by itself, and saved with the same bytes every time."""

from __future__ import annotations

import io
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from simulator.errors import InputError, Problem
from simulator.files import replace_file

SCREEN_DPI, FILE_DPI = 96, 200
FORMATS = (".png", ".svg", ".pdf")
_STYLE: Any = {
    "text.parse_math": False,  # a dollar in a name is a dollar
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same letters everywhere
    "font.size": 12,
    "axes.titlesize": 12,
    "axes.titlelocation": "left",
    "legend.fontsize": 11,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E5E5E5",
    "grid.linewidth": 0.8,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
    "figure.constrained_layout.h_pad": 0.06,
    "figure.constrained_layout.w_pad": 0.06,
    "pdf.fonttype": 42,
    "svg.hashsalt": "sparsim",
    "savefig.facecolor": "white",
}
_UNDATED: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
"""Metadata that would make two files of the same figure differ."""


def house_style() -> AbstractContextManager[None]:
    """The style of all figures, as a context in which they are drawn."""
    return mpl.rc_context(_STYLE)


class Picture(Figure):
    """A matplotlib figure in the house style. `data`: the tidy table that it shows, empty until something is drawn."""

    data: pd.DataFrame = pd.DataFrame()

    def _repr_png_(self) -> bytes:
        """PNG for a notebook's cell (IPython's rich display)."""
        buffer = io.BytesIO()
        with house_style():
            self.savefig(buffer, format="png", dpi=SCREEN_DPI, metadata={"Software": None})
        return buffer.getvalue()


def save_figure(canvas: Figure, path: Path, dpi: float = FILE_DPI) -> None:
    """Write a figure as PNG, SVG or PDF, by the file's name, whole or not at all; the same bytes for the same figure.

    Raises InputError for another format or a place that can't be written.
    """
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise InputError(Problem(str(path), f"a file name that ends in {', '.join(FORMATS)}", path.suffix or "none"))
    with house_style():
        replace_file(path, lambda name: canvas.savefig(name, format=suffix[1:], dpi=dpi, metadata=_UNDATED[suffix]))
