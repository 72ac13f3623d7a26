"""What a recorded trace gives a prediction: selections of its workers, or an overlap law for more of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.plan import divide_and_check
from simulator.engine.plan.setup import Setup
from simulator.engine.replay import add_steps, mean_selection, replay_trace, replayed_unions
from simulator.engine.settling import Settled, settle
from simulator.errors import InputError, Problem
from simulator.models.exchange import Bucket, Selection
from simulator.models.overlap import Overlap, ScaleMixture
from simulator.models.small_cache import cache_small_results
from simulator.scenario.scenario import Scenario
from simulator.sparsifiers.base import Sparsifier

if TYPE_CHECKING:
    from simulator.traces.format.trace import Trace

_Stamp = tuple[tuple[str, int, int, int], ...]


class _Replay(NamedTuple):
    """What a replay depends on: the trace's files as they are now, the method, and the buckets."""

    folder: Path
    stamp: _Stamp
    sparsifier: Sparsifier
    buckets: tuple[Bucket, ...]
    since: int | None
    """The recorded iteration from which on it is priced; None: that from which on the method has settled."""


class RecordedInputs(NamedTuple):
    """What a recorded trace gives a prediction.

    Where the trace has enough workers: `rows`, one per recorded iteration, `settled`, the part of them that is priced,
    and `selections`, the mean of every bucket over that part.
    Where it has fewer: `law`, the overlap law fitted to it. `warning`: what the result says about it.
    """

    selections: tuple[Selection, ...] | None = None
    rows: tuple[dict[str, float], ...] = ()
    settled: Settled | None = None
    law: Overlap | None = None
    warning: str = ""

    def applied_to(self, setup: Setup) -> Setup:
        """The setup with the selections, or the overlap law, of the trace."""
        if self.selections is None and self.law is None:
            return setup
        law = setup.concentration if self.law is None else self.law
        return replace(setup, selections=self.selections, concentration=law)


NOTHING_RECORDED = RecordedInputs()


def recorded_inputs(scenario: Scenario, setup: Setup, network: NetworkSetup) -> RecordedInputs:
    """What the scenario's trace gives its method, replayed bucket by bucket; nothing where there is no trace.

    Neither the network nor the GPU matters for a replay, so that a sweep over them replays once. Raises InputError
    where the trace is damaged, and an expected-error, before the replay, where the parts of the job do not fit.
    """
    workers = scenario.cluster.workers
    if not scenario.workload.gradients or workers == 1:
        return NOTHING_RECORDED
    division = divide_and_check(setup, network)
    stated = scenario.overlap_concentration is not None or scenario.overlap_mixture is not None
    return _recorded_inputs(_replay_of(scenario, division.buckets), workers, stated)


def fitted_law(scenario: Scenario, buckets: tuple[Bucket, ...]) -> Overlap | None:
    """The overlap law fitted to the scenario's trace, for more workers than it holds.

    It is fitted to what the scenario's own method aggregates at 1, 2, 4, ... recorded workers: a scale mixture where
    there are three worker counts or more, else the beta-binomial concentration. None where one worker was recorded,
    where the method has no density, and where unions shrink as workers are added, which no law describes.
    """
    return _fitted_law(_replay_of(scenario, buckets))[0]


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
def _recorded_inputs(replay: _Replay, workers: int, stated: bool) -> RecordedInputs:
    trace = _open_trace(replay)
    if workers <= trace.spec.workers:
        steps = list(replay_trace(replay.sparsifier, replay.buckets, trace, workers))
        together = [add_steps(each) for each in steps]
        settled = settle(together, replay.since)
        priced = steps[-settled.iterations :]
        selections = tuple(mean_selection([step.selection for step in one]) for one in zip(*priced, strict=True))
        return RecordedInputs(selections, tuple(step.row() for step in together), settled)
    law = None if stated else _fitted_law(replay)[0]
    by = f", overlap law fitted to the trace ({_describe_law(law)})" if law is not None else ""
    return RecordedInputs(
        law=law, warning=f"more workers than the trace has recorded: selections come from the closed form{by}"
    )


@cache_small_results
def _fitted_law(replay: _Replay) -> tuple[Overlap | None]:
    from simulator.traces.overlap_fit import fit_concentration, fit_mixture

    trace = _open_trace(replay)
    if trace.spec.workers < 2 or not hasattr(replay.sparsifier, "density"):
        return (None,)
    unions = replayed_unions(replay.sparsifier, replay.buckets, trace)
    if any(after < before for before, after in pairwise(unions.values())):
        return (None,)
    return (fit_mixture(unions) if len(unions) > 2 else fit_concentration(unions),)


def _open_trace(replay: _Replay) -> Trace:
    from simulator.traces.format.trace import Trace  # pyarrow: only where there is a trace to read

    trace = Trace.open(replay.folder)
    last = trace.spec.runs()[-1][1]
    if (replay.since or 0) > last:
        what = f"`settled` of at most {last}, the last recorded iteration"
        raise InputError(Problem(str(replay.folder), what, str(replay.since)))
    return trace


def _describe_law(law: Overlap) -> str:
    if isinstance(law, ScaleMixture):
        return f"scale mixture, spread {law.spread:.3g}, core {law.core:.3g}"
    return f"concentration {law:.4g}"
