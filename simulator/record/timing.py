"""Clocks of host and GPU, and how repeated measurements are summed up."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

HEAD_START_CYCLES = 2_000_000
"""GPU cycles (about a millisecond) that the GPU is kept busy while the host queues what is timed."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, 5th and 95th percentile in seconds, of so many repeats."""

    median: float
    p5: float
    p95: float
    repeats: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Spread:
        """Sum up repeats, at least one."""
        p5, median, p95 = np.percentile(np.asarray(seconds, dtype=float), (5, 50, 95)).tolist()
        return cls(median, p5, p95, len(seconds))

    def cells(self) -> dict[str, str]:
        """As columns of a recorded table."""
        times = {"median_s": self.median, "p5_s": self.p5, "p95_s": self.p95}
        return {name: f"{seconds:.6g}" for name, seconds in times.items()} | {"repeats": str(self.repeats)}


class Clock(Protocol):
    """Marks moments of a device's work and tells the seconds between two of them."""

    def mark(self) -> Any:
        """A moment: all work given to the device so far is before it."""

    def seconds(self, begin: Any, end: Any) -> float:
        """Seconds between two moments; the device must have `settled`."""

    def settle(self) -> None:
        """Wait until the device has done all work."""

    def head_start(self) -> None:
        """Keep the device busy for a moment, so that the host can queue work ahead of it."""


class HostClock:
    """The processor's: work is done when the call returns."""

    def mark(self) -> float:
        """Now, in seconds."""
        return time.perf_counter()

    def seconds(self, begin: float, end: float) -> float:
        """Their difference."""
        return end - begin

    def settle(self) -> None:
        """Nothing is ever under way."""

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
        """Between two events."""
        return 1e-3 * float(begin.elapsed_time(end))

    def settle(self) -> None:
        """Synchronise with the device."""
        torch.cuda.synchronize()

    def head_start(self) -> None:
        """A kernel that only waits; without one (it is no public call) timings of small kernels hold launch gaps."""
        wait = getattr(torch.cuda, "_sleep", None)
        if wait is not None:
            wait(HEAD_START_CYCLES)


def clock_of(device: str) -> Clock:
    """The clock for `cpu` or a GPU."""
    return HostClock() if device == "cpu" else GpuClock()
