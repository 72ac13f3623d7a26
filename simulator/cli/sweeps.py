"""`sparsim sweep`: many points of a grid."""

from __future__ import annotations

from pathlib import Path

import click

from simulator.cli.names import SCENARIO, SWEEP
from simulator.cli.root import FOLDER, main

_LISTED = 20
INTERRUPTED = 130


def _shard(_: click.Context, __: click.Parameter, text: str | None) -> tuple[int, int] | None:
    """`i/n`: the i-th of n parts, from 1."""
    if text is None:
        return None
    part, _slash, parts = text.partition("/")
    if not (part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise click.BadParameter(f"expected i/n with i from 1 to n, such as 2/4, got {text!r}")
    return int(part), int(parts)


@main.command(
    examples="""
    sparsim sweep density_sweep --out results/density
    sparsim sweep break_even_map --base my.yaml --out results/map
    sparsim sweep big --out results/big --shard 2/4 --workers 8
"""
)
@click.argument("sweep_file", metavar="SWEEP", type=SWEEP)
@FOLDER
@click.option("--base", type=SCENARIO, help="Vary this scenario in the place of the sweep's own.")
@click.option("--workers", type=click.IntRange(1), help="Processes on this machine.  [default: one per core]")
@click.option("--cluster", metavar="ADDRESS", help="Evaluate on the workers of this Dask scheduler.")
@click.option("--shard", callback=_shard, metavar="I/N", help="Only the I-th of N parts, in files with that name.")
@click.option("--fail-fast", is_flag=True, help="Stop at the first point that fails.")
@click.pass_context
def sweep(
    ctx: click.Context,
    sweep_file: str,
    out: Path,
    *,
    base: str | None,
    workers: int | None,
    cluster: str | None,
    shard: tuple[int, int] | None,
    fail_fast: bool,
) -> None:
    """Predict every point of a grid; one tidy row a point in results.parquet and results.csv.

    \b
    What is finished is in the folder at once: the same command goes on where it was interrupted, and points that
    another sweep has left there are reused. Shards may share a folder; the same command without --shard joins them.
    Columns: the varied keys, then the keys of `sparsim run --json` joined by dots, last `error`.
    Exit code 1: some points failed.
    """
    if workers is not None and cluster is not None:
        raise click.UsageError("expected --workers or --cluster, got both")
    from simulator.reporting.terminal.progress import show_progress
    from simulator.studies.sweep.sweep import PointFailed, run_sweep

    try:
        with show_progress() as observe:
            swept = run_sweep(
                sweep_file,
                out,
                base=base,
                workers=workers,
                cluster=cluster,
                shard=shard,
                fail_fast=fail_fast,
                observe=observe,
            )
    except PointFailed as error:
        click.echo(f"stopped at the first point that failed: {error}", err=True)
        ctx.exit(1)
    except KeyboardInterrupt:
        click.echo(f"interrupted; what is finished is in {out}, and the same command goes on from there", err=True)
        ctx.exit(INTERRUPTED)
    counts = swept.manifest
    click.echo(
        f"{counts['points']} points, {counts['distinct']} of them distinct: {counts['evaluated']} evaluated, "
        f"{counts['reused']} reused, {swept.failed} failed; {out}"
    )
    if swept.failed:
        messages = swept.table["error"].dropna().value_counts(sort=False)
        for message, count in list(messages.items())[:_LISTED]:
            click.echo(f"{count} failed: {message}", err=True)
        if len(messages) > _LISTED:
            click.echo(f"and {len(messages) - _LISTED} other messages; see the column `error`", err=True)
        ctx.exit(1)
