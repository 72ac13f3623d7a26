"""The result of a run: every figure with its unit and meaning.

JSON (`sparsim run --json`), its schema, the reference, the columns of a sweep and what Python returns follow from it.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated

from simulator.answers import Answer, AnswerKey, Interval, in_json, keys_of, says
from simulator.models.timeline import BREAKDOWN, IDLE, TERMS
from simulator.prediction.result_parts import (
    AxisUses,
    Basis,
    CollectiveUse,
    Comparison,
    Densities,
    Fidelity,
    Goodput,
    ImplementationSaving,
    LinkLoad,
    MemoryUse,
    PeriodTimes,
    PricedReplay,
    RecordedStep,
    SentTraffic,
    StreamUse,
    WarningSize,
    Word,
)
from simulator.records import field
from simulator.scenario.versions import VERSIONED

SHARES = (50, 80, 90)
"""Per cent of cases that intervals are to hold."""
_TERMS = {term: TERMS[term].meaning for term in BREAKDOWN}
_WAITS = {term: TERMS[term].meaning for term in IDLE}
_CASES = {f"{percent}": f"interval that is to hold the iteration time in {percent} % of cases" for percent in SHARES}
TIME_INTERVAL = "iteration_time_interval_s"
"""The key of a result that a table has as two columns, `.p5` and `.p95`."""
_VERSIONS = {name: f"version of {title}" for name, title in VERSIONED.items()}


class RunResult(
    Answer,
    kw_only=True,
    rename=in_json(
        time=("iteration_time", "intervals", "breakdown", "communication_total", "idle", "waiting"),
        name="scenario",
        interval="iteration_time_interval_s",
        throughput="throughput_samples_per_s",
    ),
):
    """The figures of the counted iterations, and what they rest on.

    The lists of links, collectives and recorded iterations, and the sizes of warnings, are None in a row of a table;
    so is what a result has not that an older version stored.
    """

    name: Annotated[str, says("name of the scenario")]
    digest: Annotated[str, says("SHA-256 over all that the prediction depends on, the engine's version included")]
    versions: Annotated[dict[str, str], says("versions that a result depends on", keys=_VERSIONS)] = field(
        default_factory=dict
    )
    seed: Annotated[int, says("seed of every random draw")]
    workers: Annotated[int, says("GPUs in all")]
    precision: Annotated[
        str | None, says("format of the gradients, and that in which they travel where it is another one")
    ] = None
    iteration_time: Annotated[float, says("mean time of one training iteration", "s")]
    interval: Annotated[Interval, says("90 % interval of the iteration time: 5th and 95th percentile", "s")]
    intervals: Annotated[dict[int, Interval], says("intervals of the iteration time", "s", _CASES)] = field(
        default_factory=dict
    )
    throughput: Annotated[float | None, says("samples that all workers train on per second", "samples/s")]
    scaling_efficiency: Annotated[
        float | None,
        says("throughput over that of as many single GPUs without communication or sparsification", "1"),
    ]
    breakdown: Annotated[dict[str, float], says("terms of the iteration time", "s", _TERMS)]
    communication_total: Annotated[float, says("all communication of an iteration, exposed and hidden", "s")]
    traffic: SentTraffic
    density: Densities
    fidelity: Fidelity
    calibration: list[Basis]
    warnings: Annotated[
        list[str], says("what a reader of the prediction should know, each with its size, largest first")
    ]
    warning_sizes: list[WarningSize] | None = None
    notes: Annotated[list[str] | None, says("what touches and changes less than 0.1 % of the iteration")] = None
    measured: Annotated[str | None, says("what a measurement of this job, or of another one, says of it")] = None
    memory: MemoryUse | None = None
    idle: Annotated[dict[str, float], says("idle time by its cause", "s", _WAITS)]
    links: list[LinkLoad] | None = None
    collectives: list[CollectiveUse] | None = None
    density_over_iterations: list[RecordedStep] | None = None
    replay: PricedReplay | None = None
    waiting: Annotated[
        float | None, says("time in which collectives wait for the slowest worker, exposed and hidden", "s")
    ] = None
    streams: StreamUse | None = None
    axes: AxisUses | None = None
    period: PeriodTimes | None = None
    elastic: Goodput | None = None
    implementation: ImplementationSaving | None = None
    comparison: Comparison | None = None
    question: Annotated[
        str | None, says("what the comparison answers: the scenario's question, or one made from what differs")
    ] = None

    @property
    def warning_texts(self) -> list[str]:
        """The warnings without their sizes, by which several results are compared."""
        if self.warning_sizes is None:  # stored by an older version, or a row of a table
            return self.warnings
        return [item.text for item in self.warning_sizes]

    @property
    def lasting_time(self) -> float:
        """The iteration time with what is lost where machines come and go; infinite where the training never ends."""
        return self.iteration_time if self.elastic is None else self.elastic.lasting_time

    @property
    def compute_utilisation(self) -> float:
        """The share of the time in which a worker computes forward, backward and update; no outer steps are counted."""
        if self.period is not None and self.period.compute_utilisation is not None:
            return self.period.compute_utilisation
        terms = self.breakdown
        computed = terms["forward"] + terms["backward"] + terms["update"] + terms.get("slowdown", 0.0)
        return computed / self.iteration_time


class VerdictColumns(
    Answer, kw_only=True, rename=in_json(speed_up_low="speed_up_interval.p5", speed_up_high="speed_up_interval.p95")
):
    """Further columns of a sweep with `verdicts: true`."""

    speed_up: Annotated[
        float | None,
        says("time of dense, all else the same, over this one's, with all losses; missing for dense itself", "1"),
    ]
    speed_up_low: Annotated[float | None, says("5th percentile of the speed-up over dense", "1")]
    speed_up_high: Annotated[float | None, says("95th percentile of the speed-up over dense", "1")]
    probability: Annotated[
        float | None, says("probability that this point is faster than dense, all else the same", "1")
    ]
    verdict: Annotated[Word | None, says("whether it is faster than dense: `yes`, `no`, `alike` or `undecided`")]


@cache
def column_keys() -> dict[str, AnswerKey]:
    """Unit and meaning of every key of a result, both ends of its interval, and the further columns of a sweep."""
    known = keys_of(RunResult) | keys_of(VerdictColumns)
    return known | {f"{TIME_INTERVAL}.{end}": known[TIME_INTERVAL] for end in ("p5", "p95")}
