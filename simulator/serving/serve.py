"""`sparsim serve`: open a port of this machine for this machine alone, and answer until interrupted."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

from simulator.errors import InputError, Problem
from simulator.loading.documents import read_document, read_text
from simulator.loading.finding import find_shipped, known_names, named_file, only_shipped_files
from simulator.serving.confinement import named_files

ADDRESS = "127.0.0.1"
_BACKLOG = 128


def serve(place: str, port: int, announce: Callable[[str], None]) -> None:
    """Serve the page with the scenario of a file or name until Ctrl-C; `announce` is called with its address.

    Raises InputError where the extra `serve` is absent, the scenario cannot be read or the port is taken.
    """
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        hint = "pip install 'sparsim[serve]'"
        raise InputError(Problem("sparsim serve", "the extra `serve`", f"no {error.name}", hint)) from None
    found = named_file(place, "scenarios")
    text, allowed = read_text(found), named_files(read_document(found), found.parent)
    with _open_port(port) as listening:
        number = int(listening.getsockname()[1])
        asyncio.run(_serve(text, allowed, listening, number, announce))


async def _serve(
    text: str, allowed: dict[str, Path], listening: socket.socket, port: int, announce: Callable[[str], None]
) -> None:
    import uvicorn

    from simulator.serving.app import BoundedProtocol, make_app
    from simulator.serving.calculators import Calculators

    calculators = Calculators(text, allowed)
    try:
        app = make_app(text, shipped_scenarios(), calculators, port)
        config = uvicorn.Config(
            app,
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=60,
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=16 * 1024,
        )
        await calculators.wait()
        announce(f"http://{ADDRESS}:{port}/")
        await uvicorn.Server(config).serve(sockets=[listening])
    finally:
        calculators.close()


def _open_port(port: int) -> socket.socket:
    try:
        return socket.create_server((ADDRESS, port), backlog=_BACKLOG)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        got = f"{port}, which another program uses" if taken else f"{port} ({os.strerror(error.errno or 0)})"
        raise InputError(Problem("--port", "a free port", got, "give another one, or 0 for any that is free")) from None


def shipped_scenarios() -> dict[str, str]:
    """The texts of the scenarios that come with the package, by name."""
    folder = find_shipped("scenarios")
    with only_shipped_files({}):
        names = known_names("scenarios")
    return {name: read_text(folder / f"{name}.yaml") for name in names} if folder else {}
