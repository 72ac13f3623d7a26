"""Figures: one style, units on every axis, legible at half size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's palette, told apart by colour-blind readers."""


def build_up_figure(rows: list[dict[str, Any]], path: Path) -> None:
    """Aggregated density against workers (mean over iterations) and over iterations, per method."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    methods = list(dict.fromkeys(row["method"] for row in rows))
    with plt.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
        for method, colour in zip(methods, COLOURS * (1 + len(methods) // len(COLOURS)), strict=False):
            mine = [row for row in rows if row["method"] == method]
            counts = sorted({row["workers"] for row in mine})
            means = [_mean(mine, "aggregated", count) for count in counts]
            left.plot(counts, means, "o-", color=colour, label=method)
            left.plot(counts, [_mean(mine, "independent", c) for c in counts], ":", color=colour, linewidth=1)
            most = [row for row in mine if row["workers"] == counts[-1]]
            for run in _runs(most):
                right.plot([r["iteration"] for r in run], [r["aggregated"] for r in run], ".-", color=colour)
        left.set_xscale("log", base=2)
        left.xaxis.set_major_formatter("{x:g}")
        left.set_yscale("log")
        left.set_xlabel("workers")
        left.set_ylabel("aggregated density (share of elements)")
        left.set_title("dotted: independent choices", fontsize=9, loc="left")
        left.legend(frameon=False, fontsize=9)
        right.set_yscale("log")
        right.set_xlabel("iteration")
        right.set_ylabel("aggregated density (share of elements)")
        right.set_title(f"{max(row['workers'] for row in rows)} workers", fontsize=9, loc="left")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
        plt.close(figure)


def _runs(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Consecutive iterations apart, so that no line is drawn over what was not recorded."""
    runs: list[list[dict[str, Any]]] = []
    for row in rows:
        if not runs or row["iteration"] != runs[-1][-1]["iteration"] + 1:
            runs.append([])
        runs[-1].append(row)
    return runs


def _mean(rows: list[dict[str, Any]], key: str, workers: int) -> float:
    values = [float(row[key]) for row in rows if row["workers"] == workers]
    return sum(values) / len(values)
