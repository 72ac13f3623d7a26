"""The page of one run, and that of two runs or two sweeps compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simulator.files import as_yaml
from simulator.loading.documents import read_document
from simulator.models.timeline import BREAKDOWN, IDLE, split_idle
from simulator.prediction.result import RunResult
from simulator.prediction.result_parts import Densities, LinkLoad, RecordedStep
from simulator.records import replace
from simulator.reporting.answers.compared import SweepDifferences
from simulator.reporting.figures.base import figure_of
from simulator.reporting.figures.data.sources import Source
from simulator.reporting.page.charts import Chart, Page, charts_of, provenance
from simulator.reporting.page.drawings import Bar, draw_term_bars
from simulator.reporting.wording.blocks import Column, Table, columns, describe
from simulator.reporting.wording.comparison import (
    Differences,
    comparison_tables,
    describe_side,
    fact_lines,
    warning_lines,
)
from simulator.reporting.wording.runs import memory_table, run_facts, terms_of, value_table
from simulator.reporting.wording.values import format_value

HELD_OUT_NOTE = (
    "Held-out error: mean absolute relative error on measurements that were not used in the fit; – where unknown."
)
_WIDTH_NOTE = f"Within: the factor by which it may be wrong either way in nine of ten cases. {HELD_OUT_NOTE}"
LINKS = (*columns("text", name="link"), *columns("bytes", nbytes="bytes"), *columns("share", utilisation="busy"))
CALIBRATION = (
    *columns("text", what="kind", id="curve or law", level="level"),
    *columns("factor", width="within"),
    *columns("share", held_out_mape="held-out error (MAPE)"),
    *columns("yes", in_range="inside its measured range"),
)


def run_page(source: Source) -> Page:
    """A run at a glance: where its time goes, what it sends, and what the prediction rests on."""
    result: RunResult = source.document
    comparison, figure = result.comparison, figure_of("iteration_breakdown")
    note = "The terms of a bar sum to the iteration time. Point at one for its seconds."
    drawn = draw_term_bars(bars_of(result, result.name))
    terms = Chart(figure.kind, figure.title, figure.question, note=note, markup=drawn)
    return Page(
        title=result.name,
        subtitle=result.question or "one run",
        answer=comparison.text if comparison else "",
        glance=list(run_facts(result)),
        warnings=result.warnings,
        charts=[terms, *charts_of(source, "link_utilisation", "traffic_matrix")],
        tables=list(_tables(result)),
        provenance=provenance(result.versions, digest=result.digest, seed=result.seed),
        texts=list(_texts(source)),
    )


def _tables(result: RunResult) -> Iterator[Table]:
    yield terms_table(result)
    rival = result.comparison
    if rival is not None and (worth := value_table(rival.word, rival.value_of_information)) is not None:
        yield worth
    yield Table.of("What the prediction rests on", CALIBRATION, result.calibration, note=_WIDTH_NOTE)
    note = "Bytes of this job in one iteration, and their share of what the link can carry in that time."
    if result.links:
        yield Table.of("Busiest links", LINKS, list(_join_alike(result.links)), note=note)
    if result.memory:
        yield memory_table(result.memory)
    yield _density(result.density)
    if result.density_over_iterations:
        yield _iterations(result.density_over_iterations)


def _join_alike(links: Sequence[LinkLoad]) -> Iterator[LinkLoad]:
    """Links, those that carry the same as one row."""
    groups: dict[LinkLoad, list[str]] = {}
    for link in links:
        groups.setdefault(replace(link, name=""), []).append(link.name)
    for load, names in groups.items():
        yield replace(load, name=names[0] + (f" and {len(names) - 1} alike" if len(names) > 1 else ""))


def bars_of(result: RunResult, name: str) -> list[Bar]:
    """The terms of a run, and those of its opponent."""
    rival, bars = result.comparison, [Bar(name, split_idle(result.breakdown, result.idle), result.interval)]
    if rival is not None:
        others = split_idle(rival.opponent_breakdown, rival.opponent_idle)
        bars.append(Bar(rival.baseline, others, rival.opponent_interval))
    return bars


def terms_table(result: RunResult) -> Table:
    """Every term with its time and share, beside that of the opponent."""
    heads = (*columns("text", "term"), *columns("time", "time"), *columns("share", "share"))
    terms = terms_of(result)
    if result.comparison is None:
        return Table("Terms of the iteration", heads, [(row.label, row.seconds, row.share) for row in terms])
    rows = []
    for row in terms:
        # Terms that differ only by rounding are equal.
        other = row.other or 0.0
        change = row.seconds - other
        same = abs(change) <= 1e-12 * max(row.seconds, other)
        rows.append((row.label, row.seconds, row.share, other, 0.0 if same else change))
    heads += (*columns("time", other=result.comparison.baseline), *columns("time_difference", "difference"))
    return Table("Terms of the iteration", heads, rows)


def _density(density: Densities) -> Table:
    heads = (*columns("text", name="quantity"), *columns("figure", "value"), *columns("text", about="meaning"))
    rows = []
    for key in Densities.__struct_fields__:
        quantity = describe(f"density.{key}")
        rows.append([quantity.label, format_value(quantity.kind, getattr(density, key)), quantity.about])
    return Table("Density", heads, rows)


def _iterations(recorded: Sequence[RecordedStep]) -> Table:
    kinds = {"iteration": "count", "selected": "percent", "aggregated": "percent"}
    columns = [
        Column(key, "build-up" if key == "build_up" else key.replace("_", " "), kinds.get(key, "number"))
        for key in RecordedStep.__struct_fields__
    ]
    return Table.of("Density over the recorded iterations", columns, recorded)


def _texts(source: Source) -> Iterator[tuple[str, str]]:
    path = source.folder / "scenario.yaml" if source.folder is not None else None
    if path is not None and path.is_file() and (scenario := read_document(path).data):
        yield "The scenario, fully resolved", as_yaml(scenario)


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
        ends = values["iteration_time_interval_s.p5"], values["iteration_time_interval_s.p95"]
        bars.append(Bar(f"{side.upper()}: {name}", split_idle(breakdown, idle), ends))
    question = "Which terms make the difference?"
    yield Chart("terms_compared", "Where the time goes", question, markup=draw_term_bars(bars))
