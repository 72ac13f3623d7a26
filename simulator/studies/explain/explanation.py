"""Where one iteration's time goes, what it would take without each cost, and which inputs it depends on."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from simulator.engine.clock.graphs import graph_of
from simulator.errors import InputError
from simulator.prediction.doubts.spread import Response, Spread, alone
from simulator.prediction.doubts.verdict import command_of, least_known, measurements_of
from simulator.prediction.memory import payload_bytes
from simulator.prediction.run import Prediction, run, time_batch, with_responses
from simulator.progress import Watch
from simulator.records import asdict, replace
from simulator.reporting.answers.explained import (
    Counterfactual,
    Doubts,
    Effect,
    ExchangeSum,
    ExplainedIteration,
    TermShare,
    UsedInput,
)
from simulator.scenario.changes import with_value
from simulator.scenario.scenario import Scenario
from simulator.studies.explain.critical_path import PARTS, Exposure, hiding_compute, longest_waits
from simulator.studies.explain.sensitivity import sensitivity
from simulator.studies.explain.terms import terms_of
from simulator.studies.processes.executors import map_watched
from simulator.studies.variants.crossing import (
    with_free_selection,
    with_good_implementation,
    with_infinite_network,
    without_software,
    without_stragglers,
)
from simulator.units import show_time

BASIS = (
    "The terms follow the compute stream of the slowest worker and, where it waits, the exchange that it waits for. "
    "Start-up and transfer come from pricing that exchange again at zero latency on the same links."
)
_CHANGES: dict[str, tuple[str, Callable[[Scenario], Scenario]]] = {
    "infinite_network": ("infinite bandwidth and no latency on every link, no other traffic", with_infinite_network),
    "free_selection": ("the same method; its kernels before the exchange take no time", with_free_selection),
    "good_implementation": (
        "the same method, fused: one call per kernel, one gather per payload, no reads by the host",
        with_good_implementation,
    ),
    "no_software": ("no negotiation, launch or copy around an exchange", without_software),
    "no_stragglers": ("all workers alike: no jitter, slow GPU or kernel whose time varies", without_stragglers),
}


def explain(scenario: Scenario, watch: Watch | None = None) -> ExplainedIteration:
    """The terms of one iteration, which sum to its time; the time without each cost; how sure it is
    (`uncertainty`); the inputs that it depends on most.

    An interruption (Ctrl-C) leaves out costs and inputs that `watch` has not seen done, once the terms are known.
    Raises InputError where the parts of the scenario cannot work together, or do not fit into the memory of a GPU.
    """
    watch = watch or Watch()
    prediction = with_responses(run(scenario))
    result = prediction.result
    if prediction.carried is not None:  # from here on, as its figures were moved by the measurement
        prediction = replace(prediction, carried=None)
    terms, exposed = terms_of(prediction)
    # Neighbours of a scenario that fits, such as one with more workers, may not fit themselves.
    free = with_value(prediction.simulated.scenario, "ignore_memory", True)
    inputs = sensitivity(free, watch=watch)
    alternatives = counterfactuals(replace(prediction, simulated=replace(prediction.simulated, scenario=free)), watch)
    exposed_s = result.breakdown["communication_exposed"]
    silent = f"inputs without effect, from half to twice their values: {', '.join(inputs.without_effect)}"
    return ExplainedIteration(
        scenario=result.name,
        digest=result.digest,
        versions=result.versions,
        workers=result.workers,
        iteration_time=result.iteration_time,
        interval=result.interval,
        summary=_summarise(terms, alternatives, result.iteration_time),
        basis=_describe_basis(prediction),
        terms=terms,
        hidden_communication=max(0.0, result.communication_total - exposed_s),
        exchanges=_summarise_exchanges(prediction, exposed),
        axes=result.axes,
        waits=None if result.axes is None else longest_waits(prediction.plan, prediction.iteration),
        hidden=None if result.axes is None else hiding_compute(prediction.plan, prediction.iteration),
        counterfactuals=alternatives,
        measured=result.measured,
        memory=result.memory,
        uncertainty=uncertainty(prediction),
        sensitivity=inputs,
        warnings=result.warnings,
        notes=[*(result.notes or ()), *([silent] if inputs.without_effect else [])],
    )


def _describe_basis(prediction: Prediction) -> str:
    """What the terms follow, whether they are means, and which numbers are those of a period of local steps."""
    plan, text = prediction.plan, BASIS
    if prediction.scenario.cluster.stragglers.jitter or plan.work.selection_spread.any():
        text += f" Times are means over {prediction.scenario.iterations} iterations and over workers; exposed"
        text += " communication is split as in the last iteration."
    if plan.period is not None:
        text += " Terms are those of one local step; calls, payloads and kernels those of a period of "
        text += f"{plan.steps:,} of them."
    return text


def _summarise_exchanges(prediction: Prediction, exposed: Exposure) -> ExchangeSum:
    """All exchanges of the iteration, exposed or hidden; `spent_s` as if no other exchange used the network."""
    plan, workers, spent = prediction.plan, prediction.plan.wiring.layout.workers, None
    if exposed.every is not None:
        spent = {part: float(seconds) for part, seconds in zip(PARTS, exposed.every, strict=True) if part != "sharing"}
    nbytes = [payload_bytes(plan.work.steps[place], workers) for _, place in plan.work.uses]
    for axis in plan.axes:
        size, often = axis.network.wiring.layout.workers, axis.often(graph_of(plan).calls).tolist()
        for step, times in zip(axis.steps, often, strict=True):
            nbytes += [payload_bytes(step, size)] * times
    return ExchangeSum(len(plan.work.buckets), len(nbytes), float(np.sum(nbytes)) if nbytes else 0.0, spent)


def _summarise(terms: list[TermShare], alternatives: list[Counterfactual], time: float) -> str:
    """The largest terms, and the largest saving, in two sentences."""
    largest = sorted((term for term in terms if term.seconds > 0), key=lambda term: -term.seconds)[:4]
    if not largest:
        return "An iteration takes no time."
    parts = ", ".join(f"{term.label} {show_time(term.seconds)} ({100 * term.share:.0f} %)" for term in largest)
    text = f"Of {show_time(time)}: {parts}."
    best = max(alternatives, key=lambda row: row.saving, default=None)
    if best is None:
        return text
    if best.saving_share < 0.005:
        return f"{text} Removing any single cost saves less than 0.5 %."
    return (
        f"{text} The largest saving would come from {best.name.replace('_', ' ')}: {show_time(best.saving)}, "
        f"{100 * best.saving_share:.0f} %."
    )


def counterfactuals(prediction: Prediction, watch: Watch | None = None) -> list[Counterfactual]:
    """Iteration times without one cost each: `name`, what it means, the time, and what it saves.

    Each is a prediction of its own, so that time which the cost has hidden shows up; a scheduler that reads costs
    plans again. `perfect_overlap` is a lower bound: the longer of all communication and everything else, which is what
    is left where no stage of a pipeline communicates.
    """
    time, figures, watch = prediction.spread.time, prediction.simulated.figures, watch or Watch()
    made: list[Counterfactual] = []
    if watch.interrupted:
        return made
    changed = [change(prediction.scenario) for _, change in _CHANGES.values()]
    names = list(_CHANGES)
    found = map_watched(time_batch, changed, watch, "the times without single costs", processes=1)
    for place, other in found.items():
        if isinstance(other, InputError):
            continue  # for instance a compute_time that is shorter than the update
        name = names[place]
        # A kernel whose time grows faster than its elements would not be fused where that is slower.
        seconds = min(time, other) if name == "good_implementation" else other
        made.append(_row(name, _CHANGES[name][0], time, seconds))
    bubble = prediction.plan.bubble
    rest = time - figures.breakdown["communication_exposed"] - (bubble.seconds - bubble.silent)
    bound = min(time, max(rest, figures.mean("communication_total")))
    what = "a lower bound: the longer of all communication and everything else"
    return [*made, _row("perfect_overlap", what, time, bound)]


def _row(name: str, what: str, time: float, other: float) -> Counterfactual:
    saving = time - other
    return Counterfactual(name, what, other, saving, saving / time if time else 0.0)


def uncertainty(prediction: Prediction) -> Doubts:
    """What the interval of a prediction with its responses consists of."""
    spread = prediction.spread
    responses = [*map(alone, spread.responses)]
    own = _square(*spread.iterations) / spread.tails.stretch[90] ** 2
    total = math.fsum(_square(item.low, item.high) for item in responses) + own
    groups = [_group(item, spread, total) for item in responses if item.low or item.high]
    below, above = (spread.time * math.expm1(end) for end in spread.iterations)
    return Doubts(spread.interval(), sorted(groups, key=lambda effect: -effect.largest), (below, above))


def _group(response: Response, spread: Spread, total: float) -> Effect:
    measurements = measurements_of(response)
    inputs = sorted(response.doubts, key=lambda item: -item.more)
    return Effect(
        level=least_known(inputs),
        low=spread.time * math.expm1(response.low),
        high=spread.time * math.expm1(response.high),
        share=_square(response.low, response.high) / total if total else 0.0,
        inputs=[
            UsedInput(**asdict(item.as_row()), less=item.less, more=item.more, source=item.source) for item in inputs
        ],
        command=command_of(measurements) if measurements else None,
        minutes=math.fsum(item.minutes for item in measurements) if measurements else None,
    )


def _square(low: float, high: float) -> float:
    """The square of what an effect adds to the interval of the logarithm."""
    return (max(low, high, 0.0) - min(low, high, 0.0)) ** 2
