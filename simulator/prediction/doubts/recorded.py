"""Doubts about recorded selections: the mean of a replay, and what was extrapolated to more workers than recorded."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from simulator.engine.plan.plan import Plan
from simulator.models.exchange import AllGather, Compute, Messages, PushPull, Selection
from simulator.models.widths import mape_of_width
from simulator.prediction.doubts.doubt import Doubt, Level, Measurement, Said, Sentence, say
from simulator.prediction.doubts.sentences import Reader
from simulator.prediction.simulated import Simulated
from simulator.scenario.scenario import Scenario

BEYOND_TRACE = "selections of more workers"
METHOD_TERMS = "selection", "communication_exposed", "combine"
"""Terms of the iteration that follow from what is selected."""
MINUTES = 30.0
"""What `sparsim record gradients` takes for some iterations of a model on some workers."""


def doubt_recorded(made: Simulated) -> Iterator[Doubt]:
    """Doubts about the mean of a replay over the priced iterations, to which exchanges and their combining are
    proportional, and about selections that were extrapolated."""
    scenario, breakdown, settled = made.scenario, made.figures.timed, made.recorded.settled
    about = f"{scenario.sparsifier.kind} on {scenario.workload.name}"
    seconds = math.fsum([breakdown[name] for name in METHOD_TERMS[1:]])
    if settled is not None and settled.width != 1.0:
        text = f"{scenario.sparsifier.kind} has not settled in the recorded iterations: {settled.reason}"
        level: Level = "assumed" if settled.reason else "measured"
        why = settled.reason or "standard error of the mean over the settled iterations"
        said = say(f"{text}; record more iterations", *METHOD_TERMS) if settled.reason else ()
        key, settle, width = ("mean of the replay", about), gradients_of("more iterations"), settled.width
        yield Doubt(*key, level, width, why, settle, said, held_out_mape=mape_of_width(width)).over(seconds)
    if made.recorded.ends:
        yield from _extrapolated(made, about, seconds)


def remark_on_recorded(reader: Reader) -> Iterator[Sentence]:
    """What the trace of the workload could not give, where no doubt says so."""
    if reader.simulated.recorded.warning and not reader.says_of(BEYOND_TRACE):
        yield Sentence(reader.simulated.recorded.warning, terms=METHOD_TERMS, place=1)


def _extrapolated(made: Simulated, about: str, seconds: float) -> Iterator[Doubt]:
    """What the iteration changes where more, or fewer, elements are sent than was extrapolated.

    To first order: exposed communication and the kernels after it are in proportion to the bytes that are handed over.
    """
    scenario, plan, recorded = made.scenario, made.plan, made.recorded
    sent, low, high = (_payload(scenario, plan, each) for each in (plan.work.selections, *recorded.ends))
    if not sent:
        return
    width = max(1.0, sent / low if low else high / sent, high / sent)
    changes = None if width > 1 else 0.0  # nothing that is extrapolated is sent
    sentence = Sentence(recorded.warning, terms=METHOD_TERMS, less=changes, more=changes, place=1)
    source, settle = "what a quarter of the recorded workers says of all of them", gradients_of("more workers")
    said = (Said(sentence),) if recorded.warning else ()
    doubt = Doubt(BEYOND_TRACE, about, "transferred", width, source, settle, said)
    yield doubt.with_seconds(seconds * (1 - low / sent), seconds * (high / sent - 1))


def gradients_of(what: str) -> Measurement:
    """The measurement of a model's gradients, of some iterations on some workers."""
    return Measurement(f"gradients of {what}", "sparsim record gradients", MINUTES)


def _payload(scenario: Scenario, plan: Plan, selections: Sequence[Selection]) -> float:
    """Bytes that are handed over for all buckets, of all steps of their exchanges."""
    workers, style = scenario.cluster.workers, scenario.topology.style
    sizes: list[float] = []
    for bucket, selection in zip(plan.work.buckets, selections, strict=True):
        method = scenario.sparsifier.at_density(bucket.density)
        for step in method.carry_out(selection, bucket, workers, style)[1]:
            if isinstance(step, PushPull):
                sizes += [step.push_nbytes, step.pull_nbytes]
            elif isinstance(step, Messages):
                sizes += step.nbytes
            elif isinstance(step, AllGather):
                sizes += step.sizes(workers).tolist()
            elif not isinstance(step, Compute):
                sizes.append(step.nbytes)
    return math.fsum(sizes)
