"""Connections that say nothing: closed after a while, and at once where there are too many."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

SILENCE_S = 10.0
"""A connection that has not sent the headers of a request by then is closed."""
MOST_CONNECTIONS = 512
"""Of more connections than these, those that have asked for nothing are closed."""


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 with a time limit for headers: bytes that arrive one by one do not extend it.

    After an answer a connection may stay silent for as long as the server keeps it; then the limit is on, again.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        others = [other for other in self.connections if isinstance(other, BoundedProtocol)]
        if len(others) >= MOST_CONNECTIONS:
            next((other for other in others if other.awaits_headers), others[0]).transport.close()
        self._limit: asyncio.TimerHandle | None = None
        self._wait()

    @property
    def awaits_headers(self) -> bool:
        """Whether no request is being read or answered."""
        return self.conn.their_state is h11.IDLE

    def data_received(self, data: bytes) -> None:
        """Read what came; once the headers of a request are whole, it has no limit of time here."""
        super().data_received(data)
        if not self.awaits_headers:
            self._cancel()
        elif self._limit is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the limit."""
        self._cancel()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._limit = self.loop.call_later(SILENCE_S, self._close_silent)

    def _cancel(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _close_silent(self) -> None:
        self._limit = None
        if self.awaits_headers:
            self.transport.close()
