"""Lines of YAML with comments that stand in one column."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from simulator.units import parse, show_bandwidth, show_time

_COLUMN, _WIDTH = 44, 120


class TextLine(NamedTuple):
    """A line and its comment, if it has one."""

    text: str
    comment: str = ""


def join_lines(lines: Iterable[TextLine]) -> str:
    """The text of lines: comments in one column, and above their line where both are too long for one line."""
    made = []
    for text, comment in lines:
        if not comment:
            made.append(text)
        elif len(beside := f"{text:<{_COLUMN}}  # {comment}") <= _WIDTH:
            made.append(beside)
        else:
            indent = " " * (len(text) - len(text.lstrip()))
            made += [f"{indent}# {comment}", text]
    return "\n".join(made) + "\n"


def exact_rate(bandwidth: float) -> str:
    """Bytes/s as text that reads back as the same number: in bit/s where that is short.

    >>> exact_rate(1.25e9), exact_rate(123456789.0)
    ('10 Gbit/s', '123456789.0 B/s')
    """
    shown = show_bandwidth(bandwidth)
    return shown if math.isclose(parse(shown, "bandwidth"), bandwidth, rel_tol=1e-12) else f"{bandwidth!r} B/s"


def exact_time(seconds: float) -> str:
    """Seconds as text that reads back as the same number.

    >>> exact_time(5e-05), exact_time(0.009975)
    ('50 us', '9.975 ms')
    """
    shown = show_time(seconds)
    return shown if math.isclose(parse(shown, "time"), seconds, rel_tol=1e-12) else f"{seconds!r} s"
