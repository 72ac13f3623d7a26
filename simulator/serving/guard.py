"""Which requests are answered: of this page alone, by its own address, and of bounded size."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from typing import Any

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

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class _TooLargeError(Exception):
    """A body that exceeds the limit."""


class Guard:
    """An ASGI application that refuses what did not come from its own page, and passes on the rest.

    A page of another site may send requests to the loopback address. It cannot choose the header `Origin`, and where
    its name was made to point to 127.0.0.1 (DNS rebinding) the header `Host` has that name.
    """

    def __init__(self, app: App, port: int) -> None:
        self.app = app
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        status, text = self._refusal(scope)
        if status:
            await _refuse(send, status, text)
            return
        await self._pass_on(scope, receive, send)

    def _refusal(self, scope: Message) -> tuple[int, str]:
        """Status and reason where a request is refused; 0 where it is not."""
        named: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            named.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        if len(named.get("host", [])) != 1 or named["host"][0] not in self.hosts:
            return 403, f"expected this page's own address, http://{min(self.hosts)}"
        if not self._is_own(scope["method"], named):
            return 403, "expected a request of this page"
        kind = named.get("content-type", [""])[0].partition(";")[0].strip().lower()
        if scope["method"] == "POST" and kind != "application/json":
            return 415, "expected application/json"
        lengths = named.get("content-length", [])
        if any(not length.isdecimal() or len(length) > 18 or int(length) > MAX_BODY for length in lengths):
            return 413, f"expected at most {MAX_BODY} bytes"
        return 0, ""

    def _is_own(self, method: str, named: dict[str, list[str]]) -> bool:
        """Whether a request comes from this page, or opens it."""
        origins = named.get("origin", [])
        if method not in ("GET", "HEAD"):
            return len(origins) == 1 and origins[0] in self.origins
        known = all(origin in self.origins for origin in origins)
        return known and (named.get("sec-fetch-site", ["none"])[0] in ("none", "same-origin") or _is_link(named))

    async def _pass_on(self, scope: Message, receive: Receive, send: Send) -> None:
        size = 0

        async def counted() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > MAX_BODY:
                await _refuse(send, 413, f"expected at most {MAX_BODY} bytes")
                raise _TooLargeError
            return message

        async def sealed(message: Message) -> None:
            if size > MAX_BODY:
                return  # refused already
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *_sealed_headers()]}
            await send(message)

        with suppress(_TooLargeError):
            await self.app(scope, counted, sealed)


def _is_link(named: dict[str, list[str]]) -> bool:
    """Whether somebody followed a link to the page, as from a mail: the page itself is opened, nothing is read."""
    return named.get("sec-fetch-mode") == ["navigate"] and named.get("sec-fetch-dest") == ["document"]


def _sealed_headers() -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in HEADERS.items()]


async def _refuse(send: Send, status: int, text: str) -> None:
    body = f"{text}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    headers += [(b"connection", b"close"), *_sealed_headers()]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
