"""`sparsim serve`: a page on which a scenario is changed and answered."""

from __future__ import annotations

from contextlib import suppress

import click

from simulator.cli.arguments import SCENARIO
from simulator.cli.root import main

_PORT = 8642


@main.command(
    examples="""
    sparsim serve
    sparsim serve my.yaml --open
    sparsim serve quickstart --port 0
"""
)
@click.argument("scenario", type=SCENARIO, default="quickstart")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=_PORT, show_default=True, help="Port; 0 takes any that is free."
)
@click.option("--open", "opened", is_flag=True, help="Open the page in the browser.")
def serve(scenario: str, port: int, opened: bool) -> None:
    """Open a page on which a scenario is changed and answered at once.

    The page is served on this machine, for this machine alone (127.0.0.1), and loads nothing from the network. It
    starts from SCENARIO, a YAML file or the name of a shipped one.

    A scenario on the page names shipped parts only; files are read only where SCENARIO names them. Ctrl-C ends it.
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
