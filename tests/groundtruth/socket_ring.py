"""A ring all-reduce over many sockets to one neighbour, as NCCL's socket transport sends it; without the sums.

A step's message is cut into pieces of at least 64 KiB, at most one for each socket, which go to the sockets in turn
(src/transport/net_socket.cc, MIN_CHUNKSIZE). Eight messages of each direction are under way at most (NCCL_STEPS).
"""

from __future__ import annotations

import json
import selectors
import socket
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

PORT = 7079
PIECE = 64 * 2**10
"""Least bytes of a piece."""
SLICE = 32 * 2**10
"""Bytes of a message for each socket at most: 512 KiB with 16, an eighth of NCCL's buffer of 4 MiB."""
STEPS = 8
"""Messages of one direction that are under way at most."""
COUNTERS = ("RetransSegs", "TCPLossProbes", "TCPTimeouts")
_SPACE = memoryview(bytearray(2**20))

Message = list[int]
"""One number: bytes that are left of it."""


class Direction:
    """Messages that leave by these sockets, or come in by them."""

    def __init__(self, sockets: Sequence[socket.socket], selector: selectors.BaseSelector, event: int) -> None:
        self.sockets, self.selector, self.event = sockets, selector, event
        self.pieces: list[deque[tuple[list[int], Message]]] = [deque() for _ in sockets]
        self.turn = 0
        self.under_way: deque[Message] = deque()

    def post(self, nbytes: int) -> None:
        """Add a message."""
        message = [nbytes]
        self.under_way.append(message)
        piece = max(PIECE, -(-nbytes // len(self.sockets)))
        for begin in range(0, nbytes, piece):
            if not self.pieces[self.turn]:
                self.selector.register(self.sockets[self.turn], self.event, (self, self.turn))
            self.pieces[self.turn].append(([min(piece, nbytes - begin)], message))
            self.turn = (self.turn + 1) % len(self.sockets)

    def advance(self, number: int) -> None:
        """Move what one socket takes or has."""
        link, pieces = self.sockets[number], self.pieces[number]
        move = link.send if self.event == selectors.EVENT_WRITE else link.recv_into
        while pieces:
            left, message = pieces[0]
            try:
                count = move(_SPACE[: left[0]])
            except BlockingIOError:
                return
            if not count:
                raise ConnectionError("a neighbour has gone")
            left[0] -= count
            message[0] -= count
            if not left[0]:
                pieces.popleft()
        self.selector.unregister(link)

    def finish(self) -> int:
        """Drop the messages that are complete, in order; their number."""
        count = 0
        while self.under_way and not self.under_way[0][0]:
            self.under_way.popleft()
            count += 1
        return count


class Ring:
    """Rank `me`, with `sockets` connections to the next rank and as many from the one before."""

    def __init__(self, me: int, addresses: Sequence[str], sockets: int) -> None:
        self.workers, self.sockets = len(addresses), sockets
        with socket.create_server((addresses[me], PORT), backlog=sockets) as listening:
            after = [_connect(addresses[(me + 1) % self.workers]) for _ in range(sockets)]
            before = [listening.accept()[0] for _ in range(sockets)]
        for link in (*after, *before):
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link.setblocking(False)
        self.selector = selectors.DefaultSelector()
        self.sends = Direction(after, self.selector, selectors.EVENT_WRITE)
        self.receives = Direction(before, self.selector, selectors.EVENT_READ)

    def all_reduce(self, nbytes: int) -> None:
        """2(p - 1) steps of a p-th each, in slices; a slice is passed on once it has come."""
        part, largest = max(1, nbytes // self.workers), SLICE * self.sockets
        slices = [min(largest, part - begin) for begin in range(0, part, largest)]
        sizes = slices * (2 * (self.workers - 1))
        sent = posted = left = received = 0
        while left < len(sizes) or received < len(sizes):
            while posted < len(sizes) and len(self.receives.under_way) < STEPS:
                self.receives.post(sizes[posted])
                posted += 1
            while sent < min(len(sizes), received + len(slices)) and len(self.sends.under_way) < STEPS:
                self.sends.post(sizes[sent])
                sent += 1
            for key, _ in self.selector.select():
                direction, number = key.data
                direction.advance(number)
            left += self.sends.finish()
            received += self.receives.finish()

    def exchange(self, tensors: Sequence[int]) -> float:
        """Seconds that one all-reduce after the other takes, of tensors of so many bytes, after a small one."""
        self.all_reduce(64)
        begin = time.monotonic()
        for nbytes in tensors:
            self.all_reduce(nbytes)
        return time.monotonic() - begin


def _connect(address: str, patience: float = 20.0) -> socket.socket:
    until = time.monotonic() + patience
    while True:
        try:
            return socket.create_connection((address, PORT))
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def read_counters() -> dict[str, int]:
    """The kernel's counts of this host's TCP: segments sent again, probes after a lost tail, and timeouts."""
    found = {}
    for name in ("snmp", "netstat"):
        lines = Path("/proc/self/net", name).read_text().splitlines()
        for heads, values in zip(lines[::2], lines[1::2], strict=True):
            found |= dict(zip(heads.split()[1:], map(int, values.split()[1:]), strict=True))
    return {name: found[name] for name in COUNTERS}


def main() -> None:
    """Serve commands until the pipe closes. The first one says how many sockets there are."""
    (_, addresses), me = json.loads(sys.argv[1]), int(sys.argv[2])
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        match command["do"]:
            case "connect":
                ring, answer = Ring(me, addresses, command["sockets"]), None
            case "exchange":
                answer = ring.exchange(command["tensors"])
            case "count":
                answer = read_counters()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
