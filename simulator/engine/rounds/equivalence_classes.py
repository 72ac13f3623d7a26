"""Classes of messages, links and places that are alike, found by colour refinement: one of a class stands for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Round, Route
from simulator.models.hashing import Hashes, splitmix64

Key = tuple[int, int]

_ODD = np.random.default_rng(0).integers(1, 2**63, 12, dtype=np.uint64) * np.uint64(2) + np.uint64(1)


@dataclass(frozen=True, slots=True)
class MessageClass:
    """Messages of one round that are alike, with their type of flow and their latency in seconds.

    `size` is relative to the largest message of the round. `out` and `into` are the classes of place and link at each
    end: messages with the same key follow the order of their rounds. `pair` is the class of sender and receiver
    together: messages of the same pair follow each other, as on one connection.
    """

    type: int
    size: float
    latency: float
    out: Key
    into: Key
    pair: int


@dataclass(frozen=True, slots=True)
class Programme:
    """The rounds of one exchange as classes of messages, and how often each round is repeated."""

    rounds: tuple[tuple[tuple[MessageClass, ...], int], ...]


@dataclass(frozen=True)
class Classes:
    """The classes of all places (P,) and links (L,), the programme of every structure, and the types of flow.

    A type of flow is a way over classes of links: entry i says that one flow of type `type_of[i]` stands for
    `messages[i]` messages on every link of class `link_of[i]`. `one_place` is a place of each class of places.
    """

    of_place: Ints
    one_place: Ints
    of_link: Ints
    programmes: dict[Structure, Programme]
    types: int
    type_of: Ints
    link_of: Ints
    messages: Floats

    def with_types(self, ways: Sequence[int]) -> Classes:
        """The classes with a new type on the way of each type in `ways`: for flows with a limit to their rate."""
        parts = [np.flatnonzero(self.type_of == way) for way in ways]
        entries = np.concatenate([np.arange(len(self.type_of)), *parts]).astype(np.int64)
        new = [np.full(len(part), self.types + number) for number, part in enumerate(parts)]
        type_of = np.concatenate([self.type_of, *new]).astype(np.int64)
        return replace(
            self,
            types=self.types + len(ways),
            type_of=type_of,
            link_of=self.link_of[entries],
            messages=self.messages[entries],
        )


Structure = tuple[tuple[bytes, bytes, bytes, int], ...]
Shape = tuple[Structure, tuple[float, ...]]


def structure(rounds: Sequence[Round], row: int = 0) -> Shape:
    """The structure of an exchange (equal for exchanges with one programme), and the largest bytes of each round."""
    shape, scales = [], []
    for item in rounds:
        nbytes = item.nbytes[row]
        scale = float(nbytes.max(initial=0.0))
        relative = nbytes / scale if scale else nbytes
        shape.append((item.src.tobytes(), item.dst.tobytes(), relative.tobytes(), item.repeat))
        scales.append(scale)
    return tuple(shape), tuple(scales)


def classify(
    structures: Sequence[Structure],
    route: Callable[[Ints, Ints], Route],
    place_colours: Floats,
    link_colours: Floats,
) -> Classes:
    """The largest classes such that all links of a class carry equally many messages of each class of messages.

    `place_colours` (P,) and `link_colours` (L,) differ where places or links are known to differ (in start times,
    capacities). Fair shares are then equal within a class, so that one message stands for all of its class.
    """
    made = _Messages(structures, route)
    places, links = _first_colours(place_colours), _first_colours(link_colours)
    pairs = np.zeros(made.pairs, dtype=np.uint64)
    start = splitmix64(made.initial)
    message, count = start, -1
    while True:
        message = start + places[made.src] * _ODD[0] + places[made.dst] * _ODD[1] + pairs[made.pair] * _ODD[9]
        for column, on in enumerate(made.ways.T):
            message = message + np.where(on >= 0, links[on], np.uint64(0)) * _column(column)
        message = splitmix64(message)
        links = splitmix64(links * _ODD[2] + _sum_on_links(made.ways, message, len(links)))
        places = places * _ODD[3]
        np.add.at(places, made.src, splitmix64(message * _ODD[4]))
        np.add.at(places, made.dst, splitmix64(message * _ODD[5]))
        places = splitmix64(places)
        pairs = pairs * _ODD[10]
        np.add.at(pairs, made.pair, splitmix64(message * _ODD[11]))
        pairs = splitmix64(pairs)
        now = sum(len(np.unique(colours)) for colours in (message, links, places))
        if now == count:
            break
        count = now
    return _quotient(structures, made, message, (places, links, pairs))


class _Messages:
    """All messages of all structures, in order; `ways` (m, h) are the links of each, -1 for none."""

    def __init__(self, structures: Sequence[Structure], route: Callable[[Ints, Ints], Route]) -> None:
        items = [item for shape in structures for item in shape]
        self.src: Ints = np.frombuffer(b"".join(item[0] for item in items), dtype=np.int64)
        self.dst: Ints = np.frombuffer(b"".join(item[1] for item in items), dtype=np.int64)
        self.size: Floats = np.frombuffer(b"".join(item[2] for item in items))
        lengths = [len(item[0]) // 8 for item in items]
        codes = self.src * (1 + int(self.dst.max(initial=0))) + self.dst
        known, self.pair = np.unique(codes, return_inverse=True)
        self.pairs = len(known)
        self.bounds = np.cumsum([0, *lengths])
        rounds = np.repeat(np.arange(len(items)), lengths)
        first, last, self.latency, middle = route(self.src, self.dst)
        between = [] if middle is None else list(middle.T)
        self.ways = np.stack([first, *between, last], axis=1)
        self.initial = (
            rounds.astype(np.uint64) * _ODD[6]
            + self.size.view(np.uint64) * _ODD[7]
            + np.ascontiguousarray(self.latency).view(np.uint64) * _ODD[8]
        )


def _first_colours(values: Floats) -> Hashes:
    return splitmix64(np.unique(values, return_inverse=True)[1].astype(np.uint64) + np.uint64(1))


def _column(number: int) -> np.uint64:
    """An odd factor for each position on a route, so that the same links in another order make another colour."""
    return np.uint64((0x9E3779B97F4A7C15 * (2 * number + 1)) % 2**64)


def _sum_on_links(ways: Ints, message: Hashes, links: int) -> Hashes:
    """A sum over the messages on each link, which does not depend on their order."""
    total = np.zeros(links, dtype=np.uint64)
    for column, on in enumerate(ways.T):
        known = on >= 0
        np.add.at(total, on[known], splitmix64(message[known] * _column(column)))
    return total


def _quotient(
    structures: Sequence[Structure], made: _Messages, message: Hashes, others: tuple[Hashes, Hashes, Hashes]
) -> Classes:
    one_place, of_place = np.unique(others[0], return_index=True, return_inverse=True)[1:]
    of_link, of_pair = (np.unique(colours, return_inverse=True)[1] for colours in others[1:])
    links_in = np.bincount(of_link)
    one, of_message, alike = np.unique(message, return_index=True, return_inverse=True, return_counts=True)[1:]
    types: dict[tuple[tuple[int, int], ...], int] = {}
    type_of_class = np.zeros(len(one), dtype=np.int64)
    for index, (example, count) in enumerate(zip(one.tolist(), alike.tolist(), strict=True)):
        on = made.ways[example]
        crossed, times = np.unique(of_link[on[on >= 0]], return_counts=True)
        way = tuple((int(c), int(count * t // links_in[c])) for c, t in zip(crossed, times, strict=True))
        type_of_class[index] = types.setdefault(way, len(types))
    entries = [(number, link, count) for way, number in types.items() for link, count in way]
    table = np.array(entries, dtype=np.int64).reshape(-1, 3)
    programmes, position = {}, 0
    for shape in structures:
        rounds = []
        for item in shape:
            low, high = made.bounds[position], made.bounds[position + 1]
            position += 1
            classes = []
            for number in np.unique(of_message[low:high]).tolist():
                at = one[number]
                src, dst = int(of_place[made.src[at]]), int(of_place[made.dst[at]])
                ends = (int(of_link[made.ways[at, 0]]), int(of_link[made.ways[at, -1]]))
                classes.append(
                    MessageClass(
                        type=int(type_of_class[number]),
                        size=float(made.size[at]),
                        latency=float(made.latency[at]),
                        out=(src, ends[0]),
                        into=(dst, ends[1]),
                        pair=int(of_pair[made.pair[at]]),
                    )
                )
            rounds.append((tuple(classes), item[3]))
        programmes[shape] = Programme(tuple(rounds))
    return Classes(
        of_place, one_place, of_link, programmes, len(types), table[:, 0], table[:, 1], table[:, 2].astype(float)
    )
