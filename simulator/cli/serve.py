"""`sparsim serve`: a page on which a scenario is changed and answered."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import click

from simulator.cli.arguments import ScenarioName
from simulator.cli.root import main
from simulator.cli.signatures import command, written

_PORT = 8642
"""The port that is tried first: links that hold a scenario go on working when the page is served again."""


@command(main)
def serve(
    scenario: ScenarioName = "quickstart",
    *,
    port: Annotated[int, click.IntRange(0, 65535), "Port; 0 takes any that is free."] = _PORT,
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
