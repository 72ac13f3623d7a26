"""The event loop compiled from `event_loop.c`, with the interface of the reference in `event_loop.py`."""

from __future__ import annotations

import ctypes
import os
import zlib
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any
from weakref import finalize

import numpy as np

from simulator.engine.rounds import event_loop
from simulator.engine.rounds.disturbances import Stalled, TooManyMessages
from simulator.engine.rounds.equivalence_classes import Programme
from simulator.engine.rounds.event_loop import Ended, EventLoop, Pause
from simulator.engine.rounds.link_sharing import PreparedNetwork, TokenBuckets
from simulator.models.curves import Floats

SOURCE = Path(__file__).with_name("event_loop.c")
LIBRARY = SOURCE.with_name("event_loop.compiled")
SWITCH = "SPARSIM_COMPILED"
"""Environment variable: with 0 the reference in Python is used."""
_NEVER = 1e30
_STALLED, _NO_MEMORY, _TOO_LONG = 1, 2, 3
_INTS = np.dtype(np.int64)
_ints, _floats = (partial(np.ascontiguousarray, dtype=kind) for kind in (_INTS, np.dtype(float)))


def make_event_loop(
    prepared: PreparedNetwork,
    buckets: TokenBuckets | None,
    overhead: float,
    now: float,
    *,
    keep: bool,
    changeable: bool = False,
) -> EventLoop | CompiledLoop:
    """The compiled event loop; the reference where it is not compiled, or links are `changeable` while it runs."""
    library = None if changeable else load_library()
    if library is None:
        return EventLoop(prepared, buckets, overhead, now, keep=keep)
    return CompiledLoop(library, prepared, buckets, overhead, now, keep=keep)


@cache
def load_library() -> ctypes.CDLL | None:
    """The library; None where it is not compiled, was compiled from another source, or is switched off."""
    if os.environ.get(SWITCH) == "0":
        return None
    try:
        library = ctypes.CDLL(str(LIBRARY))
        if library.loop_source() != source_number():
            return None
    except (OSError, AttributeError):
        return None
    number, real, pointer = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
    library.loop_new.argtypes, library.loop_new.restype = [pointer, real], pointer
    library.loop_free.argtypes, library.loop_free.restype = [pointer], None
    library.loop_advance.argtypes, library.loop_advance.restype = [pointer, real], None
    library.loop_follow.argtypes = [pointer, real, pointer]
    library.loop_start.argtypes = [pointer, pointer, number, pointer, pointer, real, number, number]
    library.loop_next.argtypes, library.loop_next.restype = [pointer], number
    library.loop_take.argtypes, library.loop_take.restype = [pointer] * 4, number
    library.loop_recorded.argtypes, library.loop_recorded.restype = [pointer] * 4, number
    return library


def source_number() -> int:
    """A number of the source, which the library carries too: equal where it was compiled from this source."""
    return zlib.crc32(SOURCE.read_bytes()) >> 1


class _Struct(ctypes.Structure):
    """A structure of C that also keeps the arrays that it points to."""

    def point_to(self, **arrays: Any) -> None:
        """Set pointers, and keep what they point to."""
        self.kept = arrays
        for name, array in arrays.items():
            setattr(self, name, array.ctypes.data)


def _struct(numbers: str, pointers: str, more: str = "") -> list[tuple[str, Any]]:
    fields: list[tuple[str, Any]] = [(name, ctypes.c_int64) for name in numbers.split()]
    return fields + [(name, ctypes.c_void_p) for name in f"{pointers} {more}".split()]


class _Setup(_Struct):
    _fields_ = _struct(
        "types links entries incasts changes has_buckets keep most_work",
        "type_of link_of first change_first change_link messages limit arriving incast_count incast_share extra depth",
        "change_time change_factor stated capacity active rate served next content",
    )


class _Programme(_Struct):
    _fields_ = _struct(
        "rounds flows places outs intos",
        "count repeat type out_place out into_place into pair place_first place_into size latency",
    )


class _Pause(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_double) for name in ("clock", "wake", "due")), ("ended", ctypes.c_int64)]


class CompiledLoop:
    """Flows under way, as `EventLoop` follows them; the arrays are shared with the compiled code."""

    def __init__(
        self,
        library: ctypes.CDLL,
        prepared: PreparedNetwork,
        buckets: TokenBuckets | None,
        overhead: float,
        now: float,
        *,
        keep: bool,
    ) -> None:
        rates, classes = prepared.rates, prepared.classes
        types, links = classes.types, len(rates.capacity)
        self.prepared, self.capacity = prepared, rates.capacity.copy()
        self.active, self.pairs = np.zeros(types), classes.pairs
        self.active[prepared.steady] = 1.0
        incast = np.zeros((0, 2)) if rates.incast is None else rates.incast
        changed = [np.array(change.links, dtype=_INTS) for change in prepared.changes]
        content = np.zeros(0) if buckets is None else buckets.content
        sizes = types, links, len(rates.type_of), len(incast), len(changed)
        self.setup = _Setup(*sizes, buckets is not None, keep, event_loop.MOST_WORK)
        self.setup.point_to(
            type_of=_ints(rates.type_of),
            link_of=_ints(rates.link_of),
            first=np.searchsorted(rates.type_of, np.arange(types + 1)),
            change_first=np.cumsum([0, *(len(each) for each in changed)], dtype=_INTS),
            change_link=np.concatenate([np.zeros(0, dtype=_INTS), *changed]),
            messages=_floats(rates.messages),
            limit=_floats(rates.limit),
            arriving=_floats(rates.arriving),
            incast_count=_floats(incast[:, 0]),
            incast_share=_floats(incast[:, 1]),
            extra=overhead * rates.narrowest_capacities(types),
            depth=np.zeros(0) if buckets is None else _floats(buckets.depth),
            change_time=np.array([change.time for change in prepared.changes], dtype=float),
            change_factor=np.array([change.factor for change in prepared.changes], dtype=float),
            stated=rates.capacity.copy(),
            capacity=self.capacity,
            active=self.active,
            rate=np.zeros(types),
            served=np.zeros(types),
            next=np.full(types, _NEVER),
            content=content,
        )
        self.library, self.under_way, self.programmes = library, dict[int, Programme](), dict[int, _Programme]()
        self.pause = _Pause()
        self.loop = library.loop_new(ctypes.byref(self.setup), now)
        if not self.loop:
            raise MemoryError
        finalize(self, library.loop_free, self.loop)

    def start(
        self, number: int, programme: Programme, scales: Sequence[float], begin: Floats, *, turn: float, stream: int
    ) -> None:
        """Add an exchange, as `EventLoop.start` does."""
        scale, have = np.array(scales, dtype=float), _floats(begin)
        arrays = self.programmes.get(id(programme))
        if arrays is None:
            keys = (int(programme.columns[name].max(initial=-1)) + 1 for name in ("out", "into"))
            arrays = self.programmes[id(programme)] = _Programme(len(scale), programme.flows, len(have), *keys)
            arrays.point_to(**programme.columns)
        self.under_way[number] = programme
        starts = number, scale.ctypes.data, have.ctypes.data, turn, stream * self.pairs, self.pairs
        if self.library.loop_start(self.loop, ctypes.byref(arrays), *starts):
            raise MemoryError

    def advance(self, time: float) -> None:
        """Bring the flows to `time`."""
        self.library.loop_advance(self.loop, time)

    def follow(self, clock: float, until: float) -> Pause:
        """Handle what is due, as `EventLoop.follow` does. Raises Stalled, TooManyMessages."""
        pause = self.pause
        pause.clock = clock
        code = self.library.loop_follow(self.loop, until, ctypes.byref(pause))
        if code == _TOO_LONG:
            raise TooManyMessages
        if code:
            raise Stalled if code == _STALLED else MemoryError
        return Pause(pause.clock, pause.wake, pause.due, [self._take() for _ in range(pause.ended)])

    def recorded(self) -> tuple[Floats, Floats]:
        """Times (t,), and the bytes/s that each class of links carried from each time on, (t, L)."""
        parts = [ctypes.POINTER(ctypes.c_double)() for _ in range(3)]
        count = self.library.loop_recorded(self.loop, *(ctypes.byref(part) for part in parts))
        links = len(self.capacity)
        times, row_of = (_copy(part, count) for part in parts[:2])
        rows = _copy(parts[2], links * (int(row_of[-1]) + 1) if count else 0)
        return times, rows.reshape(-1, links)[row_of.astype(_INTS)]

    def _take(self) -> Ended:
        """The first exchange that has ended."""
        number = self.library.loop_next(self.loop)
        programme = self.under_way.pop(number)
        have = np.empty(len(self.prepared.classes.one_place))
        began, flows = np.empty(programme.flows), np.empty(programme.flows)
        self.library.loop_take(self.loop, have.ctypes.data, began.ctypes.data, flows.ctypes.data)
        return Ended(number, have, flows, began)


def _copy(part: Any, count: int) -> Floats:
    return np.ctypeslib.as_array(part, (count,)).copy() if count else np.zeros(0)
