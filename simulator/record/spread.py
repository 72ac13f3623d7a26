"""The summary of repeated measurements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.records import Record


class TimePercentiles(Record):
    """Median, 5th and 95th percentile in seconds, of so many repeats."""

    median: float
    p5: float
    p95: float
    repeats: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> TimePercentiles:
        """The summary of one or more repeats."""
        p5, median, p95 = np.percentile(np.asarray(seconds, dtype=float), (5, 50, 95)).tolist()
        return cls(median, p5, p95, len(seconds))

    def cells(self) -> dict[str, str]:
        """The columns of a recorded table that state it."""
        times = {"median_s": self.median, "p5_s": self.p5, "p95_s": self.p95}
        return {name: f"{seconds:.6g}" for name, seconds in times.items()} | {"repeats": str(self.repeats)}
