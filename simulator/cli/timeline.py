"""`sparsim timeline`: what happens when, for Perfetto."""

from __future__ import annotations

from pathlib import Path

import click

from simulator.cli.names import SCENARIO
from simulator.cli.root import OVERRIDE, main


@main.command(
    examples="""
    sparsim timeline quickstart -o quickstart.json.gz
    sparsim timeline mixed_gpus -o mixed.json.gz --workers 0,12 --iterations 0
"""
)
@click.argument("scenario", type=SCENARIO)
@OVERRIDE
@click.option(
    "-o",
    "--out",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.json.gz",
    help="File that is written; without .gz it is not compressed.",
)
@click.option(
    "--workers",
    metavar="0,3|all",
    help="Workers to draw.  [default: worker 0, the first and the last to finish their own part]",
)
@click.option("--iterations", metavar="0,19|all", help="Counted iterations to draw.  [default: the first and the last]")
@click.option(
    "--links", type=click.IntRange(0), default=8, show_default=True, help="Links with a counter, the busiest first."
)
def timeline(
    scenario: str, *, overrides: tuple[str, ...], out: Path, workers: str | None, iterations: str | None, links: int
) -> None:
    """Draw what happens when, as a Chrome trace for https://ui.perfetto.dev.

    A track per worker and stream, arrows from a bucket's gradient to its collective, and counters of link
    utilisation, bytes in flight and density. The slices of compute streams are the terms of the breakdown.
    """
    from simulator.errors import InputError, Problem
    from simulator.scenario.reading import load

    if not out.name.endswith((".json", ".json.gz")):
        raise InputError(Problem("--out", "a name that ends in .json.gz or .json", repr(out.name)))
    loaded = load(scenario, overrides)
    chosen = _numbers("--workers", workers, loaded.cluster.workers)
    drawn = _numbers("--iterations", iterations, loaded.iterations)

    from simulator.reporting.timeline.chrome_trace import trace_bytes
    from simulator.reporting.timeline.timeline import timeline as study
    from simulator.studies.storage.files import write_bytes

    made = study(loaded, chosen, drawn, links)
    content = trace_bytes(made, out.name.endswith(".gz"))
    write_bytes(out, content)
    counts = (len(made.about["workers_drawn"]), made.about["workers"], len(made.about["iterations_drawn_s"]))
    slices = sum(len(track.slices) for track in made.tracks)
    click.echo(
        f"{out}: {slices:,} slices, {len(made.arrows):,} arrows; {counts[0]} of {counts[1]} workers, "
        f"{counts[2]} of {loaded.iterations} iterations; {len(content) / 1e3:,.0f} kB. Open it in https://ui.perfetto.dev"
    )


def _numbers(option: str, text: str | None, count: int) -> list[int] | None:
    """`0,3` or `all` as numbers. Raises InputError for anything else."""
    from simulator.errors import InputError, Problem

    if text is None:
        return None
    if text == "all":
        return list(range(count))
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 10 for part in parts):
        raise InputError(Problem(option, "numbers such as 0,3, or all", repr(text)))
    return [int(part) for part in parts]
