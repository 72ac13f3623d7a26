"""The web application: what it answers, which requests it refuses, and which connections it closes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import h11
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from simulator.scenario.versions import versions
from simulator.serving.calculators import BusyError, Calculators
from simulator.serving.fragments import SHARED, asset, render

SILENCE_S = 10.0
"""A connection that has not sent the headers of a request by then is closed."""
MOST_CONNECTIONS = 512
"""Of more connections than these, those that have asked for nothing are closed."""


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 with a time limit for headers: bytes that arrive one by one do not extend it.

    After an answer a connection may stay silent for as long as the server keeps it; then the limit is on, again.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Start the limit; of too many connections one that has asked for nothing is closed."""
        others = [other for other in self.connections if isinstance(other, BoundedProtocol)]
        if len(others) >= MOST_CONNECTIONS:
            next((other for other in others if other.awaits_headers), others[0]).transport.close()
        super().connection_made(transport)
        self._limit = self._start_limit()

    @property
    def awaits_headers(self) -> bool:
        """Whether no request is being read or answered."""
        return self.conn.their_state is h11.IDLE

    def data_received(self, data: bytes) -> None:
        """Read what came; once the headers of a request are whole, it has no limit of time here."""
        super().data_received(data)
        if not self.awaits_headers:
            self._limit.cancel()
        elif self._limit.cancelled():
            self._limit = self._start_limit()

    def _start_limit(self) -> asyncio.TimerHandle:
        return self.loop.call_later(SILENCE_S, self.transport.close)


MAX_BODY = 256 * 1024
"""Most bytes of a request's body."""
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """An ASGI application that refuses what did not come from its own page, and passes on the rest.

    A page of another site may send requests to the loopback address. It cannot choose the header `Origin`, and where
    its name was made to point to 127.0.0.1 (DNS rebinding) the header `Host` has that name.
    """

    def __init__(self, app: ASGIApp, port: int) -> None:
        self.app = app
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            await (self._refusal(scope) or self._pass_on)(scope, receive, send)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        """The reply with the reason where a request is refused."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0] not in self.hosts:
            return _refuse(403, f"expected this page's own address, http://{min(self.hosts)}")
        if not self._is_own(scope["method"], headers):
            return _refuse(403, "expected a request of this page")
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if scope["method"] == "POST" and kind != "application/json":
            return _refuse(415, "expected application/json")
        lengths = headers.getlist("content-length")
        if any(not length.isdecimal() or len(length) > 18 or int(length) > MAX_BODY for length in lengths):
            return _refuse_size()
        return None

    def _is_own(self, method: str, headers: Headers) -> bool:
        """Whether a request comes from this page, or opens it."""
        origins = headers.getlist("origin")
        if method not in ("GET", "HEAD"):
            return len(origins) == 1 and origins[0] in self.origins
        # Somebody may have followed a link to the page, as from a mail: it is opened, nothing is read.
        is_link = [headers.getlist(f"sec-fetch-{what}") for what in ("mode", "dest")] == [["navigate"], ["document"]]
        own = headers.get("sec-fetch-site", "none") in ("none", "same-origin")
        return all(origin in self.origins for origin in origins) and (own or is_link)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sealed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await self.app(scope, receive, sealed)


def _refuse(status: int, text: str) -> PlainTextResponse:
    return PlainTextResponse(f"{text}\n", status, {**HEADERS, "connection": "close"})


def _refuse_size() -> PlainTextResponse:
    return _refuse(413, f"expected at most {MAX_BODY} bytes")


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
    page = render("page", text=text, scenarios=list(scenarios), version=versions()["sparsim"])
    shown = {
        "/": (page, "text/html"),
        **{f"/assets/{name}": (asset(name), kind) for name, kind in ASSETS.items()},
        **{f"/scenarios/{name}": (content, "text/plain") for name, content in scenarios.items()},
    }

    async def show(request: Request) -> Response:
        content, kind = shown[request.scope["path"]]
        return Response(content, media_type=kind)

    async def answer(request: Request) -> Response:
        page_number = request.headers.get("sparsim-page", "")[:64]
        try:
            async with asyncio.timeout(_PATIENCE_S):
                body = b""
                async for part in request.stream():
                    body += part
                    if len(body) > MAX_BODY:
                        return _refuse_size()
            lines = await calculators.ask(page_number, body)
        except (TimeoutError, ClientDisconnect):
            return PlainTextResponse("expected the whole request\n", status_code=408)
        except BusyError:
            return PlainTextResponse("too many questions wait: try again in a few seconds\n", status_code=503)
        return StreamingResponse(lines, media_type="application/x-ndjson")

    routes = [Route(path, show, methods=["GET"]) for path in shown]
    return Guard(Starlette(routes=[*routes, Route("/answer", answer, methods=["POST"])]), port)
