"""`sparsim report`, `timeline` and `serve`: results as an HTML file, as one figure, as a timeline, and on a page."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from simulator.cli.arguments import KEY_VALUE, SET, CountOrZero, Overrides, ScenarioName, Where
from simulator.cli.root import main, say
from simulator.cli.signatures import command, written
from simulator.errors import InputError, Problem
from simulator.files import write_bytes
from simulator.loading.finding import find_file
from simulator.records import replace

if TYPE_CHECKING:
    from simulator.reporting.figures.data.sources import Source


@command(main)
def report(
    results: Annotated[tuple[str, ...], "RESULTS..."],
    *,
    out: Annotated[Path, "File to write.", written("-o", "--out", metavar="FILE.html")],
    figure: Annotated[
        str | None,
        "Draw this one of `sparsim list figures` as FILE.png, FILE.svg or FILE.pdf.",
        written(metavar="KIND"),
    ],
    where: Where,
    overrides: Annotated[
        tuple[str, ...],
        KEY_VALUE,
        "Set a dotted key of the scenario, or a parameter of the figure; may be repeated.",
        SET,
    ],
) -> None:
    """Write results as one HTML file, or as a figure.

    The file loads nothing from the network. It has drawings that show values at the pointer, and tables that can be
    sorted; it is dark where the reader's screen is, and fits a phone.

    RESULTS is what `sparsim run --out`, `sweep --out`, `validate --json`, `quality --scenario --json`, `trace build-up`
    or `calibrate` wrote, `-` for JSON on standard input, or a scenario, which is run first.

    With --figure one figure is drawn instead, of what is stored. Some compare several RESULTS. A CSV file of the same
    name holds the numbers that the figure shows.

    Examples:
        sparsim report quickstart -o quickstart.html
        sparsim report networks/10gbe-tcp -o network.html
        sparsim report out/map -o map.html
        sparsim report results/before --figure iteration_breakdown -o breakdown.svg
        sparsim report out/map --figure break_even_map -o map.png
    """
    if figure is not None:
        _draw(figure, results, out, where, overrides)
        return
    if where or len(results) > 1:
        raise click.UsageError("expected --figure KIND with --where or several RESULTS; see `sparsim list figures`")
    from simulator.reporting.figures.data.sources import refuse_edited
    from simulator.reporting.page.making import page_of, write_page

    with open_results(results[0], overrides) as source, refuse_edited(results[0]):
        write_page(page_of(source), out)
    click.echo(str(out))


def _draw(kind: str, places: Sequence[str], out: Path, where: Sequence[str], settings: Sequence[str]) -> None:
    from simulator.loading.replacing import parse_setting
    from simulator.reporting.figures.base import figure_of
    from simulator.reporting.figures.data.sources import open_sources, refuse_edited, select_rows
    from simulator.reporting.figures.making import write_figure

    member = figure_of(kind, dict(parse_setting(text, "quantity=iteration_time_s") for text in settings))
    source = select_rows(open_sources(places), dict(parse_setting(text, "workers=16") for text in where))
    with refuse_edited(source.place):
        picture, table = write_figure(member, member.data(source), out)
    click.echo(f"{picture}, {table}")


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

    from simulator.reporting.timeline.timeline import timeline as study
    from simulator.reporting.timeline.timeline import trace_bytes

    made = study(loaded, chosen, drawn, links)
    content = trace_bytes(made, out.name.endswith(".gz"))
    write_bytes(out, content)
    slices, workers_in_all = sum(map(len, made.tracks.values())), made.about["workers"]
    say(
        f"{out}: {slices:,} slices, {len(made.arrows):,} arrows; {len(made.workers)} of {workers_in_all} workers, "
        f"{len(made.shown)} of {loaded.iterations} iterations; {len(content) / 1e3:,.0f} kB. Open it in https://ui.perfetto.dev"
    )


@command(main)
def serve(
    scenario: ScenarioName = "quickstart",
    *,
    # Always the same: links that hold a scenario go on working when the page is served again.
    port: Annotated[int, click.IntRange(0, 65535), "Port; 0 takes any that is free."] = 8642,
    opened: Annotated[bool, "Open the page in the browser.", written("--open")],
) -> None:
    """Open a page on which a scenario is changed and answered at once.

    The page is served on this machine, for this machine alone (127.0.0.1), and loads nothing from the network. It
    starts from SCENARIO, a YAML file or the name of a shipped one.

    A scenario on the page names shipped parts only; files are read only where SCENARIO names them. Ctrl-C ends it.

    Examples:
        sparsim serve
        sparsim serve my.yaml --open
        sparsim serve quickstart --port 0
    """
    from simulator.serving.serve import serve as answer

    def announce(address: str) -> None:
        click.echo(f"{address}   (Ctrl-C ends it)")
        if opened:
            import webbrowser

            webbrowser.open(address)

    # Ctrl-C ends the server, which tells of it by an exception or, where it has no more to wait for, by its return.
    with suppress(KeyboardInterrupt):
        answer(scenario, port, announce)
    click.echo("ended", err=True)


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


@contextmanager
def open_results(place: str, overrides: Sequence[str] = ()) -> Iterator[Source]:
    """Results by their place; a scenario is run first, into a folder that exists while the source is open.

    Raises InputError where nothing is found that a page can be made of.
    """
    from simulator.loading.documents import read_document
    from simulator.reporting.figures.data.sources import open_source

    path = Path(place)
    if place != "-" and not path.is_dir() and path.suffix not in (".json", ".parquet", ".csv", ".gz"):
        files = (file for file in (find_file(place, None, "scenarios"), find_file(place, None)) if file is not None)
        config = next((file for file in files if file.suffix in (".yaml", ".yml")), None)
        data = read_document(config).data if config is not None else None
        if isinstance(data, dict) and "workload" in data:
            from simulator.prediction.run_files import store
            from simulator.studies.compare.opponent import run_with_comparison

            with tempfile.TemporaryDirectory() as folder:
                store(Path(folder), run_with_comparison(place, tuple(overrides)))
                yield replace(open_source(folder), place=place)
            return
    if overrides:
        raise InputError(Problem("--set", "a scenario to run", "results", "results cannot be changed"))
    yield open_source(place)
