"""Measuring on this machine with PyTorch: kernels, a model's layers, its gradients, collectives, and whole jobs.

Needs the extra `torch`, except for merging recorded traces. `simulator.record.hook` records a job under
DistributedDataParallel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.record.bucket_hook import hook

__all__ = ["hook"]


def __getattr__(name: str) -> Any:
    """`hook`, imported when it is first used. Raises InputError where PyTorch is missing."""
    if name != "hook":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from simulator.record.environment import need_torch

    need_torch("record")
    from simulator.record.bucket_hook import hook

    return hook
