"""Errors for people: one line per problem, `where: expected ..., got ...: hint`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with the input.

    >>> print(Problem("run.yaml:9:3: sparsifier.density", "at most 1", "3"))
    run.yaml:9:3: sparsifier.density: expected at most 1, got 3
    """

    where: str
    expected: str
    got: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.where}: expected {self.expected}, got {self.got}"
        return f"{text}: {self.hint}" if self.hint else text


class SparsimError(Exception):
    """Base of every error that this package raises on purpose."""


class InputError(SparsimError):
    """Bad input; carries every problem found, so that all can be mended at once."""

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def shown(value: object, limit: int = 60) -> str:
    """The value as it goes into a message: on one line, cut when long.

    >>> shown("a" * 100, limit=8)
    "'aaaa..."
    """
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def nearest(word: str, words: Iterable[str]) -> str:
    """A hint that names the closest valid word, or all of them where none is close.

    >>> nearest("topkk", ["topk", "dense"])
    "did you mean 'topk'?"
    >>> nearest("xyz", ["topk", "dense"])
    'valid: dense, topk'
    """
    known = sorted(words)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean '{close[0]}'?" if close else f"valid: {', '.join(known)}"


EXIT_CODES = {
    0: "done",
    1: "a run, some points of a sweep, a measurement or a validation bar failed",
    2: "bad input: one line per problem on stderr, `where: expected ..., got ...: hint`",
    130: "interrupted; what is finished is on disk",
}
"""What the commands' exit codes mean."""
