"""What a recorded trace gives a prediction: selections of its workers, or those of more workers, extrapolated."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from simulator.engine.plan.setup import Setup
from simulator.engine.plan.work.work import divide_and_check
from simulator.engine.replay import replay_methods
from simulator.engine.settling import Settled
from simulator.errors import InputError, Problem
from simulator.models.exchange import Bucket, Selection
from simulator.models.overlap import INDEPENDENT, Overlap, ScaleMixture
from simulator.models.small_cache import MOST, LatestResults, cache_small_results
from simulator.prediction.extrapolation import (
    Observed,
    extrapolate,
    first_quarter,
    growth_of,
    replay_by_workers,
    see_steps,
    selections_within,
)
from simulator.prediction.job_setup import NOTHING_RECORDED, RecordedInputs
from simulator.scenario.scenario import Scenario
from simulator.sparsifiers.base import Sparsifier
from simulator.units import join_words

if TYPE_CHECKING:
    from simulator.traces.format.trace import Trace

_checked: LatestResults[Trace] = LatestResults(1, lambda trace: len(trace.keys.layer) <= MOST)
"""The latest trace, where it is small: opening it reads and checks all of its gradients."""
_Stamp = tuple[tuple[str, int, int, int], ...]


class _Replay(NamedTuple):
    """What a replay depends on: the trace's files as they are now, the method, and the buckets."""

    folder: Path
    stamp: _Stamp
    sparsifier: Sparsifier
    buckets: tuple[Bucket, ...]
    since: int | None
    """The recorded iteration from which on it is priced; None: that from which on the method has settled."""


def recorded_inputs(scenario: Scenario, setup: Setup) -> RecordedInputs:
    """What the scenario's trace gives its method, replayed bucket by bucket.

    Neither the network nor the GPU matters for a replay, so that a sweep over them replays once. Raises InputError
    where the trace is damaged, and an expected-error, before the replay, where the parts of the job do not fit.
    """
    buckets = divide_and_check(setup)
    stated = scenario.overlap_concentration is not None or scenario.overlap_mixture is not None
    law = scenario.concentration if stated else None
    return _recorded_inputs(_replay_of(scenario, buckets), scenario.cluster.workers, law)


def fitted_law(scenario: Scenario, buckets: tuple[Bucket, ...]) -> Overlap | None:
    """The overlap law fitted to the scenario's trace, for more workers than it holds.

    It is fitted to what the scenario's own method aggregates at 1, 2, 4, ... and all recorded workers. None where one
    worker was recorded, where the method has no density or no build-up, and where unions shrink as workers are added,
    which no law describes.
    """
    replay = _replay_of(scenario, buckets)
    return _law_of(replay.sparsifier, _observed(replay)[0]) if replay.sparsifier.follows_gradients else None


def _replay_of(scenario: Scenario, buckets: tuple[Bucket, ...]) -> _Replay:
    folder = Path(scenario.workload.gradients)
    since = None if scenario.workload.settled == "auto" else scenario.workload.settled
    return _Replay(folder, _stamp(folder), scenario.sparsifier, buckets, since)


def _stamp(folder: Path) -> _Stamp:
    """Names, times and sizes of the folder's files, which change when a file is written or replaced."""
    try:
        files = [(path.name, path.stat()) for path in sorted(folder.iterdir())]
    except OSError:
        return ()
    return tuple((name, about.st_mtime_ns, about.st_size, about.st_ino) for name, about in files)


@cache_small_results
def _recorded_inputs(replay: _Replay, workers: int, stated: Overlap | None) -> RecordedInputs:
    trace = _open_trace(replay)
    if not replay.sparsifier.follows_gradients:
        return NOTHING_RECORDED
    if workers <= trace.spec.workers:
        (steps,) = replay_methods([(replay.sparsifier, range(workers))], replay.buckets, trace)
        seen = see_steps(steps, replay.since)
        return RecordedInputs(seen.selections, seen.rows, seen.settled)
    observed, settled = _observed(replay)
    few = first_quarter(observed)
    recorded = trace.spec.workers
    law, made = _extrapolated(replay, observed, stated, workers)
    missed = _extrapolated(replay, few, stated, recorded)[1] if few else ()
    counts = join_words([str(item.workers) for item in observed])
    by = f" (overlap law: {_describe_law(law)})" if growth_of(replay.sparsifier, observed).grows else ""
    return RecordedInputs(
        made,
        settled=settled,
        ends=selections_within(made, missed, observed, replay.buckets, workers),
        warning=f"more workers than the trace has recorded: what they select is extrapolated from replays of {counts} "
        f"workers{by}; record {workers} workers",
    )


def _extrapolated(
    replay: _Replay, observed: Sequence[Observed], stated: Overlap | None, workers: int
) -> tuple[Overlap, tuple[Selection, ...]]:
    """The overlap law that is stated or fitted to what was observed, and the selections of `workers` by it."""
    law = stated if stated is not None else _law_of(replay.sparsifier, observed)
    law = INDEPENDENT if law is None else law
    return law, extrapolate(replay.sparsifier, observed, replay.buckets, law, workers)


@cache_small_results
def _observed(replay: _Replay) -> tuple[tuple[Observed, ...], Settled]:
    return replay_by_workers(replay.sparsifier, replay.buckets, _open_trace(replay), replay.since)


def _law_of(sparsifier: Sparsifier, observed: Sequence[Observed]) -> Overlap | None:
    from simulator.traces.overlap_fit import fit_law

    unions = {item.workers: item.union for item in observed}
    ordered = all(0 < before <= after for before, after in pairwise(unions.values()))
    if len(unions) < 2 or not ordered or not growth_of(sparsifier, observed).grows:
        return None
    return fit_law(unions, {item.workers: item.error for item in observed}, observed[-1].together)


def _open_trace(replay: _Replay) -> Trace:
    from simulator.traces.format.trace import Trace  # pyarrow: only where there is a trace to read

    trace = _checked.get((replay.folder, replay.stamp), lambda: Trace.open(replay.folder))
    last = trace.spec.runs()[-1][1]
    if (replay.since or 0) > last:
        what = f"`settled` of at most {last}, the last recorded iteration"
        raise InputError(Problem(str(replay.folder), what, str(replay.since)))
    return trace


def _describe_law(law: Overlap) -> str:
    if isinstance(law, ScaleMixture):
        return f"scale mixture, spread {law.spread:.3g}, core {law.core:.3g}, silent {law.silent:.3g}"
    return f"concentration {law:.4g}"
