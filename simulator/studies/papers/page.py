"""One page for a paper: the figures of its parts, and what the paper states beside what is found."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simulator.files import write_text
from simulator.reporting.figures.base import figure_of
from simulator.reporting.figures.data.selecting import select_rows
from simulator.reporting.figures.data.sources import open_source
from simulator.reporting.figures.making import write_figure
from simulator.reporting.wording.markdown import markdown_table
from simulator.reporting.wording.tables import Table, columns
from simulator.reporting.wording.values import KINDS
from simulator.studies.papers.carrying_out import ComparedStatement, PartResult
from simulator.studies.papers.document import ComputedFigure, PaperDocument

PAGE = "page.md"
_DPI = 110
"""Enough for a page, and small files."""


def write_paper(document: PaperDocument, results: Sequence[PartResult], out: Path, command: str) -> Path:
    """Draw the figures of all parts, with their tables as CSV files, and write the page; returns its path.

    Raises InputError where a figure cannot be drawn from its part, or a file cannot be written.
    """
    paper = document.paper
    lines = [f"# {paper.title}", "", f"{paper.citation}. {paper.read}", "", f"Made by `{command}`.", ""]
    for result in results:
        lines += [f"## {_sentence(result.part.shows)}", ""]
        for name in _draw(result, out):
            lines += [f"![{result.part.shows}]({name})", ""]
        lines += _table(result.answers)
    write_text(out / PAGE, "\n".join(lines).rstrip() + "\n")
    return out / PAGE


def _draw(result: PartResult, out: Path) -> list[str]:
    """The figures of a part, as files in `out`; returns their names."""
    names = []
    for number, drawing in enumerate(result.part.figures):
        member = figure_of(drawing.kind, drawing.settings)
        source = select_rows(open_source(str(result.folder)), drawing.where)
        data = member.data(source).replace(drawing.names)
        name = result.part.name + (f"_{number + 1}" if number else "")
        write_figure(member, data, out / f"{name}.png", _sentence(result.part.shows), _DPI)
        names.append(f"{name}.png")
    return names


def _table(answers: Sequence[ComparedStatement]) -> list[str]:
    rows = []
    for answer in answers:
        place = f" ({answer.statement.place})" if answer.statement.place else ""
        found = "; ".join(f"{item.what}: **{show(item, value)}**" for item, value in answer.values)
        rows.append((answer.statement.says + place, found))
    table = markdown_table(Table("", columns("words", "the paper states", "found here"), rows))
    notes = [answer.statement.note for answer in answers if answer.statement.note]
    return [table, "", *(line for note in notes for line in (" ".join(note.split()), ""))]


def show(found: ComputedFigure, value: float | str) -> str:
    """A figure as text."""
    if isinstance(value, str):
        return value
    return f"{value:.3g} times" if found.show == "times" else str(KINDS[found.show](value))


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
