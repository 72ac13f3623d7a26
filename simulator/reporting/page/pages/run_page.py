"""The page of one run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from simulator.models.terms import TERM_LABELS, split_idle
from simulator.reporting.figures.base import figure_of
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.page.charts import chart_of
from simulator.reporting.page.drawings.term_bars import Bar, draw_term_bars, known_interval
from simulator.reporting.page.parts import Chart, Page
from simulator.reporting.wording.memory_tables import memory_table
from simulator.reporting.wording.quantities import describe
from simulator.reporting.wording.tables import Column, Table
from simulator.reporting.wording.values import describe_replay, format_value
from simulator.reporting.wording.verdict_tables import value_table
from simulator.units import show_bytes, show_memory, show_probability, show_time

HELD_OUT_NOTE = (
    "Held-out error: mean absolute relative error on measurements that were not used in the fit; – where unknown."
)
_WIDTH_NOTE = f"Within: the factor by which it may be wrong either way in nine of ten cases. {HELD_OUT_NOTE}"
CALIBRATION = (
    Column("what", "kind"),
    Column("id", "curve or law"),
    Column("level", "level"),
    Column("width", "within", "factor"),
    Column("held_out_mape", "held-out error (MAPE)", "share"),
    Column("in_range", "inside its measured range", "yes"),
)
_FIGURES = ("link_utilisation", "traffic_matrix")


def run_page(source: Source) -> Page:
    """A run at a glance: where its time goes, what it sends, and what the prediction rests on."""
    document: dict[str, Any] = source.document
    comparison = document.get("comparison")
    charts = [chart_of(kind, source) for kind in _FIGURES]
    return Page(
        title=str(document["scenario"]),
        subtitle=str(document.get("question") or "one run"),
        answer=str(comparison["answer"]) if comparison else "",
        glance=list(_glance(document)),
        warnings=document["warnings"],
        charts=[_bars(document), *(chart for chart in charts if chart is not None)],
        tables=list(_tables(document)),
        provenance=provenance(document),
        texts=list(_texts(source)),
    )


def provenance(document: dict[str, Any]) -> list[tuple[str, str]]:
    """Fidelity, digest, seed and versions of a document that states them."""
    rows = []
    if "fidelity" in document:
        rows.append(("fidelity", f"{document['fidelity']['tier']}: {document['fidelity']['reason']}"))
    rows += [(key, str(document[key])) for key in ("digest", "seed") if key in document]
    versions = document.get("versions") or {}
    return rows + (
        [("versions", ", ".join(f"{name} {version}" for name, version in versions.items()))] * bool(versions)
    )


def _glance(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    low, high = document["iteration_time_interval_s"]
    yield "iteration time", show_time(document["iteration_time_s"])
    yield "90 % interval", f"{show_time(low)} to {show_time(high)}" if low != high else "none, since no error is known"
    comparison = document.get("comparison")
    if comparison:
        yield str(comparison["baseline"]), show_time(comparison["baseline_iteration_time_s"])
        if "verdict" in comparison:
            low, high = comparison["speed_up_interval"]
            yield "speed-up, 90 % interval", f"{low:.2f} to {high:.2f}"
            yield "probability that it is faster", show_probability(comparison["probability"])
    yield "workers", f"{document['workers']:,}"
    if document["throughput_samples_per_s"] is not None:
        yield "throughput", f"{document['throughput_samples_per_s']:,.5g} samples/s"
        yield "scaling efficiency", format_value("share", document["scaling_efficiency"])
    yield "sent per worker and iteration", show_bytes(document["traffic"]["sent_bytes_per_worker"])
    memory = document.get("memory")
    if memory:
        there = "" if memory["capacity_bytes"] is None else f" of {show_memory(memory['capacity_bytes'])}"
        without = f", without {' and '.join(memory['not_known'])}" if memory["not_known"] else ""
        yield f"memory of a worker{without}", show_memory(memory["total_bytes"]) + there
    density = document["density"]
    if density["target"] < 1:
        yield "build-up", f"{density['build_up']:.3g}"
    if "replay" in document:
        yield "replay", describe_replay(document["replay"])


def _tables(document: dict[str, Any]) -> Iterator[Table]:
    yield _terms(document)
    worth = value_table(document.get("comparison") or {})
    if worth is not None:
        yield worth
    yield Table.of("What the prediction rests on", CALIBRATION, document["calibration"], note=_WIDTH_NOTE)
    columns = (Column("name", "link"), Column("bytes", "bytes", "bytes"), Column("utilisation", "busy", "share"))
    links = document.get("links") or []
    note = "Bytes of this job in one iteration, and their share of what the link can carry in that time."
    if links:
        yield Table.of("Busiest links", columns, list(_join_alike(links)), note=note)
    if document.get("memory"):
        yield memory_table(document["memory"])
    yield _density(document["density"])
    recorded = document.get("density_over_iterations") or []
    if recorded:
        yield _iterations(recorded)


def _join_alike(links: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Links, those that carry the same as one row."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    for link in links:
        groups.setdefault((link["bytes"], link["utilisation"]), []).append(str(link["name"]))
    for (nbytes, share), names in groups.items():
        name = names[0] + (f" and {len(names) - 1} alike" if len(names) > 1 else "")
        yield {"name": name, "bytes": nbytes, "utilisation": share}


def _bars(document: dict[str, Any]) -> Chart:
    """The terms of the run above those of its opponent."""
    terms = split_idle(document["breakdown_s"], document["idle_s"])
    bars = [Bar(str(document["scenario"]), terms, known_interval(document["iteration_time_interval_s"]))]
    comparison = document.get("comparison")
    if comparison:
        others = split_idle(comparison["baseline_breakdown_s"], comparison["baseline_idle_s"])
        interval = known_interval(comparison.get("baseline_iteration_time_interval_s"))
        bars.append(Bar(str(comparison["baseline"]), others, interval))
    figure = figure_of("iteration_breakdown")
    note = "The terms of a bar sum to the iteration time. Point at one for its seconds."
    return Chart(figure.kind, figure.title, figure.question, note=note, markup=draw_term_bars(bars))


def _terms(document: dict[str, Any]) -> Table:
    comparison, whole = document.get("comparison"), document["iteration_time_s"]
    columns = [Column("term", "term"), Column("time", "time", "time"), Column("share", "share", "share")]
    terms = split_idle(document["breakdown_s"], document["idle_s"])
    rows: list[list[Any]] = [
        [TERM_LABELS[term], seconds, seconds / whole if whole else None] for term, seconds in terms.items()
    ]
    rows.append(["sum", whole, 1.0 if whole else None])
    if comparison:
        columns += [
            Column("other", str(comparison["baseline"]), "time"),
            Column("difference", "difference", "time_difference"),
        ]
        others = split_idle(comparison["baseline_breakdown_s"], comparison["baseline_idle_s"]).values()
        for row, other in zip(rows, [*others, comparison["baseline_iteration_time_s"]], strict=True):
            # Terms that differ only by rounding are equal.
            change = row[1] - other
            row += [other, change if abs(change) > 1e-12 * max(row[1], other) else 0.0]
    return Table("Terms of the iteration", columns, rows)


def _density(density: dict[str, Any]) -> Table:
    columns = (Column("name", "quantity"), Column("value", "value", "figure"), Column("about", "meaning"))
    rows = []
    for key in ("target", "selected", "aggregated", "build_up", "padding"):
        quantity = describe(f"density.{key}")
        rows.append([quantity.label, format_value(quantity.kind, density[key]), quantity.about])
    return Table("Density", columns, rows)


def _iterations(recorded: Sequence[dict[str, Any]]) -> Table:
    kinds = {"iteration": "count", "selected": "percent", "aggregated": "percent"}
    columns = [
        Column(key, "build-up" if key == "build_up" else key.replace("_", " "), kinds.get(key, "number"))
        for key in recorded[0]
    ]
    return Table.of("Density over the recorded iterations", columns, recorded)


def _texts(source: Source) -> Iterator[tuple[str, str]]:
    scenario = source.read_scenario()
    if scenario:
        from simulator.prediction.run_files import as_yaml

        yield "The scenario, fully resolved", as_yaml(scenario)
