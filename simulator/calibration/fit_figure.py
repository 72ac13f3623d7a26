"""The figure of a fit: measured against fitted, and the relative error."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simulator.calibration.fits.accuracy import FittedLine
from simulator.reporting.figures.style.panels import GREY, PanelAxis, assign_looks
from simulator.reporting.figures.style.paper import Picture, house_style, save_figure, set_axis


def write_fit_figure(lines: Sequence[FittedLine], path: Path, size_label: str) -> None:
    """Measured (dots) and fitted (lines) times over the size, and the relative error; format by the file's name.

    Raises InputError where the file can't be written.
    """
    with house_style():
        canvas = Picture(figsize=(10, 4.3), layout="constrained")
        left, right = canvas.subplots(1, 2)
        looks = assign_looks([line.label for line in lines])
        for line in lines:
            colour = looks[line.label].colour
            left.plot(line.sizes, line.measured, ".", color=colour, markersize=4)
            left.plot(line.sizes, line.fitted, "-", color=colour, linewidth=1, label=line.label)
            right.plot(line.sizes, line.fitted / line.measured - 1, ".", color=colour, markersize=4)
        left.set_yscale("log")
        set_axis(left, "y", PanelAxis("time", "time"))
        left.set_title("dots: measured, lines: fitted")
        left.legend()
        right.axhline(0, color=GREY, linewidth=0.8)
        set_axis(right, "y", PanelAxis("fitted / measured - 1", "percent"))
        for axes in (left, right):
            axes.set_xscale("log", base=2)
            axes.set_xlabel(size_label)
    save_figure(canvas, path)
