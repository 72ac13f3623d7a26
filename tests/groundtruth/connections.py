"""TCP connections between all ranks, and messages over them that move together."""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Message = tuple[int, Floats]

PORT = 7077
SEND_BUFFER = 256 * 2**10
"""Bytes asked for; the kernel doubles them."""
RECEIVE_BUFFER = 128 * 2**10
"""The same, and with it the window: far more than is under way on a link, and less than congestion control would allow.

Messages that share a sender's queue share its link as their windows are; these are the same for all.
"""
_SPLIT = 32 * 2**10
"""Bytes handed over in one call: of messages that start at once, none gets far ahead."""


class Connections:
    """One connection from rank `me` to each of the others, whose addresses are in order of their ranks."""

    def __init__(self, me: int, addresses: Sequence[str]) -> None:
        self.me = me
        self.sockets: dict[int, socket.socket] = {}
        listening = _buffered()
        listening.bind((addresses[me], PORT))
        listening.listen(len(addresses))
        for other in range(me):
            link = _connected(addresses[other])
            link.sendall(struct.pack("i", me))
            self.sockets[other] = link
        for _ in range(me + 1, len(addresses)):
            link, _ = listening.accept()
            (other,) = struct.unpack("i", link.recv(4, socket.MSG_WAITALL))
            self.sockets[other] = link
        listening.close()
        for link in self.sockets.values():
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link.setblocking(False)

    def send(self, other: int, data: Floats) -> None:
        """Send to one rank."""
        self.exchange([(other, data)], [])

    def receive(self, other: int, into: Floats) -> None:
        """Receive from one rank."""
        self.exchange([], [(other, into)])

    def exchange(self, sends: Sequence[Message], receives: Sequence[Message]) -> None:
        """Send and receive whole arrays, all at once; at most one of each with any rank."""
        leaving = {other: memoryview(data).cast("B") for other, data in sends}
        coming = {other: memoryview(data).cast("B") for other, data in receives}
        with selectors.DefaultSelector() as selector:
            for other in {*leaving, *coming}:
                selector.register(self.sockets[other], _events(other, leaving, coming), other)
            while leaving or coming:
                for key, ready in selector.select():
                    other = key.data
                    if ready & selectors.EVENT_WRITE and other in leaving:
                        _advance(leaving, other, self.sockets[other].send(leaving[other][:_SPLIT]))
                    if ready & selectors.EVENT_READ and other in coming:
                        count = self.sockets[other].recv_into(coming[other])
                        if not count:
                            raise ConnectionError(f"rank {other} has gone")
                        _advance(coming, other, count)
                    events = _events(other, leaving, coming)
                    if not events:
                        selector.unregister(key.fileobj)
                    elif events != key.events:
                        selector.modify(key.fileobj, events, other)

    def half_round_trip(self, other: int, first: bool, times: int) -> float:
        """Median half round trip of a 4-byte message, in seconds."""
        data, taken = np.zeros(1, dtype=np.float32), []
        for _ in range(times):
            begin = time.monotonic()
            if first:
                self.send(other, data)
            self.receive(other, data)
            if not first:
                self.send(other, data)
            taken.append((time.monotonic() - begin) / 2)
        return float(np.median(taken))


def _buffered() -> socket.socket:
    """A socket with its buffers; those of a listening one are what its connections have. The window's scale is agreed
    on when the connection is made, so that a larger buffer later would not help.
    """
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
    return made


def _connected(address: str, patience: float = 20.0) -> socket.socket:
    until = time.monotonic() + patience
    while True:
        made = _buffered()
        try:
            made.connect((address, PORT))
            return made
        except OSError:
            made.close()
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def _events(other: int, leaving: dict[int, memoryview], coming: dict[int, memoryview]) -> int:
    return (selectors.EVENT_WRITE if other in leaving else 0) | (selectors.EVENT_READ if other in coming else 0)


def _advance(views: dict[int, memoryview], other: int, count: int) -> None:
    views[other] = views[other][count:]
    if not len(views[other]):
        del views[other]
