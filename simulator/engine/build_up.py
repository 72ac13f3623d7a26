"""How selections add up: methods replayed over recorded gradients at several numbers of workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simulator.component import build
from simulator.engine.replay import Steps, add_steps, replay_methods
from simulator.engine.settling import settle
from simulator.errors import InputError, Problem
from simulator.models.exchange import Bucket
from simulator.models.overlap import union_density
from simulator.progress import Watch
from simulator.sparsifiers.base import Sparsifier
from simulator.traces.format.trace import Trace

DEFAULT_METHODS: tuple[dict[str, Any], ...] = (
    {"kind": "topk", "density": 0.01},
    {"kind": "topk", "density": 0.01, "granularity": "model"},
)
"""Methods that are replayed where none are named."""


def build_up(
    folder: str | Path,
    methods: Sequence[Mapping[str, Any] | str],
    workers: Sequence[int] = (),
    watch: Watch | None = None,
) -> list[dict[str, Any]]:
    """Replay methods over a trace at several worker counts: one row per method, granularity, count and iteration.

    `independent`: the aggregated density if workers selected independently; in disjoint parts, the sum of all.
    `threshold`: that of methods which have one. `priced`: whether the iteration is in the settled part, of which a mean
    over iterations is taken. `unsettled`: why the method has not settled on so many workers; empty if it has. An
    interruption (Ctrl-C) ends it with the iterations that are done, once there is one. Raises InputError for a damaged
    trace, and for more workers than it recorded.
    """
    watch = watch or Watch()
    trace = Trace.open(Path(folder))
    recorded = trace.spec.workers
    counts = list(workers) or [2**i for i in range(recorded.bit_length())]
    if max(counts) > recorded:
        raise InputError(Problem(str(folder), f"at most {recorded} workers, those recorded", str(max(counts))))
    rows: list[dict[str, Any]] = []
    asked = [(build(Sparsifier, wanted), range(count)) for wanted in methods for count in counts]
    replays = replay_methods(asked, [one_bucket(trace)], trace, watch)
    for (method, first), steps in zip(asked, replays, strict=False):
        rows += _rows_of(method, len(first), steps)
    return rows


def _rows_of(method: Sparsifier, count: int, each: Steps) -> list[dict[str, Any]]:
    """The rows of the replay of a method with so many workers."""
    rows = []
    together = [add_steps(steps) for steps in each]
    settled = settle(together)
    for steps, step in zip(each, together, strict=True):
        row = step.row()
        about = {"method": label_method(method), "workers": count, "priced": row["iteration"] >= settled.first}
        alone = count * row["selected"] if step.selection.exclusive else union_density(row["selected"], count)
        threshold = steps[0].selection.detail.get("threshold")
        rows.append({**about, **row, "independent": alone, "threshold": threshold, "unsettled": settled.reason})
    return rows


def one_bucket(trace: Trace) -> Bucket:
    """One bucket of all tensors, in forward order."""
    return Bucket(0, trace.numels, 0, tuple(range(len(trace.numels))))


def label_method(method: Sparsifier) -> str:
    """Kind, density and granularity of a method, for tables and legends."""
    parts = [getattr(method, name, None) for name in ("density", "granularity")]
    return " ".join([method.kind, *(f"{part:g}" if isinstance(part, float) else str(part) for part in parts if part)])
