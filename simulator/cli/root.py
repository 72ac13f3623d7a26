"""The command `sparsim`: its options, its errors, and how a document is shown."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from simulator.cli.examples import ExampleGroup
from simulator.cli.names import KEY_VALUE

if TYPE_CHECKING:
    from rich.console import Console

OVERRIDE = click.option(
    "--set",
    "overrides",
    type=KEY_VALUE,
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a dotted key; may be repeated.",
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document alone on stdout.")
FOLDER = click.option(
    "--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder that is written."
)


class _Group(ExampleGroup):
    """Turns the package's own errors into one line each and the contract's exit codes."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            from simulator.errors import SparsimError

            text = str(error) if isinstance(error, SparsimError) else _of_the_machine(error)
            if not text:
                raise
            click.echo(text, err=True)
            ctx.exit(2)


def _of_the_machine(error: Exception) -> str:
    """What the machine could not do, in words: write a file, read one, find memory. Empty for errors of ours."""
    from simulator.errors import Problem

    if isinstance(error, OSError) and error.errno is not None and error.errno != errno.EPIPE:
        hint = "make room and try again" if error.errno == errno.ENOSPC else ""
        what, got = "a file that can be read or written", error.strerror or type(error).__name__
        return str(Problem(str(error.filename or "sparsim"), what, got, hint))
    if isinstance(error, MemoryError):
        return str(Problem("sparsim", "input that fits into memory", str(error) or "more", "ask for something smaller"))
    return ""


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    examples="""
    sparsim run quickstart
    sparsim run my.yaml --set sparsifier.density=0.01 --set cluster.nodes=16
    sparsim validate
""",
)
@click.version_option(package_name="sparsim")
def main() -> None:
    """Does compressing gradients pay, on my cluster, with my model? A simulator of data-parallel GPU training."""


def show(document: dict[str, Any], as_json: bool, printer: str, module: str = "tables") -> None:
    """Print a document as JSON, or by a function of a module of `reporting.terminal`."""
    if as_json:
        click.echo(json.dumps(document, indent=2, allow_nan=False))
        return
    show: Callable[[dict[str, Any], Console], None] = getattr(
        import_module(f"simulator.reporting.terminal.{module}"), printer
    )
    show(document, console())


def console() -> Console:
    """What tables are printed on."""
    from rich.console import Console

    # Not a terminal: no width is known, and a table cut at 80 columns helps nobody.
    return Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 140, soft_wrap=False)
