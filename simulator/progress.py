"""Progress of a long study: what is done of what there is to do, for those who watch it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(slots=True)
class Progress:
    """How far a study is: numbers of distinct points, reused, evaluated and failed ones; seconds since the start."""

    total: int
    reused: int = 0
    evaluated: int = 0
    failed: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Points evaluated per second."""
        return self.evaluated / self.seconds if self.seconds else 0.0

    @property
    def remaining(self) -> float | None:
        """Seconds until the end at this rate; None before the first point."""
        left = self.total - self.reused - self.evaluated
        return left / self.rate if self.rate else None


Observe = Callable[[Progress], None]
OBSERVED: ContextVar[Observe | None] = ContextVar("OBSERVED", default=None)
"""Who is shown the replays of a trace, which a prediction makes far below the command that waits for them."""


@dataclass(slots=True)
class Watch:
    """Counts the steps of a study and shows them to `observe`, if there is anyone.

    `interrupted`: the part of the study in which the user interrupted it; empty while nobody did.
    """

    observe: Observe | None = None
    total: int = 0
    done: int = 0
    interrupted: str = ""
    began: float = field(default_factory=time.monotonic)

    def expect(self, count: int) -> None:
        """Add so many steps to those that there are to do."""
        self.total += count
        self._show()

    def step(self, count: int = 1) -> None:
        """So many steps are done."""
        self.done += count
        self.total = max(self.total, self.done)
        self._show()

    def _show(self) -> None:
        if self.observe is not None:
            self.observe(Progress(self.total, evaluated=self.done, seconds=time.monotonic() - self.began))

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """A part of the study that may be left undone: an interruption (Ctrl-C) ends it, and is remembered."""
        try:
            yield
        except KeyboardInterrupt:
            self.interrupted = name
