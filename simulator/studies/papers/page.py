"""One page for a paper: the figures of its parts, and what the paper states beside what is found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simulator.errors import InputError, Problem, collect_problems
from simulator.files import write_text
from simulator.reporting.figures.base import figure_of
from simulator.reporting.figures.data.sources import open_source, select_rows
from simulator.reporting.figures.making import write_figure
from simulator.reporting.wording.blocks import Table, columns, markdown_table
from simulator.reporting.wording.traces import NOT_SETTLED
from simulator.studies.papers.carrying_out import PartResult
from simulator.studies.papers.claims import Claim, claim_table, show
from simulator.studies.papers.document import Paper, PaperDocument

PAGE = "page.md"
OVERVIEW = "claims.md"
_DPI = 110
"""Enough for a page, and small files."""


def write_paper(document: PaperDocument, results: Sequence[PartResult], out: Path, command: str) -> Path:
    """Draw the figures of all parts, with their tables as CSV files, and write the page; returns its path.

    A part that could not be run stands on the page with what it needs, and one that failed, or of which a figure cannot
    be drawn, with its problems. Raises InputError with the problems, once the page is written, and where a file cannot
    be written.
    """
    paper = document.paper
    order, problems = [part.name for part in paper.parts], list[Problem]()
    lines = [f"# {paper.title}", "", f"{paper.citation}. {paper.read}", "", f"Made by `{command}`.", ""]
    for result in sorted(results, key=lambda each: order.index(each.part.name)):
        lines += [f"## {_sentence(result.part.shows)}", ""]
        if result.missing:
            lines += [f"**Not run: {result.missing}**", ""]
        failed = list(result.problems)
        with collect_problems(failed):
            for name, shows in [] if result.rows is None else _draw(paper, result, out):
                lines += [f"![{shows}]({name})", ""]
        lines += [line for each in failed for line in (f"**Failed: {' '.join(str(each).split())}**", "")]
        problems += failed
        lines += _table(paper, result.claims)
    write_text(out / PAGE, "\n".join(lines).rstrip() + "\n")
    if problems:
        raise InputError(problems)
    return out / PAGE


def write_overview(made: Sequence[tuple[PaperDocument, Sequence[PartResult]]], out: Path) -> Path:
    """Write a table of the claims of papers, with what becomes of them on today's kernels; returns its path."""
    rows = [
        (document.name, document.paper, [claim for result in results for claim in result.claims])
        for document, results in made
    ]
    write_text(out / OVERVIEW, f"# Which claims survive today's kernels\n\n{markdown_table(claim_table(rows))}\n")
    return out / OVERVIEW


def _draw(paper: Paper, result: PartResult, out: Path) -> list[tuple[str, str]]:
    """The figures of a part, as files in `out`: their names and what they show, with the kernel of their rows."""
    names = []
    for number, drawing in enumerate(result.part.figures):
        member = figure_of(drawing.kind, drawing.settings)
        source = select_rows(open_source(str(result.folder)), drawing.where)
        data = member.data(source).replace(drawing.names)
        name = result.part.name + (f"_{number + 1}" if number else "")
        of = [kernel for kernel, rows in paper.kernels.items() if rows.items() <= drawing.where.items()]
        shows = ", ".join([result.part.shows, *of])
        write_figure(member, data, out / f"{name}.png", _sentence(shows), _DPI)
        names.append((f"{name}.png", shows))
    return names


def _table(paper: Paper, claims: Sequence[Claim]) -> list[str]:
    kernels = any(claim.statement.by_kernel for claim in claims)
    rows: list[tuple[str, ...]] = []
    for claim in claims:
        stated = claim.statement
        said = stated.says + (f" ({stated.place}, {stated.source or paper.source})" if stated.place else "")
        if not claim.findings:
            rows.append((said, claim.stated, "", claim.absent, "–", "–"))
        for finding in claim.findings:
            found = "; ".join(f"{item.what}: **{show(item, value)}**" for item, value in finding.values)
            found += "" if finding.settled else f" ({NOT_SETTLED})"
            ratio = claim.ratio(finding)
            compared = "–" if ratio is None else f"{ratio:.3g}", claim.inside_words(finding) or "–"
            rows.append((said, claim.stated, finding.kernel, found, *compared))
    labels = ("the paper states", "as a figure", "kernel of the selection", "found here", "ratio", "inside")
    kept = [place for place in range(len(labels)) if kernels or place != 2]
    shown = Table("", columns("words", *(labels[place] for place in kept)), [[row[i] for i in kept] for row in rows])
    notes = [claim.statement.note for claim in claims if claim.statement.note]
    return [markdown_table(shown), "", *(line for note in notes for line in (" ".join(note.split()), ""))]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
