"""Error messages: one line per problem, `where: expected ..., got ...: hint`."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from simulator.records import Record

Given = TypeVar("Given")
Made = TypeVar("Made")

MAX_LISTED = 50
"""Most problems that the text of an error lists; it states the number of the others."""
MAX_PART = 500
"""Most characters of a part of a message, except paths."""


class Problem(Record):
    """One thing that is wrong with the input.

    Where `expected` is empty, as for a file that does not exist, `got` says what is wrong.

    >>> print(Problem("run.yaml:9:3: sparsifier.density", "at most 1", "3"))
    run.yaml:9:3: sparsifier.density: expected at most 1, got 3
    """

    where: str
    expected: str
    got: str
    hint: str = ""

    def __str__(self) -> str:
        what = f"expected {_clean(self.expected)}, got {_clean(self.got)}" if self.expected else _clean(self.got)
        return ": ".join(part for part in (_clean(self.where, 10 * MAX_PART), what, _clean(self.hint)) if part)


def _clean(text: str, limit: int = MAX_PART) -> str:
    """The text on one line, shortened if it is long, with control characters escaped.

    >>> _clean("a\\nb\\x1b[2J")
    'a\\\\nb\\\\x1b[2J'
    """
    start = text[: limit + 1]
    if not start.isprintable():
        start = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in start)
    return start if len(start) <= limit else start[: limit - 3] + "..."


class SparsimError(Exception):
    """Base of every error that this package raises on purpose."""


class InputError(SparsimError):
    """Invalid input; carries every problem that was found, so that all can be corrected at once."""

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        lines = [str(problem) for problem in self.problems[:MAX_LISTED]]
        left = len(self.problems) - len(lines)
        super().__init__("\n".join([*lines, f"and {left} more problems"] if left else lines))

    def __reduce__(self) -> tuple[type[InputError], tuple[tuple[Problem, ...]]]:
        """How it comes from another process."""
        return type(self), (self.problems,)

    def _render_traceback_(self) -> list[str]:
        """What IPython prints instead of a traceback: the problems, as the command line does."""
        return [f"{type(self).__name__}: {self}"]


class CodeError(InputError):
    """What the code of a member gets wrong, such as a kernel that nothing prices; no input of a user."""


@contextmanager
def collect_problems(problems: list[Problem]) -> Iterator[None]:
    """Add the problems of an InputError to the list, so that what follows can be checked too."""
    try:
        yield
    except InputError as error:
        problems.extend(error.problems)


def unless_refused(made: Made | InputError) -> Made:
    """What was made. Raises the InputError that stands in its place where it is refused."""
    if isinstance(made, InputError):
        raise made
    return made


def map_unless_refused(
    function: Callable[[list[Given]], Iterable[Made]], given: Iterable[Given | InputError]
) -> list[Made | InputError]:
    """What a function makes of all that are not refused together; an InputError stays in its place."""
    items = list(given)
    made = iter(function([item for item in items if not isinstance(item, InputError)]))
    return [item if isinstance(item, InputError) else next(made) for item in items]


def format_value(value: object, limit: int = 60) -> str:
    """The value as text for a message: on one line, shortened if it is long.

    >>> format_value("a" * 6, limit=8), format_value("a" * 7, limit=8)
    ("'aaaaaa'", "'aaaa...")
    """
    text = _repr(value, limit)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _repr(value: object, room: int) -> str:
    """The value as files have it, but of a large one little more than the first `room` characters."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str | bytes):
        return repr(value[: room + 1])
    if isinstance(value, int):
        return repr(value) if value.bit_length() < 4 * room + 60 else f"a number of {value.bit_length()} bits"
    if not isinstance(value, list | tuple | dict) or room <= 0:
        return "..." if room <= 0 else repr(value)
    parts, left = list[str](), room
    for item in value.items() if isinstance(value, dict) else ((each,) for each in value):
        if left <= 0:
            break
        parts.append(": ".join(_repr(part, left - 1) for part in item))
        left -= len(parts[-1]) + 2
    text = ", ".join(parts)
    if isinstance(value, dict):
        return f"{{{text}}}"
    return f"[{text}]" if isinstance(value, list) else f"({text}{',' if len(value) == 1 else ''})"


def suggest_nearest(word: str, words: Iterable[str]) -> str:
    """A hint that names the closest valid word, or all valid words where none is close.

    >>> suggest_nearest("topkk", ["topk", "dense"])
    "did you mean 'topk'?"
    >>> suggest_nearest("xyz", ["topk", "dense"])
    'valid: dense, topk'
    """
    known = sorted(words)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean '{close[0]}'?" if close else f"valid: {', '.join(known)}"


EXIT_CODES = {
    0: "success",
    1: "a run, some points of a sweep, a measurement or a validation bar failed",
    2: "invalid input: one line per problem on stderr, `where: expected ..., got ...: hint`",
    130: "interrupted; finished results are stored",
}
"""The exit codes of all commands."""
