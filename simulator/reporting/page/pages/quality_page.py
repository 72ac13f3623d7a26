"""The page of times to quality."""

from __future__ import annotations

from typing import Any

from simulator.reporting.figures.data.sources import Source
from simulator.reporting.page.charts import chart_of
from simulator.reporting.page.parts import Page
from simulator.reporting.wording.quality_tables import quality_tables
from simulator.reporting.wording.tables import Column, Table
from simulator.scenario.versions import versions


def quality_page(source: Source) -> Page:
    """Which method reaches the target first on a cluster, and what its trainings showed."""
    document: dict[str, Any] = source.document
    chart = chart_of("time_to_quality", source)
    refused = document.get("refused") or []
    left_out = (Column("method", "method"), Column("reason", "reason"))
    return Page(
        title=f"Time to {document['target']}",
        subtitle=f"trainings in {document['trainings']}, on {document['scenario']}",
        answer=document["answer"],
        facts=[f"The opponent is {document['opponent']}.", *document["notes"]],
        glance=[("workers", f"{document['workers']:,}"), ("methods", str(len(document["methods"])))],
        warnings=document["warnings"],
        charts=[chart] if chart is not None else [],
        tables=[*quality_tables(document), *([Table.of("Left out", left_out, refused)] if refused else [])],
        provenance=[
            ("digest", document["digest"]),
            ("tasks", ", ".join(f"{task['name']} ({task['elements']:,} elements)" for task in document["tasks"])),
            ("versions", f"sparsim {versions()['sparsim']}"),
        ],
    )
