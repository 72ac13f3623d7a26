"""The parts of a result: what is sent, what it rests on, memory, replays, periods, machines that come and go, and what
it says of an opponent."""

from __future__ import annotations

import math
import re
from typing import Annotated, Literal

from msgspec import UNSET, UnsetType

from simulator.answers import Answer, Interval, in_json, says
from simulator.models.sharding import AXES
from simulator.models.timeline import BREAKDOWN, IDLE
from simulator.prediction.memory_parts import PART_LABELS, MemoryPart

_BUSY = "those bytes over what it could carry in the time"
_LESS = "by how much the iteration may be {} because of it (90 %); null where that is not known"
_MEMORY = {name: f"GPU memory of a worker: {label}; null where it is not known" for name, label in PART_LABELS.items()}


class LinkLoad(Answer, kw_only=True, rename=in_json(nbytes="bytes")):
    """What a link carries in an iteration, and the share of the time in which that keeps it busy."""

    name: Annotated[str, says("a link, busiest first")]
    nbytes: Annotated[float, says("what it carries in an iteration", "B")]
    utilisation: Annotated[float, says(_BUSY, "1")]


class SentTraffic(
    Answer,
    kw_only=True,
    rename=in_json(
        size=("total",), sent_per_worker="sent_bytes_per_worker", sent_per_worker_max="sent_bytes_per_worker_max"
    ),
):
    """Bytes of an iteration: sent by a worker (mean, and the one that sends most), by all, and on the busiest link."""

    sent_per_worker: Annotated[float, says("bytes that a worker sends in an iteration, mean over workers", "B")]
    sent_per_worker_max: Annotated[float, says("bytes that the worker sends that sends most", "B")]
    total: Annotated[float, says("bytes that workers and servers send in an iteration", "B")]
    busiest_link: Annotated[LinkLoad, says("link that is busy longest")]


class AxisUse(Answer, kw_only=True, rename=in_json(time=("exposed",), size=("sent", "sent_in_micro_batch"))):
    """What the GPUs along one axis of a job exchange, and for how long compute waits for it."""

    gpus: Annotated[int, says("GPUs along the axis", "1")]
    exposed: Annotated[float, says("exposed communication in which compute waits for this axis", "s")]
    sent: Annotated[float, says("bytes that a worker sends along the axis in an iteration", "B")]
    sent_in_micro_batch: Annotated[float, says("of these, those of a micro-batch, mean over micro-batches", "B")]


class AxisUses(Answer, kw_only=True):
    """The axes of a sharded or divided job with several GPUs: `layers`, those that divide layers, `shard`, those that
    share a copy of the model, its replicas, and, after local steps, those of other sites."""

    shard: AxisUse | None = None
    replica: AxisUse | None = None
    layers: AxisUse | None = None
    site: AxisUse | None = None
    stage: Annotated[int | None, says("the stage whose workers send most in layers, unless it is the first, 1")] = None

    def each(self) -> list[tuple[str, AxisUse]]:
        """The axes that the job has, the closest GPUs first."""
        return [(name, use) for name in AXES[::-1] if (use := getattr(self, name)) is not None]


class Densities(Answer):
    """Shares of the elements: asked for, selected by a worker, and touched by the sum of all workers.

    `build_up`: aggregated over selected. `padding`: workers times the largest selection, over the sum of selections.
    """

    target: Annotated[float, says("share of the elements that a worker is asked to send", "1")]
    selected: Annotated[float, says("share that a worker selects, mean over workers", "1")]
    aggregated: Annotated[float, says("share of the elements that the sum over workers touches", "1")]
    build_up: Annotated[
        float,
        says(
            "aggregated over selected: gradient build-up; over the sum of all workers where they select in disjoint "
            "parts",
            "1",
        ),
    ]
    padding: Annotated[float, says("workers times the largest selection, over the sum of selections", "1")]


class Fidelity(Answer):
    """How messages were priced, and why so."""

    tier: Annotated[str, says("`fold` or `flows`: how messages were priced")]
    reason: Annotated[str, says("why, and which algorithms and protocols were used")]


class Basis(Answer):
    """A figure that a prediction rests on, and how well it is known."""

    what: Annotated[str, says("what the prediction rests on: a kernel, a collective, a law, a term")]
    id: Annotated[str, says("which one")]
    level: Annotated[str, says("how it is known: `measured` here, `transferred` from other set-ups, or `assumed`")]
    width: Annotated[
        float, says("factor by which it may be wrong either way in nine of ten cases; 1: it is exact", "1")
    ]
    held_out_mape: Annotated[
        float | None,
        says("its mean absolute relative error on what it was not fitted to; null where none is stated", "1"),
    ]
    in_range: Annotated[bool, says("whether it was asked within what was measured")]


class WarningSize(Answer, kw_only=True, rename=in_json(time=("less", "more"))):
    """A warning without its size, and its size: what it touches, and what it may change."""

    text: Annotated[str, says("a warning without its size, in the order of `warnings`")]
    seconds: Annotated[float | None, says("how much of the iteration it touches; null where that is not known", "s")]
    less: Annotated[float | None, says(_LESS.format("shorter"), "s")]
    more: Annotated[float | None, says(_LESS.format("longer"), "s")]
    direction: Annotated[
        str | None,
        says("how the prediction errs because of it: `too fast`, `too slow` or `either way`; null: by less than 0.1 %"),
    ]

    def reaches(self, change: float) -> bool:
        """Whether the iteration may differ by so many seconds because of it; also where that is not known."""
        most = self.more if change > 0 else self.less
        return most is None or most >= abs(change)


class MemoryUse(
    Answer, kw_only=True, rename=in_json(size=("parts", "total", "least", "most", "capacity"), details="parts")
):
    """Bytes of a worker's GPU memory: all known parts together, least and most, and what the smallest GPU has.

    `capacity`: None where no GPU states it; `fits`: None where that is not known; `parts`: bytes by part, None where a
    part is not known; `details`: the same with their ranges, None in a row of a table. `stage`: that of a pipeline
    whose workers need most, None where it is the first.
    """

    parts: Annotated[dict[str, float | None], says("GPU memory of a worker", "B", _MEMORY)]
    total: Annotated[float, says("GPU memory of a worker, all known parts together", "B")]
    least: Annotated[float, says("GPU memory where every part is as small as it may be", "B")]
    most: Annotated[float, says("GPU memory where every known part is as large as it may be", "B")]
    capacity: Annotated[float | None, says("memory of the smallest GPU; null where no GPU states it", "B")]
    gpu: Annotated[str, says("that GPU")]
    fits: Annotated[bool | None, says("whether the sum fits; null where that is not known")]
    not_known: Annotated[list[str] | None, says("parts that are not known, and are left out of the sums")] = None
    stage: Annotated[int | None, says("the stage whose workers need most, unless it is the first, 1")] = None
    details: list[MemoryPart] | None = None

    @property
    def interval(self) -> Interval:
        """Bytes that it takes at least and at most."""
        return self.least, self.most

    @property
    def where(self) -> str:
        """The stage of these workers, where it is not the first: ` in stage 2`."""
        return f" in stage {self.stage}" if self.stage else ""

    @property
    def exceeded(self) -> bool:
        """Whether the sum is more than the GPU has, although the least may fit."""
        return self.capacity is not None and self.total > self.capacity


class PricedReplay(Answer, kw_only=True, rename=in_json(change="change_per_100_iterations")):
    """Which iterations of a replay are priced, and whether the method has settled in them."""

    settled: Annotated[bool, says("whether the method has settled in the iterations that are priced")]
    from_iteration: Annotated[int, says("number of the recorded iteration with which the priced part begins")]
    iterations: Annotated[int, says("how many iterations are priced, as their mean", "1")]
    mean_error: Annotated[
        float | None,
        says("standard error of the mean of aggregated elements, or of the largest selection, over that mean", "1"),
    ]
    change: Annotated[float | None, says("change of that count in 100 iterations, over its mean", "1")]
    change_error: Annotated[float | None, says("standard error of that change", "1")]
    reason: Annotated[str, says("why the method has not settled; empty if it has")]

    def __str__(self) -> str:
        """Which iterations are priced, and whether the method has settled in them."""
        part = f"iteration {self.from_iteration} on, mean of {self.iterations} iterations"
        error = "" if self.mean_error is None else f", standard error {100 * self.mean_error:.2g} %"
        return f"not settled: {self.reason}; priced from {part}" if self.reason else f"settled from {part}{error}"


class RecordedStep(Answer):
    """What the method selected in a recorded iteration, and what it lost."""

    iteration: Annotated[int, says("number of a replayed iteration in its trace")]
    selected: Annotated[float, says("share that a worker selected, mean over workers", "1")]
    aggregated: Annotated[float, says("share of the elements that the sum touched", "1")]
    aggregated_error: Annotated[float, says("its standard error where the trace is a sample", "1")]
    build_up: Annotated[float, says("aggregated over selected, as above", "1")]
    padding: Annotated[float, says("what an equal-size gather pads to, over the mean", "1")]
    imbalance: Annotated[float, says("largest selection of a worker over the mean", "1")]
    smallest: Annotated[float, says("smallest selection of a worker over the mean", "1")]
    energy_kept: Annotated[
        float, says("1 - ||u - C(u)||^2 / ||u||^2, u being residual + gradient and C(u) what was sent of it", "1")
    ]
    random_k_bound: Annotated[float, says("what k random coordinates keep of it, k/d", "1")]
    top_k_bound: Annotated[
        float, says("what the k largest of a bell-shaped distribution keep at least, (2kd - k^2)/d^2", "1")
    ]
    residual_norm: Annotated[float, says("2-norm of what is left behind, in gradient units")]
    never_sent: Annotated[float, says("share of the elements that no worker has sent so far", "1")]


class CollectiveUse(Answer):
    """A collective with its algorithm, and how often an iteration calls it."""

    primitive: Annotated[str, says("kind of exchange")]
    algorithm: Annotated[str, says("algorithm, and protocol where one is chosen")]
    calls: Annotated[float, says("how many of them an iteration makes", "1")]
    reason: Annotated[str, says("why NCCL takes it, with its own estimates for the largest payload")]


class StreamUse(Answer):
    """How many communication streams there are, and how many are busy on average while any is."""

    count: Annotated[int, says("communication streams, where there are several", "1")]
    busy: Annotated[float, says("collectives under way, mean over the time in which any is", "1")]


class PeriodTimes(
    Answer,
    kw_only=True,
    rename=in_json(
        time=("time", "synchronisation", "first_synchronisation", "exposed_inside"),
        sent_per_worker="sent_bytes_per_worker",
        sent_per_worker_peak="sent_bytes_per_worker_peak",
        sent_per_worker_and_hour="sent_bytes_per_worker_and_hour",
        busiest_link_per_hour="busiest_link_bytes_per_hour",
    ),
):
    """A period of local steps, and its exchanges."""

    inner_steps: Annotated[int, says("local steps between two exchanges of a tensor, where there are several", "1")]
    time: Annotated[float, says("time of a period: its local steps, and what of its exchanges they do not hide", "s")]
    synchronisation: Annotated[
        float,
        says("exchanges of a period, exposed and hidden, from the pseudo-gradient to the end of the outer step", "s"),
    ]
    first_synchronisation: Annotated[
        float | None,
        says(
            "exchanges of the first period, in which connections are made; null where the transport does not state it",
            "s",
        ),
    ]
    compute_utilisation: Annotated[
        float | None,
        says(
            "share of the time in which a worker takes local steps: forward and backward pass, and the inner optimiser",
            "1",
        ),
    ]
    exposed_inside: Annotated[
        float | None,
        says("exposed communication inside a site, of one local step; null where every GPU is a worker", "s"),
    ]
    sent_per_worker: Annotated[float, says("bytes that a worker sends in a period, mean over workers", "B")]
    sent_per_worker_peak: Annotated[float, says("of these, those of the largest fragment, under way at once", "B")]
    sent_per_worker_and_hour: Annotated[float | None, says("bytes that a worker sends in an hour", "B")]
    busiest_link_per_hour: Annotated[float | None, says("bytes that the busiest link carries in an hour", "B")]


class Goodput(Answer, kw_only=True, rename=in_json(time=("best_checkpoint_interval", "iteration_time"))):
    """Progress of a cluster whose machines come and go."""

    failures_per_hour: Annotated[float, says("failures of all nodes in an hour", "1")]
    goodput: Annotated[float, says("progress of a cluster whose nodes come and go, over the undisturbed progress", "1")]
    best_checkpoint_interval: Annotated[
        float | UnsetType | None, says("checkpoint interval with the largest goodput (Daly 2006)", "s")
    ] = UNSET
    best_goodput: Annotated[float | UnsetType | None, says("goodput with that interval", "1")] = UNSET
    goodput_error: Annotated[float | None, says("its standard error, where failures were followed", "1")] = None
    lost_share: Annotated[
        float | None, says("share of the time in which work was lost, or failures were not noticed yet", "1")
    ] = None
    waiting_for_quorum_share: Annotated[
        float | None, says("share of the time in which all waited for the quorum", "1")
    ] = None
    failures_followed: Annotated[int | None, says("failures that were followed one by one", "1")] = None
    goodput_in_closed_form: Annotated[float | None, says("goodput by the renewal formula", "1")] = None
    participation: Annotated[float, says("mean share of the workers that take part in an exchange", "1")]
    finishes: Annotated[bool, says("whether the training ever ends: a goodput of at least 1 %")]
    cause: Annotated[str, says("why it does not; empty if it does")]
    iteration_time: Annotated[
        float | None, says("iteration time with all losses; null where the training never ends", "s")
    ]

    @property
    def lasting_time(self) -> float:
        """The iteration time with all losses; infinite where the training never ends."""
        return math.inf if self.iteration_time is None else self.iteration_time


Word = Literal["yes", "no", "alike", "undecided"]
BOTH_TIMES = "An iteration takes"
"""How the sentence begins that follows the answer of a comparison."""
UNDISTURBED = "Undisturbed: "
"""What stands before it where machines come and go."""


class ImplementationSaving(Answer, kw_only=True, rename=in_json(time=("good_iteration_time", "saving"))):
    """The implementation of the method, and what a good one would save."""

    name: Annotated[str, says("which implementation of the method this is, by `sparsifier.implementation`")]
    label: Annotated[str, says("the implementation in words")]
    good_iteration_time: Annotated[float, says("iteration time with `implementation: good`", "s")]
    saving: Annotated[float, says("what that would save", "s")]
    saving_share: Annotated[float, says("as a share of this iteration", "1")]


class Worth(Answer):
    """What a measurement would be worth to a comparison."""

    input: Annotated[str, says("what could be measured, most valuable first")]
    id: Annotated[list[str], says("the inputs that this would settle")]
    level: Annotated[str, says("how the least known of them is known")]
    width: Annotated[float, says("the largest factor by which one of them may be wrong", "1")]
    share: Annotated[float, says("share of the doubt (variance) that goes", "1")]
    decided: Annotated[float, says("probability that the question is decided after the measurement", "1")]
    speed_up_interval: Annotated[
        Interval, says("90 % interval of the speed-up if the measurement confirms what is assumed", "1")
    ]
    command: Annotated[str, says("command that measures it")]
    minutes: Annotated[float, says("what the measurement takes, about", "min")]


class Comparison(
    Answer,
    kw_only=True,
    rename=in_json(
        time=("difference",),
        found="opponent",
        opponent_time="baseline_iteration_time_s",
        opponent_interval="baseline_iteration_time_interval_s",
        opponent_breakdown="baseline_breakdown_s",
        opponent_idle="baseline_idle_s",
        text="answer",
        word="verdict",
    ),
):
    """The answer to a scenario's question.

    - `word`: `yes`, `no`, `alike` or `undecided`; None where an iteration takes no time.
    - `text`: the answer in words, with what it is due to.
    - `probability`: that this run is faster than the opponent.
    - `speed_up`: the opponent's iteration time over this one's; `speed_up_interval`: its 90 % interval. Both, and the
      verdict, count what is lost where machines come and go. There is no ratio where a training never ends.
    - `opponent`: what this run is compared with; `opponent_time`: its iteration time in seconds.
    """

    kind: Annotated[str, says("`pays`: the methods differ; `costs`: something else does")]
    baseline: Annotated[str, says("what `versus` asks for")]
    found: Annotated[str, says("what the baseline is where `versus` does not describe it")]
    opponent_time: Annotated[float, says("iteration time of the baseline", "s")]
    opponent_interval: Annotated[Interval, says("90 % interval of its iteration time", "s")]
    opponent_breakdown: Annotated[
        dict[str, float], says("terms of the baseline", "s", {term: f"{term} of the baseline" for term in BREAKDOWN})
    ]
    opponent_idle: Annotated[
        dict[str, float], says("idle time of the baseline", "s", {term: f"{term} of the baseline" for term in IDLE})
    ]
    speed_up: Annotated[float | None, says("baseline's iteration time over this one's, with all losses of both", "1")]
    difference: Annotated[
        dict[str, float],
        says("differences of terms", "s", {term: f"{term}, this one less the baseline" for term in BREAKDOWN}),
    ]
    text: Annotated[str, says("the answer, in words")]
    word: Annotated[
        Word | None,
        says(
            "`yes`, `no`, `alike` (surely within 2 %) or `undecided`: faster or slower with a probability of 95 %, or "
            "not"
        ),
    ] = None
    speed_up_interval: Annotated[
        Interval | None, says("90 % interval of the speed-up; what both share cancels", "1")
    ] = None
    probability: Annotated[float | None, says("probability that this one is faster than the baseline", "1")] = None
    value_of_information: list[Worth] | None = None

    @property
    def opponent(self) -> str:
        """What this run is compared with."""
        return self.found or self.baseline

    @property
    def short(self) -> str:
        """The answer without the times of both and what they are due to; empty where an iteration takes no time."""
        return re.split(rf"(?:^|(?<=[.] ))(?:{UNDISTURBED})?{BOTH_TIMES}", self.text, maxsplit=1)[0].strip()

    def __str__(self) -> str:
        return self.text
