"""Which requests are answered: of this page alone, by its own address, and of bounded size."""

from __future__ import annotations

from contextlib import suppress

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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


class _TooLargeError(Exception):
    """A body that exceeds the limit."""


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
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
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
            return _refuse(413, f"expected at most {MAX_BODY} bytes")
        return None

    def _is_own(self, method: str, headers: Headers) -> bool:
        """Whether a request comes from this page, or opens it."""
        origins = headers.getlist("origin")
        if method not in ("GET", "HEAD"):
            return len(origins) == 1 and origins[0] in self.origins
        known = all(origin in self.origins for origin in origins)
        return known and (headers.get("sec-fetch-site", "none") in ("none", "same-origin") or _is_link(headers))

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > MAX_BODY:
                await _refuse(413, f"expected at most {MAX_BODY} bytes")(scope, receive, send)
                raise _TooLargeError
            return message

        async def sealed(message: Message) -> None:
            if size > MAX_BODY:
                return  # refused already
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        with suppress(_TooLargeError):
            await self.app(scope, counted, sealed)


def _is_link(headers: Headers) -> bool:
    """Whether somebody followed a link to the page, as from a mail: the page itself is opened, nothing is read."""
    return headers.getlist("sec-fetch-mode") == ["navigate"] and headers.getlist("sec-fetch-dest") == ["document"]


def _refuse(status: int, text: str) -> PlainTextResponse:
    return PlainTextResponse(f"{text}\n", status, {**HEADERS, "connection": "close"})
