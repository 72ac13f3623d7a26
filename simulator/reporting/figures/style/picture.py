"""A figure as Python hands it out: a notebook shows it by itself, and the table that it shows comes with it."""

from __future__ import annotations

import io

import pandas as pd
from matplotlib.figure import Figure

SCREEN_DPI = 96


class Picture(Figure):
    """A matplotlib figure in the house style. `data`: the tidy table that it shows, empty until something is drawn."""

    data: pd.DataFrame = pd.DataFrame()

    def _repr_png_(self) -> bytes:
        """PNG for a notebook's cell (IPython's rich display)."""
        from simulator.reporting.figures.style.style import rules

        held = io.BytesIO()
        with rules():
            self.savefig(held, format="png", dpi=SCREEN_DPI, metadata={"Software": None})
        return held.getvalue()
