"""`sparsim reproduce`: the experiments of published papers, set up again."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from simulator.cli.arguments import FileName, Folder, Processes
from simulator.cli.root import main, say
from simulator.cli.signatures import command, written
from simulator.errors import InputError, Problem, collect_problems
from simulator.loading.finding import known_names
from simulator.reporting.terminal.progress import show_progress

if TYPE_CHECKING:
    from simulator.studies.papers.carrying_out import PartResult
    from simulator.studies.papers.document import PaperDocument


@command(main)
def reproduce(
    paper: Annotated[str | None, FileName("paper", "scenarios/papers")] = None,
    *,
    out: Annotated[Folder | None, "Folder to write."],
    parts: Annotated[tuple[str, ...], "Carry out only this part; may be repeated.", written("--part", metavar="NAME")],
    quick: Annotated[bool, "Smaller values, for a first look."],
    workers: Processes,
) -> None:
    """Set up the experiments of a paper again.

    Carries out every part of the paper's document, draws its figures, and writes a page (page.md) with what the paper
    states beside what is found. PAPER is a YAML file or the name of a shipped one. Without it, all are listed, or with
    --out set up again, and a table (claims.md) says which claims survive today's kernels. Trainings that
    come with a paper are read; others need PyTorch, without which they are marked on the page. A part that fails
    is marked, too, and the command ends with an error when everything else is written. The same command continues
    after an interruption.

    Examples:
        sparsim reproduce
        sparsim reproduce skip-reduce --out results/skip-reduce
        sparsim reproduce gaussiank --part selection_time --out results/gaussiank
    """
    from simulator.studies.papers.document import PAPERS

    if out is None and paper is None:
        _list_papers()
        return
    if out is None:
        raise click.UsageError("expected --out FOLDER")
    problems: list[Problem] = []
    if paper is not None:
        _set_up(paper, out, parts, problems, quick=quick, workers=workers)
    else:
        if parts:
            raise click.UsageError("--part belongs to one paper: expected its name")
        made = []
        for name in known_names(PAPERS):
            with collect_problems(problems):
                made.append(_set_up(name, out / name, (), problems, quick=quick, workers=workers))

        from simulator.studies.papers.page import write_overview

        click.echo(f"{write_overview(made, out)}: written")
    if problems:
        raise InputError(problems)


def _set_up(
    name: str, out: Path, parts: tuple[str, ...], problems: list[Problem], *, quick: bool, workers: int | None
) -> tuple[PaperDocument, list[PartResult]]:
    """Carry out a paper and write its page; what fails is added to the problems."""
    from simulator.studies.papers.carrying_out import carry_out
    from simulator.studies.papers.document import read_paper
    from simulator.studies.papers.page import PAGE, write_paper

    document, results = read_paper(name, quick), []
    with show_progress() as observe:
        for result in carry_out(document, out, parts, workers, observe):
            left = f" is left out: {result.missing}" if result.missing else f": {result.part.shows}"
            left = " failed" if result.problems else left
            say(f"{result.part.name}{left}", indent="    ")
            results.append(result)
    options = [*(f"--part {part}" for part in parts), *(["--quick"] if quick else [])]
    command = " ".join(["sparsim reproduce", shlex.quote(name), *options, "--out FOLDER"])
    with collect_problems(problems):
        write_paper(document, results, out, command)
    click.echo(f"{out / PAGE}: written")
    return document, results


def _list_papers() -> None:
    from simulator.studies.papers.document import PAPERS, read_paper

    for name in known_names(PAPERS):
        paper = read_paper(name).paper
        say(f"{name}: {paper.title} ({paper.citation})", indent="    ")
        for part in paper.parts:
            say(f"    {part.name}: {part.shows}", indent="        ")
