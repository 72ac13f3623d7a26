"""The programme of an exchange: its rounds as classes of messages, and the same as columns for the compiled loop."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.records import Record

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
