"""`sparsim report`, `figure` and `timeline`: results as an HTML file, as one figure, and as a timeline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import click

from simulator.cli.arguments import SET, AsJson, CountOrZero, Overrides, ScenarioName
from simulator.cli.root import main, print_json, say
from simulator.cli.signatures import command, written
from simulator.errors import InputError, Problem


@command(main)
def report(
    results: Annotated[str, "RESULTS"],
    *,
    out: Annotated[Path, "File to write.", written("-o", "--out", metavar="FILE.html")],
    overrides: Overrides,
) -> None:
    """Write results as one HTML file.

    The file loads nothing from the network. It has drawings that show values at the pointer, and tables that can be
    sorted; it is dark where the reader's screen is, and fits a phone.

    RESULTS is what `sparsim run --out`, `sweep --out`, `validate --json`, `quality --scenario --json`, `trace build-up`
    or `calibrate` wrote, `-` for JSON on standard input, or a scenario, which is run first.

    Examples:
        sparsim report quickstart -o quickstart.html
        sparsim report networks/10gbe-tcp -o network.html
        sparsim report out/map -o map.html
    """
    from simulator.cli.opening import open_results
    from simulator.reporting.page.making import page_of, write_page

    with open_results(results, overrides) as source:
        write_page(page_of(source), out)
    click.echo(str(out))


@command(main)
def figure(
    kind: str | None = None,
    sources: Annotated[tuple[str, ...], "SOURCE..."] = (),
    *,
    out: Annotated[Path | None, "FILE.png, FILE.svg or FILE.pdf.", written("-o", "--out")],
    where: Annotated[tuple[str, ...], "Use only these rows of a sweep; may be repeated.", written(metavar="KEY=VALUE")],
    settings: Annotated[tuple[str, ...], "Set a parameter of the figure.", SET],
    listed: Annotated[bool, "List the figures, what they show, and what they are drawn from.", written("--list")],
    as_json: AsJson,
) -> None:
    """Draw one figure from results.

    A CSV file of the same name holds the numbers that the figure shows.

    Examples:
        sparsim figure --list
        sparsim figure iteration_breakdown results/before -o breakdown.svg
        sparsim figure break_even_map out/map -o map.png
    """
    if listed:
        _list_figures(as_json)
        return
    if kind is None or not sources or out is None:
        raise click.UsageError("expected KIND SOURCE -o FILE, or --list")
    from simulator.reporting.figures.base import figure_of
    from simulator.reporting.figures.data.selecting import select_rows
    from simulator.reporting.figures.data.sources import open_sources, parse_settings
    from simulator.reporting.figures.making import write_figure

    member = figure_of(kind, parse_settings(settings))
    source = select_rows(open_sources(sources), parse_settings(where))
    picture, table = write_figure(member, member.data(source), out)
    click.echo(f"{picture}, {table}")


def _list_figures(as_json: bool) -> None:
    from simulator.reporting.figures.base import figures
    from simulator.reporting.figures.data.sources import KINDS

    if as_json:
        rows = [
            {"kind": k, "title": f.title, "question": f.question, "takes": list(f.takes), "columns": f.columns}
            for k, f in figures().items()
        ]
        print_json({"figures": rows})
        return
    for kind, member in figures().items():
        say(f"{kind}: {member.question}", indent="    ")
        for source in member.takes:
            say(f"    from {KINDS[source]}", indent="        ")


@command(main)
def timeline(
    scenario: ScenarioName,
    *,
    overrides: Overrides,
    out: Annotated[
        Path, "File to write; without .gz it is not compressed.", written("-o", "--out", metavar="FILE.json.gz")
    ],
    workers: Annotated[
        str | None,
        "Workers to draw.  [default: worker 0, and the first and the last to finish their own computation]",
        written(metavar="0,3|all"),
    ],
    iterations: Annotated[
        str | None, "Counted iterations to draw.  [default: the first and the last]", written(metavar="0,19|all")
    ],
    links: Annotated[CountOrZero, "How many links to draw, the busiest first."] = 8,
) -> None:
    """Write what happens when, for https://ui.perfetto.dev

    The file is a Chrome trace. It has a track for each worker and stream, arrows from the gradient of a bucket to its
    collective, and counters of link utilisation, bytes in flight and density. The slices of the compute streams are the
    terms of the breakdown.

    Examples:
        sparsim timeline quickstart -o quickstart.json.gz
        sparsim timeline mixed_gpus -o mixed.json.gz --workers 0,12 --iterations 0
    """
    from simulator.scenario.reading import load

    if not out.name.endswith((".json", ".json.gz")):
        raise InputError(Problem("--out", "a name that ends in .json.gz or .json", repr(out.name)))
    loaded = load(scenario, overrides)
    chosen = _parse_numbers("--workers", workers, loaded.cluster.workers)
    drawn = _parse_numbers("--iterations", iterations, loaded.iterations)

    from simulator.files import write_bytes
    from simulator.reporting.timeline.chrome_trace import trace_bytes
    from simulator.reporting.timeline.timeline import timeline as study

    made = study(loaded, chosen, drawn, links)
    content = trace_bytes(made, out.name.endswith(".gz"))
    write_bytes(out, content)
    counts = (len(made.about["workers_drawn"]), made.about["workers"], len(made.about["iterations_drawn_s"]))
    slices = sum(len(track.slices) for track in made.tracks)
    say(
        f"{out}: {slices:,} slices, {len(made.arrows):,} arrows; {counts[0]} of {counts[1]} workers, "
        f"{counts[2]} of {loaded.iterations} iterations; {len(content) / 1e3:,.0f} kB. Open it in https://ui.perfetto.dev"
    )


def _parse_numbers(option: str, text: str | None, count: int) -> list[int] | None:
    """`0,3` as numbers, `all` as those below `count`. Raises InputError for anything else."""
    if text is None:
        return None
    if text == "all":
        return list(range(count))
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise InputError(Problem(option, "numbers such as 0,3, or all", repr(text)))
    return [int(part) for part in parts]
