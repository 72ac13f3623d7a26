"""The page of a comparison of two runs or two sweeps."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.models.timeline import BREAKDOWN, IDLE, split_idle
from simulator.reporting.answers.compared import SweepDifferences
from simulator.reporting.page.drawings.term_bars import Bar, draw_term_bars, known_interval
from simulator.reporting.page.parts import Chart, Page
from simulator.reporting.wording.comparison import Differences, describe_side, fact_lines, warning_lines
from simulator.reporting.wording.comparison_tables import comparison_tables


def comparison_page(found: Differences) -> Page:
    """The answer with its facts, then tables of what differs in the inputs and in the results."""
    sides = (("A", found.a), ("B", found.b))
    return Page(
        title=f"Two {found.compared} compared",
        subtitle="differences are B less A",
        answer=found.answer,
        facts=fact_lines(found),
        glance=[(name, describe_side(side)) for name, side in sides],
        warnings=warning_lines(found),
        charts=list(_terms(found)),
        tables=list(comparison_tables(found)),
        provenance=[(f"digest of {name}", side.digest) for name, side in sides if side.digest],
    )


def _terms(found: Differences) -> Iterator[Chart]:
    """The terms of two runs as bars on one scale."""
    if isinstance(found, SweepDifferences):
        return
    figures = {row.key: row for row in found.figures}
    bars = []
    for side, name in (("a", found.a.name), ("b", found.b.name)):
        values = {key: getattr(row, side) or 0.0 for key, row in figures.items()}
        breakdown, idle = (
            {term: values.get(f"{group}.{term}", 0.0) for term in names}
            for group, names in (("breakdown_s", BREAKDOWN), ("idle_s", IDLE))
        )
        ends = [values[f"iteration_time_interval_s.{end}"] for end in ("p5", "p95")]
        bars.append(Bar(f"{side.upper()}: {name}", split_idle(breakdown, idle), known_interval(ends)))
    question = "Which terms make the difference?"
    yield Chart("terms_compared", "Where the time goes", question, markup=draw_term_bars(bars))
