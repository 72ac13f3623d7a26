"""The page of a comparison of two runs or two sweeps."""

from __future__ import annotations

from typing import Any

from simulator.reporting.page.parts import Page
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
        tables=list(comparison_tables(document)),
        provenance=[(f"digest of {name}", str(side["digest"])) for name, side in sides if side["digest"]],
    )
