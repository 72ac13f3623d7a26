"""The page of a comparison of two runs or two sweeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from simulator.models.terms import BREAKDOWN, IDLE, split_idle
from simulator.reporting.page.drawings.term_bars import Bar, draw_term_bars, known_interval
from simulator.reporting.page.parts import Chart, Page
from simulator.reporting.wording.comparison import describe_side, fact_lines, warning_lines
from simulator.reporting.wording.comparison_tables import comparison_tables


def comparison_page(document: dict[str, Any]) -> Page:
    """The answer with its facts, then tables of what differs in the inputs and in the results."""
    sides = [(side.upper(), document[side]) for side in "ab"]
    return Page(
        title=f"Two {document['compared']} compared",
        subtitle="differences are B less A",
        answer=document["answer"],
        facts=fact_lines(document),
        glance=[(name, describe_side(side)) for name, side in sides],
        warnings=warning_lines(document),
        charts=list(_terms(document)),
        tables=list(comparison_tables(document)),
        provenance=[(f"digest of {name}", str(side["digest"])) for name, side in sides if side["digest"]],
    )


def _terms(document: dict[str, Any]) -> Iterator[Chart]:
    """The terms of two runs as bars on one scale."""
    if document["compared"] != "runs":
        return
    figures = {row["key"]: row for row in document["figures"]}
    bars = []
    for side in "ab":
        breakdown, idle = (
            {term: figures[f"{group}.{term}"][side] or 0.0 for term in names}
            for group, names in (("breakdown_s", BREAKDOWN), ("idle_s", IDLE))
        )
        ends = [figures[f"iteration_time_interval_s.{end}"][side] or 0.0 for end in ("p5", "p95")]
        name = f"{side.upper()}: {document[side]['name']}"
        bars.append(Bar(name, split_idle(breakdown, idle), known_interval(ends)))
    question = "Which terms make the difference?"
    yield Chart("terms_compared", "Where the time goes", question, markup=draw_term_bars(bars))
