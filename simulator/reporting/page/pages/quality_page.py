"""The page of times to quality."""

from __future__ import annotations

from simulator.reporting.answers.trained import TrainingQuality
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.page.charts import charts_of
from simulator.reporting.page.parts import Page, provenance
from simulator.reporting.wording.quality_tables import quality_tables
from simulator.reporting.wording.tables import Table, columns
from simulator.scenario.versions import versions


def quality_page(source: Source) -> Page:
    """Which method reaches the target first on a cluster, and what its trainings showed."""
    found: TrainingQuality = source.document
    return Page(
        title=f"Time to {found.target}",
        subtitle=f"trainings in {found.trainings}, on {found.scenario}",
        answer=found.answer or "",
        facts=[f"The opponent is {found.opponent}.", *found.notes],
        glance=[("workers", f"{found.workers:,}"), ("methods", str(len(found.methods or ())))],
        warnings=found.warnings or [],
        charts=charts_of(source, "time_to_quality"),
        tables=[
            *quality_tables(found),
            *([Table.of("Left out", columns("text", "method", "reason"), found.refused)] if found.refused else []),
        ],
        provenance=provenance(
            {"sparsim": versions()["sparsim"]},
            digest=found.digest or "",
            tasks=", ".join(f"{task.name} ({task.elements:,} elements)" for task in found.tasks),
        ),
    )
