"""The answer of `advise`: what to use, the ranking, break-even points and reasons, with units and meanings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from simulator.answers import Answer, Interval, in_json, says
from simulator.prediction.result_parts import Word, Worth
from simulator.records import field
from simulator.reporting.answers.explained import Sensitivity

Overrides = Mapping[str, Any]
"""Dotted keys of a scenario with their values."""
_WORDS = "`yes` or `no` with a probability of 95 %, `alike` (within 2 %) or `undecided`; null where nothing is compared"
Status = Literal["offered", "other_framework", "research_code", "unknown"]
"""Offered by the scenario's framework (by any released one where it names none); by another released framework; only by
code that was published with a paper, or no code has all parts; nothing is known of a part."""


class PartPlaces(Answer, rename=in_json(released="frameworks", code="research_code")):
    """Where one part of a combination exists."""

    kind: Annotated[str, says("kind of the part")]
    released: Annotated[tuple[str, ...], says("released frameworks that have it")]
    code: Annotated[tuple[str, ...], says("addresses of research code")]


class Availability(Answer, omit_defaults=False):
    """Where a combination exists."""

    status: Annotated[
        Status,
        says(
            "`offered` by the scenario's framework, or by any released one if it names none; `other_framework`; "
            "`research_code`; `unknown`"
        ),
    ]
    where: Annotated[str, says("the framework, or the code, in a few words")]
    lines: Annotated[tuple[str, ...], says("lines of configuration")] = ()
    notes: Annotated[tuple[str, ...], says("what differs there")] = ()
    sources: Annotated[tuple[str, ...], says("documentation")] = ()
    parts: Annotated[dict[str, PartPlaces], says("where each of its parts exists, by family")] = field(
        default_factory=dict
    )


class Unmeasured(Answer):
    """An input that was not measured here, and what it may do to a speed-up."""

    input: Annotated[str, says("what was not measured and may make the speed-up smaller by more than 1 %")]
    what: Annotated[str, says("its kind")]
    id: Annotated[list[str], says("the inputs that are wrong with it")]
    level: Annotated[str, says("how the first of them is known")]
    width: Annotated[float, says("largest factor by which one of them may be wrong", "1")]
    speed_up_at_worst: Annotated[float, says("the speed-up at the worse end of the width", "1")]
    turns: Annotated[bool, says("whether that alone turns a gain into a loss")]

    @property
    def is_kernel(self) -> bool:
        """Whether it is a kernel of the GPU."""
        return self.what.startswith("kernel ")


class AgainstOffered(Answer):
    """A combination against the best dense one that is offered."""

    speed_up: Annotated[float, says("how many times faster than the best dense combination that is offered", "1")]
    speed_up_interval: Annotated[Interval, says("its 90 % interval", "1")]
    probability: Annotated[float | None, says("probability that it is faster; null for dense itself", "1")]


class RankedRow(
    Answer,
    omit_defaults=False,
    kw_only=True,
    rename=in_json(
        time=("iteration_time", "breakdown", "time_to_target"),
        interval="iteration_time_interval_s",
        throughput="throughput_samples_per_s",
        sent_per_worker="sent_bytes_per_worker",
    ),
):
    """A combination with its times, and how it compares with dense at its best."""

    rank: Annotated[int, says("place by expected time: per iteration, or to the target where that is given", "1")] = 1
    overrides: Annotated[Overrides, says("keys of the scenario that this combination changes")]
    method: Annotated[str, says("method with its density")]
    sparsifier: Annotated[str, says("its kind")]
    density: Annotated[float | None, says("its density; null where it has none", "1")]
    schedule: Annotated[str, says("schedule in words")]
    topology: Annotated[str, says("topology in words")]
    iteration_time: Annotated[float, says("mean time of an iteration", "s")]
    interval: Annotated[Interval, says("its 90 % interval", "s")]
    throughput: Annotated[float | None, says("samples that all workers train on per second", "samples/s")]
    breakdown: Annotated[dict[str, float], says("terms of the iteration", "s")]
    sent_per_worker: Annotated[float, says("bytes that a worker sends in an iteration", "B")]
    iterations_to_target: Annotated[float | None, says("iterations to the target: given, or from trainings", "1")]
    iterations_to_target_interval: Annotated[
        Interval | None, says("their 90 % interval; no width where they were given", "1")
    ]
    time_to_target: Annotated[float | None, says("those iterations times the time of one", "s")]
    availability: Availability
    best_of_method: Annotated[bool, says("whether it is the fastest combination of its method")] = True
    speed_up_over_dense: Annotated[
        float | None,
        says("times as fast as dense at its best, to the target where iterations were given", "1"),
    ] = None
    speed_up_over_dense_interval: Annotated[
        Interval | None, says("its 90 % interval; errors that both share cancel", "1")
    ] = None
    probability: Annotated[float | None, says("probability that it is faster than dense at its best", "1")] = None
    risk: Annotated[float | None, says("its time over that of dense that one case in twenty exceeds", "1")] = None
    verdict: Annotated[Word | None, says("whether it is faster than dense: `yes`, `no`, `alike` or `undecided`")] = None
    rests_on: list[Unmeasured] = field(default_factory=list)
    against_offered_dense: AgainstOffered | None = None
    speed_up_over_yours: Annotated[float | None, says("how many times faster than the scenario as it is", "1")] = None


class Switch(Answer, rename=in_json(time=("iteration_time",))):
    """A setting of the scenario's framework by itself, on the scenario without compression."""

    name: Annotated[str, says("what is set")]
    overrides: Annotated[Overrides, says("keys of the scenario that say so")]
    lines: Annotated[tuple[str, ...], says("lines of configuration")]
    iteration_time: Annotated[float, says("mean time of an iteration with it", "s")]
    speed_up: Annotated[float, says("how many times faster than without it", "1")]


class AdviceSummary(Answer, omit_defaults=False):
    """The answer in lines; an empty one has nothing to say."""

    do: Annotated[str, says("what to do")]
    gain: Annotated[str, says("what it gains")]
    change: Annotated[str, says("what would change it")]
    elsewhere: Annotated[str, says("what only research code or another framework has")] = ""


class Recommended(Answer):
    """What to use, and how sure that is."""

    answer: Annotated[str, says("what to use and how sure that is, with the unmeasured kernels that it rests on")]
    details: Annotated[list[str], says("what else there is to say about it, in sentences")]
    recommended: Annotated[Overrides, says("keys of the scenario to change, and their values")]
    verdict: Annotated[Word | None, says(f"whether compression pays: {_WORDS}")]
    probability: Annotated[float | None, says("probability that the method in question is faster than dense", "1")]
    value_of_information: list[Worth]


class SecondBest(Answer, rename=in_json(time=("iteration_time",))):
    """The best that needs research code or another framework."""

    method: Annotated[str, says("method with its density")]
    schedule: Annotated[str, says("schedule in words")]
    topology: Annotated[str, says("topology in words")]
    overrides: Annotated[Overrides, says("keys of the scenario that it changes")]
    iteration_time: Annotated[float, says("mean time of an iteration", "s")]
    availability: Availability
    speed_up: Annotated[float, says("how many times faster than what is recommended it is", "1")]
    speed_up_interval: Annotated[Interval, says("its 90 % interval", "1")]
    probability: Annotated[float, says("probability that it is faster", "1")]
    of_all: Recommended


HighestBandwidth = Annotated[float | None, says("highest bandwidth at which it is faster", "B/s")]
HighestBandwidthEnds = Annotated[
    tuple[float | None, float | None] | None,
    says("its 90 % interval, from that of the ratio of both times; null where no bandwidth tried is far enough", "B/s"),
]


class Border(Answer):
    """Below which bandwidth the method in question is faster than what it is compared with, each at its best here."""

    method: Annotated[str, says("the method in question")]
    against: Annotated[str, says("what it is compared with")]
    bandwidth_below_which_it_wins: HighestBandwidth
    bandwidth_interval: HighestBandwidthEnds
    bandwidth_words: Annotated[str, says("where it is faster, in words")]


class BreakEven(Answer):
    """Where a method is faster than dense on the same schedule and topology."""

    method: Annotated[str, says("a method")]
    against: Annotated[str, says("what it is compared with")]
    schedule: Annotated[str, says("the schedule that both have")]
    topology: Annotated[str, says("the topology that both have")]
    bandwidth_below_which_it_wins: HighestBandwidth
    bandwidth_interval: HighestBandwidthEnds
    bandwidth_words: Annotated[str, says("where it is faster, in words")]
    workers_above_which_it_wins: Annotated[int | None, says("workers from which on it is faster", "1")]
    workers_interval: Annotated[tuple[int | None, int | None] | None, says("their 90 % interval", "1")]
    workers_up_to_which_it_wins: Annotated[int | None, says("workers up to which it is faster", "1")]
    workers_up_to_interval: Annotated[tuple[int | None, int | None] | None, says("their 90 % interval", "1")]
    workers_words: Annotated[str, says("with how many workers it is faster, in words")]


class Reason(Answer):
    """Why methods are slower or faster than dense."""

    kind: Annotated[str, says("why methods are slower or faster than dense: the kind of reason")]
    methods: Annotated[list[str], says("those for which it holds")]
    text: Annotated[str, says("the reason with its numbers")]


class LookedAt(Answer):
    """Combinations that were considered."""

    combinations: Annotated[int, says("combinations of the grid", "1")]
    run: Annotated[int, says("those that were run", "1")]
    refused: Annotated[int, says("those that cannot work together", "1")]
    refusals: Annotated[dict[str, int], says("how often each reason refused one, the most frequent first", "1")]
    not_run: Annotated[int, says("those that were not run, because their method or schedule was already slower", "1")]
    left_out: Annotated[list[str], says("what was not considered")]


class MethodAdvice(Answer, kw_only=True):
    """What to use on a set-up."""

    scenario: Annotated[str, says("name of the scenario")]
    digest: Annotated[str, says("SHA-256 over all that its prediction depends on")]
    versions: Annotated[dict[str, str], says("versions of sparsim, Python and the libraries")]
    workers: Annotated[int, says("GPUs in all", "1")]
    density: Annotated[float, says("density at which sparsifiers are ranked", "1")]
    iterations_to_target: Annotated[
        dict[str, float], says("iterations to the target by method: given, or from trainings", "1")
    ]
    summary: AdviceSummary
    answer: Annotated[str, says("what to use and how sure that is, with the unmeasured kernels that it rests on")]
    details: Annotated[list[str], says("what else there is to say about it, in sentences")]
    recommended: Annotated[Overrides, says("keys of the scenario to change, and their values")]
    verdict: Annotated[
        Word | None, says(f"whether compression pays, with what is offered, or with any method where none is: {_WORDS}")
    ]
    probability: Annotated[float | None, says("probability that the method in question is faster than dense", "1")]
    value_of_information: list[Worth]
    settings: Annotated[str, says("the recommended keys as options of the command line")]
    availability: Availability | None
    second: SecondBest | None
    border: Border | None
    opponent: Annotated[str, says("what dense is, with which all methods are compared")]
    switches: list[Switch]
    ranking: list[RankedRow]
    dense: Annotated[RankedRow | None, says("the row of dense at its best")]
    yours: Annotated[RankedRow | None, says("the row of the scenario as it is")]
    break_even: list[BreakEven]
    reasons: list[Reason]
    sensitivity: Sensitivity | None
    looked_at: LookedAt
    notes: Annotated[list[str], says("limits of the answer")]
    interrupted: Annotated[str, says("what was being computed when the study was interrupted; empty if it was not")]
    command: Annotated[str | None, says("the command that runs what is recommended")] = None
