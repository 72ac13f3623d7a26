"""The compiled event loop as a shared library beside its source, where there is one."""

from __future__ import annotations

import ctypes
import os
import zlib
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_name("event_loop.c")
LIBRARY = SOURCE.with_name("event_loop.compiled")
SWITCH = "SPARSIM_COMPILED"
"""Environment variable: with 0 the reference in Python is used."""


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
    library.loop_take.argtypes, library.loop_take.restype = [pointer, pointer, pointer], number
    library.loop_recorded.argtypes, library.loop_recorded.restype = [pointer] * 4, number
    return library


def source_number() -> int:
    """A number of the source, which the library carries too: equal where it was compiled from this source."""
    return zlib.crc32(SOURCE.read_bytes()) >> 1
