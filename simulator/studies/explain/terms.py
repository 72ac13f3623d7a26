"""The terms of one iteration: seconds, formula, numbers and evidence of each."""

from __future__ import annotations

from collections.abc import Mapping, Set
from itertools import chain

from simulator.engine.plan.plan import Plan
from simulator.fabrics.wide_area import WideArea
from simulator.hardware.runtime import RUNTIME_COSTS
from simulator.models.exchange import Communication
from simulator.models.sharding import JOINT_LABELS
from simulator.models.terms import BREAKDOWN, TERMS, Term
from simulator.prediction.memory import payload_bytes
from simulator.prediction.run import Prediction
from simulator.reporting.answers.explained import KernelCost, Numbers, TermBasis, TermShare
from simulator.scenario.scenario import Scenario
from simulator.studies.explain.critical_path import Exposure, exposure
from simulator.studies.explain.kernel_use import kernel_use
from simulator.studies.explain.stage_split import PARTS

_EXPOSED = {
    "queueing": Term(
        "queueing", "", "time in which the awaited exchange waits for earlier ones or shares links with others"
    ),
    "start_up": Term(
        "start-up", "", "latency of its messages that no other message hides: price - price at zero latency"
    ),
    "transfer": Term("transfer", "", "its bytes over the links: price at zero latency"),
    "inside": Term("inside a site", "", "communication of local steps that nothing hides, and gathers after them"),
    "software": Term(
        "software",
        "",
        "per call: negotiation, list of tensors of a gather, cycle and launch, message overhead; per module: its hook",
    ),
}
"""What exposed communication is split into."""


def _terms() -> dict[str, Term]:
    """Every term in the order of an iteration; they sum to its time."""
    shown: dict[str, Term] = {"data_loading": TERMS["data_loading"]}
    for name in BREAKDOWN:
        if name == "communication_exposed":
            shown |= {"waiting_for_slowest": TERMS["waiting_for_slowest"], **_EXPOSED}
        elif name != "idle":
            shown[name] = TERMS[name]
    return shown


def terms_of(prediction: Prediction) -> tuple[list[TermShare], Exposure]:
    """Terms with their seconds, share, formula, numbers and calibration; and what compute waited for."""
    result, plan = prediction.result, prediction.plan
    parts, idle = result.breakdown, result.idle
    found = exposure(prediction.scenario, plan, prediction.iteration)
    inside = 0.0 if (site := plan.inside) is None else float(site.gathers.seconds.sum()) / plan.steps
    inside += 0.0 if site is None else site.step.breakdown["communication_exposed"]
    exposed = found.scaled(max(0.0, parts["communication_exposed"] - inside))
    own, queued = dict(zip(PARTS, exposed.own, strict=True)), dict(zip(PARTS, exposed.queued, strict=True))
    seconds = {
        "data_loading": idle["data_loading"],
        **{key: parts[key] for key in BREAKDOWN if key not in ("communication_exposed", "idle")},
        "waiting_for_slowest": idle["waiting_for_slowest"],
        "queueing": float(exposed.queued.sum()) + own["sharing"],
        "start_up": own["start_up"],
        "transfer": own["transfer"],
        "inside": inside,
        "software": own["software"] + idle["waiting_for_host"],
    }
    time = result.iteration_time or 1.0
    use = kernel_use(prediction.scenario, plan)
    numbers = _numbers(prediction, exposed, queued, use)
    made = []
    for key, term in _terms().items():
        if key == "inside" and site is None:
            continue
        spent = max(0.0, float(seconds[key]))  # rounding may give a tiny negative number
        made.append(
            TermShare(
                term=key,
                label=term.label,
                seconds=spent,
                share=spent / time,
                formula=term.formula,
                numbers=numbers.get(key, {}),
                calibration=_evidence(key, prediction, use),
            )
        )
    return made, exposed


def _numbers(
    prediction: Prediction, exposed: Exposure, queued: dict[str, float], use: Mapping[str, list[KernelCost]]
) -> dict[str, Numbers]:
    """The numbers that each term is computed from."""
    scenario, plan = prediction.scenario, prediction.plan
    workload, runtime, network = scenario.workload, scenario.cluster.runtime, scenario.cluster.network
    passes = {"tensors": len(workload.layers), "passes": workload.micro_batches}
    own = (step for bucket in exposed.waited_for for step in _steps(prediction, bucket))
    waited = [(1.0, payload_bytes(step, plan.wiring.layout.workers)) for step in own]
    waited += _on_axes(plan, exposed.on_axes)
    inside = {} if network.intra_node is None else {"latency_inside_nodes_s": network.intra_node.latency}
    if isinstance(network, WideArea):
        inside["latency_between_sites_s"] = network.between.latency
    exchanges, calls = len(exposed.waited_for) + len(exposed.on_axes), round(sum(times for times, _ in waited))
    communication: Numbers = {"exchanges_waited_for": exchanges, "calls": calls}
    nbytes = sum(times * each for times, each in waited)
    software = {f"{name}_s": getattr(runtime, name) for name, cost in RUNTIME_COSTS.items() if cost.per_call}
    return {
        "forward": {**passes, "batch_size": workload.batch_size, "compute_time_s": workload.compute_time},
        "backward": {**passes, "kernels": use["backward"]},
        "slowdown": {"compute_slowdown": plan.of_step.slowdown, "slowed_s": prediction.simulated.figures.slowed},
        "selection": {"kernels": use["selection"]},
        "waiting_for_slowest": {"jitter": scenario.cluster.stragglers.jitter, "kernel_spread": _spread(scenario, use)},
        "queueing": {
            "exchanges_in_front": len(exposed.before),
            "meanwhile_s": {part: float(queued[part]) for part in PARTS if part != "kernel"},
        },
        "start_up": {**communication, "latency_s": network.latency, **inside},
        "transfer": {**communication, "payload_bytes": nbytes, "bandwidth_bytes_per_s": network.bandwidth},
        "software": {**communication, **software},
        "combine": {"kernels": use["combine"], "kernels_inside": use["exchange"]},
        "update": {"kernels": use["update"]},
        "data_loading": {"input_time_s": plan.work.input_time},
    }


def _spread(scenario: Scenario, use: Mapping[str, list[KernelCost]]) -> dict[str, float]:
    """Relative standard deviation of the selection's kernels from worker to worker, where it is known."""
    spread = {row.kernel: scenario.cluster.gpu.spread(row.kernel) for row in use["selection"]}
    return {kernel: value for kernel, value in spread.items() if value}


def _steps(prediction: Prediction, bucket: int) -> list[Communication]:
    work = prediction.plan.work
    chain = (*work.chains[bucket], *work.halves[bucket])
    return [work.steps[item] for item in chain if isinstance(item, int)]


def _on_axes(plan: Plan, exchanges: Set[tuple[int, str]]) -> list[tuple[float, float]]:
    """How often each collective of these units takes place in one of them, and the bytes of its payload."""
    made = []
    for part in () if plan.shared is None else chain.from_iterable(plan.shared.parts.values()):
        size = plan.shared.network.wiring.layout.workers if plan.shared else 1
        waited = (unit for unit, label in exchanges if label == part.label and part.steps)
        made += [(1.0, payload_bytes(part.steps[unit], size)) for unit in waited]
    for axis in () if plan.divided is None else plan.divided.axes:
        nbytes = [payload_bytes(step, axis.work.network.wiring.layout.workers) for step in axis.work.steps]
        for name, calls in axis.calls.items():
            waited = (unit for unit, label in exchanges if label == JOINT_LABELS[name])
            made += [each for unit in waited for each in zip(calls[unit].tolist(), nbytes, strict=True)]
    return made


def _evidence(term: str, prediction: Prediction, use: Mapping[str, list[KernelCost]]) -> list[TermBasis]:
    """The curves or laws that a term rests on, each with its held-out error (None: not known)."""
    result, scenario = prediction.result, prediction.scenario
    workload, runtime = scenario.workload, scenario.cluster.runtime
    stated = term == "slowdown" and workload.compute_slowdown is not None
    if stated or term in ("forward", "backward", "data_loading"):
        return [_evidence_row("profile", workload.name, None, workload.source)]
    if term in ("selection", "combine", "update"):
        stages = [term, "exchange"] if term == "combine" else [term]
        return [
            _evidence_row("kernel", _kernel_name(row), row.held_out_mape, row.law)
            for stage in stages
            for row in use[stage]
        ]
    if term in ("slowdown", "software"):
        return [_evidence_row("runtime", runtime.name, runtime.held_out_mape, runtime.source)]
    if term == "waiting_for_slowest":
        spread = _spread(scenario, use)
        return [
            _evidence_row("spread", name, None, f"{100 * value:.1f} % from run to run")
            for name, value in spread.items()
        ]
    laws = [item for item in result.calibration if item.what in ("collective", "link law")]
    source = scenario.cluster.network.source
    return [_evidence_row(item.what, item.id, item.held_out_mape, source) for item in laws]


def _kernel_name(row: KernelCost) -> str:
    """The curve or law of a kernel; if it was not measured on this GPU, how it was found and how far it may be off."""
    name = row.curve or f"{row.kernel}: {row.law}"
    return f"{name} ({row.level}, within a factor of {row.width:.2g})" if row.width else name


def _evidence_row(what: str, name: str, mape: float | None, source: str) -> TermBasis:
    return TermBasis(what, name, mape, " ".join(source.split()))
