"""What a recorded trace gives a run: the mean selections of its own workers, or an overlap law for more of them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from simulator.engine.plan.plan import Plan
from simulator.engine.replay import added, mean_selection, replay_trace, replayed_unions
from simulator.models.exchange import Bucket, Selection
from simulator.models.overlap import Overlap, ScaleMixture
from simulator.models.small_cache import cache_small_results
from simulator.scenario.scenario import Scenario
from simulator.sparsifiers.base import Sparsifier

if TYPE_CHECKING:
    from simulator.traces.format.trace import Trace

_Stamp = tuple[tuple[str, int, int, int], ...]


class _Replay(NamedTuple):
    """What replay depends on: the trace's files as they are now, the method, and what travels together."""

    folder: Path
    stamp: _Stamp
    sparsifier: Sparsifier
    buckets: tuple[Bucket, ...]


class Recorded(NamedTuple):
    """`selections`: mean of every bucket, and `rows`, one per recorded iteration, where the trace has the workers;
    `law`: the overlap law fitted to it where it has fewer; `warning`: what the result says of it."""

    selections: tuple[Selection, ...] | None = None
    rows: tuple[dict[str, float], ...] = ()
    law: Overlap | None = None
    warning: str = ""


NOTHING_RECORDED = Recorded()


def recorded(scenario: Scenario, plan: Plan) -> Recorded:
    """What the scenario's trace gives its method. Raises InputError where the trace is damaged.

    Neither the network nor the GPU matters here, so that a sweep over them replays once.
    """
    stated = scenario.overlap_concentration is not None or scenario.overlap_mixture is not None
    return _recorded(_replay(scenario, plan), scenario.cluster.workers, stated)


def fitted_law(scenario: Scenario, plan: Plan) -> Overlap | None:
    """The overlap law fitted to the scenario's trace, for more workers than it holds.

    From what the scenario's own method aggregates at 1, 2, 4, ... recorded workers; None where one worker was recorded
    or the method has no density. A scale mixture where there are three worker counts or more, else the beta-binomial
    concentration; None, too, where unions shrink as workers are added, as no law has it.
    """
    return _fitted(_replay(scenario, plan))[0]


def _replay(scenario: Scenario, plan: Plan) -> _Replay:
    folder = Path(scenario.workload.gradients)
    return _Replay(folder, _stamp(folder), scenario.sparsifier, plan.work.buckets)


def _stamp(folder: Path) -> _Stamp:
    """What changes when a file of the folder is written or replaced."""
    try:
        files = [(path.name, path.stat()) for path in sorted(folder.iterdir())]
    except OSError:
        return ()
    return tuple((name, about.st_mtime_ns, about.st_size, about.st_ino) for name, about in files)


@cache_small_results
def _recorded(replay: _Replay, workers: int, stated: bool) -> Recorded:
    trace = _opened(replay)
    if workers <= trace.spec.workers:
        steps = list(replay_trace(replay.sparsifier, replay.buckets, trace, workers))
        selections = tuple(mean_selection([step.selection for step in one]) for one in zip(*steps, strict=True))
        return Recorded(selections, tuple(added(each).row() for each in steps))
    law = None if stated else _fitted(replay)[0]
    by = f", overlap law fitted to the trace ({_described(law)})" if law is not None else ""
    return Recorded(law=law, warning=f"more workers than the trace recorded: closed form{by}")


@cache_small_results
def _fitted(replay: _Replay) -> tuple[Overlap | None]:
    from simulator.traces.overlap_fit import fit_concentration, fit_mixture

    trace = _opened(replay)
    if trace.spec.workers < 2 or not hasattr(replay.sparsifier, "density"):
        return (None,)
    unions = replayed_unions(replay.sparsifier, replay.buckets, trace)
    if any(after < before for before, after in pairwise(unions.values())):
        return (None,)
    return (fit_mixture(unions) if len(unions) > 2 else fit_concentration(unions),)


def _opened(replay: _Replay) -> Trace:
    from simulator.traces.format.trace import Trace  # pyarrow: only where there is a trace to read

    return Trace.open(replay.folder)


def _described(law: Overlap) -> str:
    if isinstance(law, ScaleMixture):
        return f"scale mixture, spread {law.spread:.3g}, core {law.core:.3g}"
    return f"concentration {law:.4g}"
