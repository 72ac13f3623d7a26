"""Where one iteration's time goes, term by term, with the formula, numbers and evidence behind each."""

from __future__ import annotations

from typing import Any

import numpy as np

from simulator.models.exchange import AllGather, AllReduce, Broadcast, Communication, PushPull, ReduceScatter
from simulator.prediction.run import Prediction, run
from simulator.scenario.scenario import Scenario
from simulator.studies.explain.counterfactuals import counterfactuals
from simulator.studies.explain.critical_path import PARTS, Exposure, exposure
from simulator.studies.explain.kernel_use import kernel_use
from simulator.studies.explain.sensitivity import described, sensitivity, warnings
from simulator.units import show_time

TERMS = {
    "data_loading": ("waiting for data", "seconds that a step waits for its input"),
    "forward": ("forward", "sum of the layers' forward seconds"),
    "backward": ("backward", "sum of the layers' backward seconds, longer while a collective slows compute"),
    "selection": ("selection", "sum of the kernels before an exchange, each the slower of GPU and host"),
    "waiting_for_slowest": ("waiting for the slowest", "mean over workers of (slowest worker's compute - own)"),
    "queueing": ("queueing", "what compute waits for stands behind earlier exchanges, or shares links with others"),
    "start_up": ("start-up", "latency of its messages that no other message hides: price - price at zero latency"),
    "transfer": ("transfer", "its bytes over the links: price at zero latency"),
    "software": ("software", "per call: negotiation, list of tensors of a gather, cycle and launch, message overhead"),
    "combine": ("combine", "sum of the kernels after an exchange, and of those inside it that compute waits for"),
    "update": ("update", "optimiser's kernel on every tensor, the slower of GPU and host"),
}
"""Terms in the order of an iteration: label and formula in words. They sum to the iteration."""

BASIS = (
    "Path: the compute stream of the slowest worker, and wherever it stands still, the exchange that it waits for. "
    "Start-up and transfer: the exchange priced again at zero latency on the same links."
)


def explain(scenario: Scenario) -> dict[str, Any]:
    """The terms of one iteration, which sum to its time; what it would take without them; which inputs move it.

    Raises InputError where the parts of the scenario cannot work together.
    """
    prediction = run(scenario)
    document = prediction.document
    terms, exposed = terms_of(prediction)
    inputs = sensitivity(scenario)
    worlds = counterfactuals(prediction)
    return {
        "scenario": document["scenario"],
        "digest": document["digest"],
        "versions": document["versions"],
        "workers": document["workers"],
        "iteration_time_s": document["iteration_time_s"],
        "iteration_time_interval_s": document["iteration_time_interval_s"],
        "summary": _summary(terms, worlds, document["iteration_time_s"]),
        "basis": BASIS + _random(scenario, prediction),
        "terms": terms,
        "hidden_communication_s": _hidden(document),
        "exchanges": _exchanges(prediction, exposed),
        "counterfactuals": worlds,
        "sensitivity": {**inputs, "answer": described(inputs)},
        "warnings": [*document["warnings"], *warnings(inputs)],
    }


def terms_of(prediction: Prediction) -> tuple[list[dict[str, Any]], Exposure]:
    """Terms with their seconds, share, formula, numbers, parts and calibration; and what compute waited for."""
    document, plan = prediction.document, prediction.plan
    parts, idle = document["breakdown_s"], document["idle_s"]
    found = exposure(prediction.scenario, plan, prediction.iteration)
    exposed = found.scaled(parts["communication_exposed"])
    own, queued = dict(zip(PARTS, exposed.own, strict=True)), dict(zip(PARTS, exposed.queued, strict=True))
    seconds = {
        "data_loading": idle["data_loading"],
        **{key: parts[key] for key in ("forward", "backward", "selection", "combine", "update")},
        "waiting_for_slowest": parts["idle"] - idle["data_loading"],
        "queueing": float(exposed.queued.sum()) + own["sharing"],
        "start_up": own["start_up"],
        "transfer": own["transfer"],
        "software": own["software"] + exposed.held_back,
    }
    time = document["iteration_time_s"] or 1.0
    use = kernel_use(prediction.scenario, plan)
    numbers = _numbers(prediction, exposed, queued, use)
    made = []
    for key, (label, formula) in TERMS.items():
        spent = max(0.0, float(seconds[key]))  # rounding may leave less than nothing
        row = {"term": key, "label": label, "seconds": spent, "share": spent / time}
        evidence = _evidence(key, prediction, use)
        made.append({**row, "formula": formula, "numbers": numbers.get(key, {}), "calibration": evidence})
    return made, exposed


def _numbers(
    prediction: Prediction, exposed: Exposure, queued: dict[str, float], use: dict[str, list[dict[str, Any]]]
) -> dict[str, dict[str, Any]]:
    """What each term is computed from."""
    scenario, plan = prediction.scenario, prediction.plan
    workload, runtime, network = scenario.workload, scenario.cluster.runtime, scenario.cluster.network
    layers = len(workload.layers)
    calls = sum(1 for bucket in exposed.waited_for for _ in _steps(prediction, bucket))
    nbytes = sum(payload(step, scenario.cluster.workers) for b in exposed.waited_for for step in _steps(prediction, b))
    communication: dict[str, Any] = {"exchanges_waited_for": len(exposed.waited_for), "calls": calls}
    each: dict[str, Any] = {"negotiation_s": runtime.negotiation, "gather_overhead_s": runtime.gather_overhead}
    launched: dict[str, Any] = {"cycle_time_s": runtime.cycle_time, "collective_launch_s": runtime.collective_launch}
    made: dict[str, dict[str, Any]] = {
        "forward": {"tensors": layers, "batch_size": workload.batch_size, "compute_time_s": workload.compute_time},
        "backward": {"tensors": layers, "compute_slowdown": runtime.compute_slowdown},
        "selection": {"kernels": use["selection"]},
        "waiting_for_slowest": {"jitter": scenario.cluster.stragglers.jitter, "kernel_spread": _spread(scenario, use)},
        "queueing": {
            "exchanges_in_front": len(exposed.before),
            "meanwhile_s": {part: float(queued[part]) for part in PARTS if part != "kernel"},
        },
        "start_up": {**communication, **_latencies(scenario)},
        "transfer": {**communication, "payload_bytes": nbytes, "bandwidth_bytes_per_s": network.bandwidth},
        "software": {**communication, **each, **launched, "message_overhead_s": runtime.message_overhead},
        "combine": {"kernels": use["combine"], "kernels_inside": use["exchange"]},
        "update": {"kernels": use["update"]},
        "data_loading": {"input_time_s": plan.work.input_time},
    }
    return made


def _latencies(scenario: Scenario) -> dict[str, float]:
    network = scenario.cluster.network
    inside = {} if network.intra_node is None else {"latency_inside_nodes_s": network.intra_node.latency}
    return {"latency_s": network.latency, **inside}


def _spread(scenario: Scenario, use: dict[str, list[dict[str, Any]]]) -> dict[str, float]:
    """Relative standard deviation of the selection's kernels from worker to worker, where it is known."""
    spread = {row["kernel"]: scenario.cluster.gpu.spread(row["kernel"]) for row in use["selection"]}
    return {kernel: value for kernel, value in spread.items() if value}


def _steps(prediction: Prediction, bucket: int) -> list[Communication]:
    work = prediction.plan.work
    chain = (*work.chains[bucket], *work.halves[bucket])
    return [work.steps[item] for item in chain if isinstance(item, int)]


def payload(step: Communication, workers: int) -> float:
    """Bytes of the result of one step (pushed and pulled bytes of one worker with servers)."""
    match step:
        case AllReduce(nbytes) | ReduceScatter(nbytes) | Broadcast(nbytes):
            return float(nbytes)
        case AllGather():
            return float(step.sizes(workers).sum())
        case PushPull(push, pull):
            return float(push + pull)
        case _:
            return float(sum(step.nbytes))


def _evidence(term: str, prediction: Prediction, use: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Which curves or laws a term rests on, each with its held-out error (None: not known)."""
    document, scenario = prediction.document, prediction.scenario
    workload, runtime = scenario.workload, scenario.cluster.runtime
    if term in ("forward", "backward", "data_loading"):
        return [_rests("profile", workload.name, None, workload.source)]
    if term in ("selection", "combine", "update"):
        stages = [term, "exchange"] if term == "combine" else [term]
        return [
            _rests("kernel", row["curve"] or f"{row['kernel']}: {row['law']}", row["held_out_mape"], row["law"])
            for stage in stages
            for row in use[stage]
        ]
    if term == "software":
        return [_rests("runtime", runtime.name, runtime.held_out_mape, runtime.source)]
    if term == "waiting_for_slowest":
        spread = _spread(scenario, use)
        return [_rests("spread", name, None, f"{value:.1%} from run to run") for name, value in spread.items()]
    wires = [item for item in document["calibration"] if item["what"] in ("collective", "link law")]
    return [_rests(item["what"], item["id"], item["held_out_mape"], scenario.cluster.network.source) for item in wires]


def _rests(what: str, name: str, mape: float | None, source: str) -> dict[str, Any]:
    return {"what": what, "id": name, "held_out_mape": mape, "source": " ".join(source.split())}


def _hidden(document: dict[str, Any]) -> float:
    """Communication beside compute."""
    return max(0.0, float(document["communication_total_s"] - document["breakdown_s"]["communication_exposed"]))


def _exchanges(prediction: Prediction, exposed: Exposure) -> dict[str, Any]:
    """All exchanges of the iteration, hidden or not: what they spend their seconds on, as if nothing else was there."""
    plan, workers, spent = prediction.plan, prediction.scenario.cluster.workers, None
    if exposed.every is not None:
        spent = {part: float(seconds) for part, seconds in zip(PARTS, exposed.every, strict=True) if part != "sharing"}
    nbytes = [payload(plan.work.steps[place], workers) for _, place in plan.work.uses]
    return {
        "buckets": len(plan.work.buckets),
        "calls": len(nbytes),
        "payload_bytes": float(np.sum(nbytes)) if nbytes else 0.0,
        "spent_s": spent,
    }


def _random(scenario: Scenario, prediction: Prediction) -> str:
    """What the split rests on where iterations differ."""
    if not scenario.cluster.stragglers.jitter and not prediction.plan.selection_spread.any():
        return ""
    return (
        f" Seconds are means over {scenario.iterations} iterations and over workers; what was not hidden is split as "
        "in the last one."
    )


def _summary(terms: list[dict[str, Any]], worlds: list[dict[str, Any]], time: float) -> str:
    """The largest terms, and the largest saving, in two sentences."""
    largest = sorted((term for term in terms if term["seconds"] > 0), key=lambda term: -term["seconds"])[:4]
    if not largest:
        return "Nothing in it takes time."
    parts = ", ".join(f"{term['label']} {show_time(term['seconds'])} ({term['share']:.0%})" for term in largest)
    text = f"Of {show_time(time)}: {parts}."
    best = max((row for row in worlds), key=lambda row: row["saving_s"], default=None)
    if best is None or best["saving_share"] < 0.005:
        return f"{text} No single cost is worth more than half a percent."
    return (
        f"{text} Most would be won by {best['name'].replace('_', ' ')} ({best['what'].partition(',')[0]}): "
        f"{show_time(best['saving_s'])}, {best['saving_share']:.0%}."
    )
