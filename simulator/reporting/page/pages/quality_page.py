"""The page of times to quality."""

from __future__ import annotations

from simulator.reporting.answers.trained import TrainingQuality
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.page.charts import chart_of
from simulator.reporting.page.parts import Page
from simulator.reporting.wording.quality_tables import quality_tables
from simulator.reporting.wording.tables import Column, Table
from simulator.scenario.versions import versions


def quality_page(source: Source) -> Page:
    """Which method reaches the target first on a cluster, and what its trainings showed."""
    found: TrainingQuality = source.document
    chart = chart_of("time_to_quality", source)
    left_out = (Column("method", "method"), Column("reason", "reason"))
    return Page(
        title=f"Time to {found.target}",
        subtitle=f"trainings in {found.trainings}, on {found.scenario}",
        answer=found.answer or "",
        facts=[f"The opponent is {found.opponent}.", *found.notes],
        glance=[("workers", f"{found.workers:,}"), ("methods", str(len(found.methods or ())))],
        warnings=found.warnings or [],
        charts=[chart] if chart is not None else [],
        tables=[
            *quality_tables(found),
            *([Table.of("Left out", left_out, found.refused)] if found.refused else []),
        ],
        provenance=[
            ("digest", found.digest or ""),
            ("tasks", ", ".join(f"{task.name} ({task.elements:,} elements)" for task in found.tasks)),
            ("versions", f"sparsim {versions()['sparsim']}"),
        ],
    )
