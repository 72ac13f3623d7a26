"""Classes of messages, links and places that are alike, found by colour refinement: one of a class stands for all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from hashlib import blake2b

import numpy as np

from simulator.engine.rounds.disturbances import TooManyMessages
from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Round, Route
from simulator.models.sampling import Hashes, splitmix64
from simulator.models.small_cache import LatestResults
from simulator.records import Record, replace

Key = tuple[int, int]


class MessageClass(Record):
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


class Programme(Record, dict=True):
    """The rounds of one exchange as classes of messages, and how often each round is repeated."""

    rounds: tuple[tuple[tuple[MessageClass, ...], int], ...]

    @cached_property
    def flows(self) -> int:
        """Flows of the exchange: alike messages counted once, repeated rounds each time."""
        return sum(len(classes) * repeat for classes, repeat in self.rounds)

    @cached_property
    def columns(self) -> dict[str, Ints | Floats]:
        """All classes (n,) by their fields, and rounds by theirs: the arrays that `event_loop.c` names `Programme`.

        `out` and `into` number the keys; those of place p are `place_into[place_first[p] : place_first[p + 1]]`.
        """
        items = [item for classes, _ in self.rounds for item in classes]
        outs, out = _number_keys(item.out for item in items)
        intos, into = _number_keys(item.into for item in items)
        owners = _ints(place for place, _ in intos)
        places = 1 + max((place for place, _ in (*outs, *intos)), default=-1)
        return {
            "count": _ints(len(classes) for classes, _ in self.rounds),
            "repeat": _ints(repeat for _, repeat in self.rounds),
            "type": _ints(item.type for item in items),
            "out_place": _ints(item.out[0] for item in items),
            "out": out,
            "into_place": _ints(item.into[0] for item in items),
            "into": into,
            "pair": _ints(item.pair for item in items),
            "place_first": np.searchsorted(np.sort(owners), np.arange(places + 1)).astype(np.int64),
            "place_into": np.argsort(owners, kind="stable").astype(np.int64),
            "size": np.array([item.size for item in items], dtype=float),
            "latency": np.array([item.latency for item in items], dtype=float),
        }


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)


def _number_keys(keys: Iterable[Key]) -> tuple[dict[Key, int], Ints]:
    """Every key with its number, and the numbers in order."""
    known: dict[Key, int] = {}
    numbers = _ints(known.setdefault(key, len(known)) for key in keys)
    return known, numbers


_ODD = splitmix64(np.arange(1, 14, dtype=np.uint64)) | np.uint64(1)


class Classes(Record):
    """The classes of all places (P,) and links (L,), the programme of every structure, and the types of flow.

    A type of flow is a way over classes of links: entry i says that one flow of type `type_of[i]` stands for
    `messages[i]` messages on every link of class `link_of[i]`, and messages of type t have `connections[t]` connections
    each. `one_place` is a place of each class of places, `pairs` the number of classes of pairs.
    """

    of_place: Ints
    one_place: Ints
    of_link: Ints
    programmes: dict[Structure, Programme]
    types: int
    type_of: Ints
    link_of: Ints
    messages: Floats
    connections: Floats
    pairs: int

    @property
    def nbytes(self) -> int:
        """About how many bytes the classes take, with their structures."""
        items = (part for shape in self.programmes for item in shape for part in item[:3])
        return sum(map(len, items)) + 400 * sum(
            len(classes) for made in self.programmes.values() for classes, _ in made.rounds
        )

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
            connections=np.append(self.connections, np.ones(len(ways))),
        )


_latest: LatestResults[Classes] = LatestResults(8, lambda made: made.nbytes <= _MOST_BYTES)
_MOST_BYTES = 2**25
_latest_small: LatestResults[Classes] = LatestResults(64, lambda made: made.nbytes <= _SMALL_BYTES)
_SMALL_BYTES = 2**18
_MOST_COMPARED = 2**24
"""Messages, counted again each time that all are compared: 0.4 us each."""
_MOST_UNLIKE = 2**18
"""Classes of messages: 20 us and 2 kB each."""

Structure = tuple[tuple[bytes, bytes, bytes, int, float], ...]
"""Of each round the places of senders and receivers, relative sizes, how often it repeats, and its connections."""
Shape = tuple[Structure, tuple[float, ...]]


def structure(rounds: Sequence[Round], row: int = 0) -> Shape:
    """The structure of an exchange (equal for exchanges with one programme), and the largest bytes of each round."""
    return structures([replace(item, nbytes=item.nbytes[row : row + 1]) for item in rounds])[0]


def structures(rounds: Sequence[Round]) -> list[Shape]:
    """The structure of each payload; what is equal from one to the next is the same object."""
    shapes, scales = list[list[tuple[bytes, bytes, bytes, int, float]]](), list[list[float]]()
    for item in rounds:
        largest = item.nbytes.max(axis=1, initial=0.0)
        relative = item.nbytes / np.where(largest > 0, largest, 1.0)[:, None]
        again = (relative[1:] == relative[:-1]).all(axis=1).tolist()
        ends, parts = (item.src.tobytes(), item.dst.tobytes()), [(relative[0].tobytes())]
        for row, same in enumerate(again, start=1):
            parts.append(parts[-1] if same else relative[row].tobytes())
        shapes.append([(*ends, part, item.repeat, item.connections) for part in parts])
        scales.append(largest.tolist())
    if not rounds:
        return [((), ())]
    return list(zip(zip(*shapes, strict=True), zip(*scales, strict=True), strict=True))


def classify(
    structures: Sequence[Structure],
    route: Callable[[Ints, Ints], Route],
    place_colours: Floats,
    link_colours: Floats,
) -> Classes:
    """The largest classes such that all links of a class carry equally many messages of each class of messages.

    `place_colours` (P,) and `link_colours` (L,) differ where places or links are known to differ (in start times,
    capacities). Fair shares are then equal within a class, so that one message stands for all of its class. The latest
    classes are remembered: they are the same for other bandwidths and payloads. Raises TooManyMessages where they take
    long to find.
    """
    made = _Messages(structures, route)
    places, links = _first_colours(place_colours), _first_colours(link_colours)
    digest = made.digest.copy()
    for array in (places, links):
        digest.update(array.tobytes())
    key = (tuple(structures), made.ways.shape, len(places), digest.digest())
    return _latest_small.get(key, lambda: _latest.get(key, lambda: _refine(structures, made, places, links)))


def _refine(structures: Sequence[Structure], made: _Messages, places: Hashes, links: Hashes) -> Classes:
    pairs = np.zeros(made.pairs, dtype=np.uint64)
    start = splitmix64(made.initial)
    message, compared, unlike, before = start, 0, 0, tuple[int, ...]()
    while True:
        compared += len(start)
        if compared > _MOST_COMPARED or unlike > _MOST_UNLIKE:
            raise TooManyMessages(len(start))
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
        unlike = _count_unlike(message)
        now = unlike, _count_unlike(links), _count_unlike(places)
        if now == before:
            break
        before = now
    return _quotient(structures, made, message, (places, links, pairs))


def _count_unlike(colours: Hashes) -> int:
    """How many colours there are beyond the first; `np.unique` hashes them, which takes ten times as long where most
    differ."""
    ordered = np.sort(colours)
    return int(np.count_nonzero(ordered[1:] != ordered[:-1]))


class _Ends:
    """Senders, receivers, sizes and connections of all messages of all structures, in order, and which have the same
    two ends."""

    def __init__(self, structures: Sequence[Structure]) -> None:
        items = [item for shape in structures for item in shape]
        self.src: Ints = np.frombuffer(b"".join(item[0] for item in items), dtype=np.int64)
        self.dst: Ints = np.frombuffer(b"".join(item[1] for item in items), dtype=np.int64)
        self.size: Floats = np.frombuffer(b"".join(item[2] for item in items))
        lengths = [len(item[0]) // 8 for item in items]
        codes = self.src * (1 + int(self.dst.max(initial=0))) + self.dst
        known, self.pair = np.unique(codes, return_inverse=True)
        self.pairs = len(known)
        self.bounds = np.cumsum([0, *lengths])
        self.connections = np.repeat([item[4] for item in items], lengths)
        self.round = np.repeat(np.arange(len(items)), lengths)


_ends: LatestResults[_Ends] = LatestResults(32, lambda made: made.src.nbytes <= _SMALL_BYTES)


class _Messages:
    """The messages of rounds with the links of each, `ways` (m, h), -1 for none."""

    def __init__(self, structures: Sequence[Structure], route: Callable[[Ints, Ints], Route]) -> None:
        ends = _ends.get(tuple(structures), lambda: _Ends(structures))
        self.src, self.dst, self.size, self.pair = ends.src, ends.dst, ends.size, ends.pair
        self.pairs, self.bounds, self.connections = ends.pairs, ends.bounds, ends.connections
        first, last, self.latency, middle = route(self.src, self.dst)
        between = [] if middle is None else list(middle.T)
        self.ways = np.stack([first, *between, last], axis=1)
        self.latency = np.ascontiguousarray(self.latency)
        self.initial = (
            ends.round.astype(np.uint64) * _ODD[6]
            + self.size.view(np.uint64) * _ODD[7]
            + self.latency.view(np.uint64) * _ODD[8]
            + self.connections.view(np.uint64) * _ODD[12]
        )
        self.digest = blake2b(self.ways.tobytes())
        self.digest.update(self.latency.tobytes())


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
    links_in = np.bincount(of_link).tolist()
    one, of_message, alike = np.unique(message, return_index=True, return_inverse=True, return_counts=True)[1:]
    # In the order of the messages: that of the colours would change with the latencies.
    order = np.argsort(one)
    one, of_message, alike = one[order], np.argsort(order)[of_message], alike[order]
    types: dict[tuple[float, tuple[tuple[int, int], ...]], int] = {}
    type_of_class = np.zeros(len(one), dtype=np.int64)
    on = np.sort(np.where(made.ways[one] >= 0, of_link[made.ways[one]], -1), axis=1).tolist()
    each = zip(on, alike.tolist(), made.connections[one].tolist(), strict=True)
    for index, (crossed, count, connections) in enumerate(each):
        # A message crosses a few links: counting them by hand is faster than an array operation for each.
        way = tuple((c, count * crossed.count(c) // links_in[c]) for c in dict.fromkeys(crossed) if c >= 0)
        type_of_class[index] = types.setdefault((connections, way), len(types))
    entries = [(number, link, count) for (_, way), number in types.items() for link, count in way]
    table = np.array(entries, dtype=np.int64).reshape(-1, 3)
    columns = (
        type_of_class,
        made.size[one],
        made.latency[one],
        of_place[made.src[one]],
        of_link[made.ways[one, 0]],
        of_place[made.dst[one]],
        of_link[made.ways[one, -1]],
        of_pair[made.pair[one]],
    )
    known = [
        MessageClass(type=of_type, size=size, latency=latency, out=(src, out), into=(dst, into), pair=pair)
        for of_type, size, latency, src, out, dst, into, pair in zip(*(each.tolist() for each in columns), strict=True)
    ]
    programmes, position = {}, 0
    for shape in structures:
        rounds = []
        for item in shape:
            low, high = made.bounds[position], made.bounds[position + 1]
            position += 1
            rounds.append((tuple(known[number] for number in np.unique(of_message[low:high]).tolist()), item[3]))
        programmes[shape] = Programme(tuple(rounds))
    ways = table[:, 0], table[:, 1], table[:, 2].astype(float), np.array([each for each, _ in types])
    return Classes(of_place, one_place, of_link, programmes, len(types), *ways, int(of_pair.max(initial=-1)) + 1)
