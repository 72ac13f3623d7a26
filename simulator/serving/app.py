"""The web application: the page, its files, shipped scenarios, and answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from simulator.serving.calculators import BusyError, Calculators
from simulator.serving.fragments import SHARED, asset, render_page
from simulator.serving.guard import Guard

ASSETS = {
    **dict.fromkeys(SHARED, "text/css"),
    "serve.css": "text/css",
    "serve.js": "text/javascript",
    "sliders.js": "text/javascript",
}
_PATIENCE_S = 10
"""A body that has not arrived by then is not waited for."""


def make_app(text: str, scenarios: Mapping[str, str], calculators: Calculators, port: int) -> Guard:
    """The application. `text`: the scenario that the page starts from; `scenarios`: shipped ones by name."""
    page = render_page(text, list(scenarios))
    files = {name: asset(name) for name in ASSETS}

    async def show_page(_: Request) -> Response:
        return Response(page, media_type="text/html")

    async def show_file(request: Request) -> Response:
        name = request.path_params["name"]
        return Response(files[name], media_type=ASSETS[name]) if name in files else _absent()

    async def show_scenario(request: Request) -> Response:
        name = request.path_params["name"]
        return PlainTextResponse(scenarios[name]) if name in scenarios else _absent()

    async def answer(request: Request) -> Response:
        page_number = request.headers.get("sparsim-page", "")[:64]
        try:
            async with asyncio.timeout(_PATIENCE_S):
                body = await request.body()
            lines = await calculators.ask(page_number, body)
        except (TimeoutError, ClientDisconnect):
            return PlainTextResponse("expected the whole request\n", status_code=408)
        except BusyError:
            return PlainTextResponse("too many questions wait: try again in a few seconds\n", status_code=503)
        return StreamingResponse(lines, media_type="application/x-ndjson")

    routes = [
        Route("/", show_page, methods=["GET"]),
        Route("/assets/{name}", show_file, methods=["GET"]),
        Route("/scenarios/{name}", show_scenario, methods=["GET"]),
        Route("/answer", answer, methods=["POST"]),
    ]
    return Guard(Starlette(routes=routes), port)


def _absent() -> Response:
    return PlainTextResponse("not found\n", status_code=404)
