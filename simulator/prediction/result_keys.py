"""What a result says: every key of the result document with its unit and meaning, and the columns of a sweep.

One table for people (the reference is generated from it) and for programs that label what they show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from simulator.models.terms import BREAKDOWN, IDLE, TERMS
from simulator.prediction.memory.parts import PART_LABELS


class ResultKey(NamedTuple):
    """One key of the result document: its unit as a person writes it (empty: a bare number or text), and what it is."""

    unit: str
    what: str


RESULT_KEYS: dict[str, ResultKey] = {
    "scenario": ResultKey("", "name of the scenario"),
    "digest": ResultKey("", "SHA-256 over all that the prediction depends on, the engine's version included"),
    "versions.sparsim": ResultKey("", "version of sparsim"),
    "versions.python": ResultKey("", "version of Python"),
    "versions.simpy": ResultKey("", "version of SimPy"),
    "versions.numpy": ResultKey("", "version of NumPy"),
    "versions.pydantic": ResultKey("", "version of pydantic"),
    "seed": ResultKey("", "seed of every random draw"),
    "workers": ResultKey("", "GPUs in all"),
    "precision": ResultKey("", "format of the gradients, and that in which they travel where it is another one"),
    "iteration_time_s": ResultKey("s", "mean time of one training iteration"),
    "iteration_time_interval_s": ResultKey("s", "90 % interval of the iteration time: 5th and 95th percentile"),
    "intervals_s.50": ResultKey("s", "interval that is to hold the iteration time in 50 % of cases"),
    "intervals_s.80": ResultKey("s", "the same in 80 %"),
    "intervals_s.90": ResultKey("s", "the same in 90 %: `iteration_time_interval_s`"),
    "throughput_samples_per_s": ResultKey("samples/s", "samples that all workers train on per second"),
    "scaling_efficiency": ResultKey(
        "1", "throughput over that of as many single GPUs without communication or sparsification"
    ),
    **{f"breakdown_s.{term}": ResultKey("s", TERMS[term].meaning) for term in BREAKDOWN},
    **{f"idle_s.{term}": ResultKey("s", TERMS[term].meaning) for term in IDLE},
    "communication_total_s": ResultKey("s", "all communication of an iteration, exposed and hidden"),
    "streams.count": ResultKey("1", "communication streams, where there are several"),
    "streams.busy": ResultKey("1", "collectives under way, mean over the time in which any is"),
    "period.inner_steps": ResultKey("1", "local steps between two exchanges of a tensor, where there are several"),
    "period.time_s": ResultKey("s", "time of a period: its local steps, and what of its exchanges they do not hide"),
    "period.synchronisation_s": ResultKey(
        "s", "exchanges of a period, exposed and hidden, from the pseudo-gradient to the end of the outer step"
    ),
    "period.first_synchronisation_s": ResultKey(
        "s", "the same of the first period, in which connections are made; null where the transport does not state it"
    ),
    "period.compute_utilisation": ResultKey(
        "1", "share of the time in which a worker takes local steps: forward and backward pass, and the inner optimiser"
    ),
    "period.sent_bytes_per_worker": ResultKey("B", "bytes that a worker sends in a period, mean over workers"),
    "period.sent_bytes_per_worker_peak": ResultKey("B", "of these, those of the largest fragment, under way at once"),
    "period.sent_bytes_per_worker_and_hour": ResultKey("B", "bytes that a worker sends in an hour"),
    "period.busiest_link_bytes_per_hour": ResultKey("B", "bytes that the busiest link carries in an hour"),
    "elastic.goodput": ResultKey("1", "progress of a cluster whose nodes come and go, over the undisturbed progress"),
    "elastic.goodput_error": ResultKey("1", "its standard error, where failures were followed"),
    "elastic.goodput_in_closed_form": ResultKey("1", "the same by the renewal formula"),
    "elastic.participation": ResultKey("1", "mean share of the workers that take part in an exchange"),
    "elastic.iteration_time_s": ResultKey("s", "iteration time with all losses; null where the training never ends"),
    "elastic.failures_per_hour": ResultKey("1", "failures of all nodes in an hour"),
    "elastic.failures_followed": ResultKey("1", "failures that were followed one by one"),
    "elastic.lost_share": ResultKey("1", "share of the time in which work was lost, or failures were not noticed yet"),
    "elastic.waiting_for_quorum_share": ResultKey("1", "share of the time in which all waited for the quorum"),
    "elastic.best_checkpoint_interval_s": ResultKey("s", "checkpoint interval with the largest goodput (Daly 2006)"),
    "elastic.best_goodput": ResultKey("1", "goodput with that interval"),
    "elastic.finishes": ResultKey("", "whether the training ever ends: a goodput of at least 1 %"),
    "elastic.cause": ResultKey("", "why it does not; empty if it does"),
    "waiting_s": ResultKey("s", "time in which collectives wait for the slowest worker, exposed and hidden"),
    "traffic.sent_bytes_per_worker": ResultKey("B", "bytes that a worker sends in an iteration, mean over workers"),
    "traffic.sent_bytes_per_worker_max": ResultKey("B", "the same of the worker that sends most"),
    "traffic.total_bytes": ResultKey("B", "bytes that workers and servers send in an iteration"),
    "traffic.busiest_link.name": ResultKey("", "link that is busy longest"),
    "traffic.busiest_link.bytes": ResultKey("B", "what it carries in an iteration"),
    "traffic.busiest_link.utilisation": ResultKey("1", "those bytes over what it could carry in the time"),
    "density.target": ResultKey("1", "share of the elements that a worker is asked to send"),
    "density.selected": ResultKey("1", "share that a worker selects, mean over workers"),
    "density.aggregated": ResultKey("1", "share of the elements that the sum over workers touches"),
    "density.build_up": ResultKey(
        "1",
        "aggregated over selected: gradient build-up; over the sum of all workers where they select in disjoint parts",
    ),
    "density.padding": ResultKey("1", "workers times the largest selection, over the sum of selections"),
    "fidelity.tier": ResultKey("", "`fold` or `flows`: how messages were priced"),
    "collectives[].reason": ResultKey("", "why NCCL takes it, with its own estimates for the largest payload"),
    "fidelity.reason": ResultKey("", "why, and which algorithms and protocols were used"),
    "calibration[].what": ResultKey("", "what the prediction rests on: a kernel, a collective, a law, a term"),
    "calibration[].id": ResultKey("", "which one"),
    "calibration[].level": ResultKey(
        "", "how it is known: `measured` here, `transferred` from other set-ups, or `assumed`"
    ),
    "calibration[].width": ResultKey(
        "1", "factor by which it may be wrong either way in nine of ten cases; 1: it is exact"
    ),
    "calibration[].held_out_mape": ResultKey(
        "1", "its mean absolute relative error on what it was not fitted to; null where none is stated"
    ),
    "calibration[].in_range": ResultKey("", "whether it was asked within what was measured"),
    "links[].name": ResultKey("", "a link, busiest first"),
    "links[].bytes": ResultKey("B", "what it carries in an iteration"),
    "links[].utilisation": ResultKey("1", "those bytes over what it could carry in the time"),
    "collectives[].primitive": ResultKey("", "kind of exchange"),
    "collectives[].algorithm": ResultKey("", "algorithm, and protocol where one is chosen"),
    "collectives[].calls": ResultKey("1", "how many of them an iteration makes"),
    "warnings": ResultKey("", "what a reader of the prediction should know, each with its size, largest first"),
    "warning_sizes[].text": ResultKey("", "a warning without its size, in the order of `warnings`"),
    "warning_sizes[].seconds": ResultKey("s", "how much of the iteration it touches; null where that is not known"),
    "warning_sizes[].less_s": ResultKey(
        "s", "by how much the iteration may be shorter because of it (90 %); null where that is not known"
    ),
    "warning_sizes[].more_s": ResultKey("s", "the same, longer"),
    "warning_sizes[].direction": ResultKey(
        "", "how the prediction errs because of it: `too fast`, `too slow` or `either way`; null: by less than 0.1 %"
    ),
    "notes": ResultKey("", "what touches and changes less than 0.1 % of the iteration"),
    "replay.settled": ResultKey("", "whether the method has settled in the iterations that are priced"),
    "replay.from_iteration": ResultKey("", "number of the recorded iteration with which the priced part begins"),
    "replay.iterations": ResultKey("1", "how many iterations are priced, as their mean"),
    "replay.mean_error": ResultKey(
        "1", "standard error of the mean of aggregated elements, or of the largest selection, over that mean"
    ),
    "replay.change_per_100_iterations": ResultKey("1", "change of that count in 100 iterations, over its mean"),
    "replay.change_error": ResultKey("1", "standard error of that change"),
    "replay.reason": ResultKey("", "why the method has not settled; empty if it has"),
    "density_over_iterations[].iteration": ResultKey("", "number of a replayed iteration in its trace"),
    "density_over_iterations[].selected": ResultKey("1", "share that a worker selected, mean over workers"),
    "density_over_iterations[].aggregated": ResultKey("1", "share of the elements that the sum touched"),
    "density_over_iterations[].aggregated_error": ResultKey("1", "its standard error where the trace is a sample"),
    "density_over_iterations[].build_up": ResultKey("1", "aggregated over selected, as above"),
    "density_over_iterations[].padding": ResultKey("1", "what an equal-size gather pads to, over the mean"),
    "density_over_iterations[].imbalance": ResultKey("1", "largest selection of a worker over the mean"),
    "density_over_iterations[].smallest": ResultKey("1", "smallest selection of a worker over the mean"),
    "density_over_iterations[].energy_kept": ResultKey(
        "1", "1 - ||u - C(u)||^2 / ||u||^2, u being residual + gradient and C(u) what was sent of it"
    ),
    "density_over_iterations[].random_k_bound": ResultKey("1", "what k random coordinates keep of it, k/d"),
    "density_over_iterations[].top_k_bound": ResultKey(
        "1", "what the k largest of a bell-shaped distribution keep at least, (2kd - k^2)/d^2"
    ),
    "density_over_iterations[].residual_norm": ResultKey("", "2-norm of what is left behind, in gradient units"),
    "density_over_iterations[].never_sent": ResultKey("1", "share of the elements that no worker has sent so far"),
    "implementation.name": ResultKey("", "which implementation of the method this is, by `sparsifier.implementation`"),
    "implementation.label": ResultKey("", "the same in words"),
    "implementation.good_iteration_time_s": ResultKey("s", "iteration time with `implementation: good`"),
    "implementation.saving_s": ResultKey("s", "what that would save"),
    "implementation.saving_share": ResultKey("1", "as a share of this iteration"),
    **{
        f"memory.parts_bytes.{name}": ResultKey("B", f"GPU memory of a worker: {label}; null where it is not known")
        for name, label in PART_LABELS.items()
    },
    "memory.total_bytes": ResultKey("B", "GPU memory of a worker, all known parts together"),
    "memory.least_bytes": ResultKey("B", "the same where every part is as small as it may be"),
    "memory.most_bytes": ResultKey("B", "the same where every known part is as large as it may be"),
    "memory.capacity_bytes": ResultKey("B", "memory of the smallest GPU; null where no GPU states it"),
    "memory.gpu": ResultKey("", "that GPU"),
    "memory.fits": ResultKey("", "whether the sum fits; null where that is not known"),
    "memory.not_known": ResultKey("", "parts that are not known, and are left out of the sums"),
    "memory.parts[].name": ResultKey("", "a part of the memory"),
    "memory.parts[].bytes": ResultKey("B", "its size; null where it is not known"),
    "memory.parts[].least_bytes": ResultKey("B", "the least that it may be"),
    "memory.parts[].most_bytes": ResultKey("B", "the most that it may be"),
    "memory.parts[].how": ResultKey("", "how it is computed"),
    "question": ResultKey("", "what the comparison answers: the scenario's question, or one made from what differs"),
    "comparison.kind": ResultKey("", "`pays`: the methods differ; `costs`: something else does"),
    "comparison.answer": ResultKey("", "the answer, in words"),
    "comparison.baseline": ResultKey("", "what `versus` asks for"),
    "comparison.opponent": ResultKey("", "what the baseline is where `versus` does not describe it"),
    "comparison.baseline_iteration_time_s": ResultKey("s", "its iteration time"),
    "comparison.baseline_iteration_time_interval_s": ResultKey("s", "90 % interval of its iteration time"),
    "comparison.speed_up": ResultKey("1", "baseline's iteration time over this one's"),
    "comparison.verdict": ResultKey(
        "",
        "`yes`, `no`, `alike` (surely within 2 %) or `undecided`: faster or slower with a probability of 95 %, or not",
    ),
    "comparison.probability": ResultKey("1", "probability that this one is faster than the baseline"),
    "comparison.speed_up_interval": ResultKey("1", "90 % interval of the speed-up; what both share cancels"),
    "comparison.value_of_information[].input": ResultKey("", "what could be measured, most valuable first"),
    "comparison.value_of_information[].id": ResultKey("", "the inputs that this would settle"),
    "comparison.value_of_information[].level": ResultKey("", "how the least known of them is known"),
    "comparison.value_of_information[].width": ResultKey("1", "the largest factor by which one of them may be wrong"),
    "comparison.value_of_information[].share": ResultKey("1", "share of the doubt (variance) that goes"),
    "comparison.value_of_information[].decided": ResultKey(
        "1", "probability that the question is decided after the measurement"
    ),
    "comparison.value_of_information[].speed_up_interval": ResultKey(
        "1", "90 % interval of the speed-up if the measurement confirms what is assumed"
    ),
    "comparison.value_of_information[].command": ResultKey("", "command that measures it"),
    "comparison.value_of_information[].minutes": ResultKey("min", "what the measurement takes, about"),
    **{f"comparison.baseline_breakdown_s.{term}": ResultKey("s", f"{term} of the baseline") for term in BREAKDOWN},
    **{f"comparison.baseline_idle_s.{term}": ResultKey("s", f"{term} of the baseline") for term in IDLE},
    **{f"comparison.difference_s.{term}": ResultKey("s", f"{term}, this one less the baseline") for term in BREAKDOWN},
}
"""By dotted key; `[]` stands for every entry of a list. `sparsim run` adds `implementation` and the comparison."""


VERDICT_COLUMNS: dict[str, ResultKey] = {
    "speed_up": ResultKey("1", "time of dense, all else the same, over this one's; missing for dense itself"),
    "speed_up_interval.p5": ResultKey("1", "5th percentile of the speed-up over dense"),
    "speed_up_interval.p95": ResultKey("1", "95th percentile of the speed-up over dense"),
    "probability": ResultKey("1", "probability that this point is faster than dense, all else the same"),
    "verdict": ResultKey("", "whether it is faster than dense: `yes`, `no`, `alike` or `undecided`"),
}
"""Further columns of a sweep with `verdicts: true`."""


def flat_keys(value: Any, name: str = "") -> Iterator[str]:
    """The dotted keys of a result document, as they stand in `RESULT_KEYS`; lists of mappings by their entries.

    >>> list(flat_keys({"seed": 0, "links": [{"name": "a"}], "warnings": []}))
    ['seed', 'links[].name', 'warnings']
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from flat_keys(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        yield from flat_keys(value[0], f"{name}[]")
    else:
        yield name
