"""`sparsim reproduce`: the experiments of published papers, set up again."""

from __future__ import annotations

import shlex
from typing import Annotated

import click

from simulator.cli.arguments import PAPER, Folder, Processes
from simulator.cli.root import main, say
from simulator.cli.signatures import command, written


@command(main)
def reproduce(
    paper: Annotated[str | None, PAPER] = None,
    *,
    out: Annotated[Folder | None, "Folder to write."],
    parts: Annotated[tuple[str, ...], "Carry out only this part; may be repeated.", written("--part", metavar="NAME")],
    quick: Annotated[bool, "Smaller values, for a first look."],
    workers: Processes,
) -> None:
    """Set up the experiments of a paper again.

    Carries out every part of the paper's document, draws its figures, and writes a page (page.md) with what the paper
    states beside what is found. PAPER is a YAML file or the name of a shipped one; without it, all are listed. The same
    command continues after an interruption.

    Examples:
        sparsim reproduce
        sparsim reproduce skip-reduce --out results/skip-reduce
        sparsim reproduce gaussiank --part selection_time --out results/gaussiank
    """
    from simulator.studies.papers.document import read_paper

    if paper is None:
        _list_papers()
        return
    if out is None:
        raise click.UsageError("expected --out FOLDER")
    document = read_paper(paper, quick)

    from simulator.reporting.terminal.progress import show_progress
    from simulator.studies.papers.carrying_out import carry_out
    from simulator.studies.papers.page import write_paper

    results = []
    with show_progress() as observe:
        for result in carry_out(document, out, parts, workers, observe):
            say(f"{result.part.name}: {result.part.shows}", indent="    ")
            results.append(result)
    options = [*(f"--part {name}" for name in parts), *(["--quick"] if quick else [])]
    command = " ".join(["sparsim reproduce", shlex.quote(paper), *options, "--out FOLDER"])
    click.echo(f"{write_paper(document, results, out, command)}: written")


def _list_papers() -> None:
    from simulator.loading.finding import known_names
    from simulator.studies.papers.document import PAPERS, read_paper

    for name in known_names(PAPERS):
        paper = read_paper(name).paper
        say(f"{name}: {paper.title} ({paper.citation})", indent="    ")
        for part in paper.parts:
            say(f"    {part.name}: {part.shows}", indent="        ")
