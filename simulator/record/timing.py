"""Clocks of host and GPU, and the summary of repeated measurements."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

HEAD_START_CYCLES = 2_000_000
"""GPU cycles (about a millisecond) for which the GPU is kept busy while the host queues the timed calls."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, 5th and 95th percentile in seconds, of so many repeats."""

    median: float
    p5: float
    p95: float
    repeats: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spread:
        """The summary of one or more repeats."""
        p5, median, p95 = np.percentile(np.asarray(seconds, dtype=float), (5, 50, 95)).tolist()
        return cls(median, p5, p95, len(seconds))

    def cells(self) -> dict[str, str]:
        """As columns of a recorded table."""
        times = {"median_s": self.median, "p5_s": self.p5, "p95_s": self.p95}
        return {name: f"{seconds:.6g}" for name, seconds in times.items()} | {"repeats": str(self.repeats)}


class Clock(Protocol):
    """Marks moments of a device's work and gives the seconds between two of them."""

    def mark(self) -> Any:
        """A moment after all work that the device has been given so far."""

    def seconds(self, begin: Any, end: Any) -> float:
        """Seconds between two moments; the device must have `settled`."""

    def settle(self) -> None:
        """Wait until the device has done all work."""

    def head_start(self) -> None:
        """Keep the device busy for a moment, so that the host can queue work ahead of it."""


class HostClock:
    """The clock of the processor: work is done when the call returns."""

    def mark(self) -> float:
        """Now, in seconds."""
        return time.perf_counter()

    def seconds(self, begin: float, end: float) -> float:
        """Their difference."""
        return end - begin

    def settle(self) -> None:
        """Nothing to wait for."""

    def head_start(self) -> None:
        """There is no queue to fill."""


class GpuClock:
    """CUDA events in the current stream."""

    def mark(self) -> Any:
        """An event, recorded in the stream."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, begin: Any, end: Any) -> float:
        """Seconds between two events."""
        return 1e-3 * float(begin.elapsed_time(end))

    def settle(self) -> None:
        """Synchronise with the device."""
        torch.cuda.synchronize()

    def head_start(self) -> None:
        """Queue a kernel that only waits (no public call); without it, small kernels are timed with launch gaps."""
        wait = getattr(torch.cuda, "_sleep", None)
        if wait is not None:
            wait(HEAD_START_CYCLES)


def clock_of(device: str) -> Clock:
    """The clock for `cpu` or a GPU."""
    return HostClock() if device == "cpu" else GpuClock()
