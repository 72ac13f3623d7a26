"""Clocks of host and GPU."""

from __future__ import annotations

import time
from typing import Any

import torch

HEAD_START_CYCLES = 2_000_000
"""GPU cycles (about a millisecond) for which the GPU is kept busy while the host queues the timed calls."""


class Clock:
    """Marks moments of a device's work and gives the seconds between two of them; here of the processor, whose work is
    done when the call returns."""

    def mark(self) -> Any:
        """A moment after all work that the device has been given so far."""
        return time.perf_counter()

    def seconds(self, begin: Any, end: Any) -> float:
        """Seconds between two moments; the device must have `settled`."""
        return float(end - begin)

    def settle(self) -> None:
        """Wait until the device has done all work."""

    def head_start(self) -> None:
        """Keep the device busy for a moment, so that the host can queue work ahead of it."""


class GpuClock(Clock):
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
    return Clock() if device == "cpu" else GpuClock()
