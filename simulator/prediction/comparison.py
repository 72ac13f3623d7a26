"""What the result of a run says of its opponent: the answer, the doubt in it, and what would decide it."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from simulator.answers import Answer, Interval, in_json, says
from simulator.models.timeline import BREAKDOWN, IDLE

Word = Literal["yes", "no", "alike", "undecided"]
BOTH_TIMES = "An iteration takes"
"""How the sentence begins that follows the answer of a comparison."""


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
    - `speed_up`: the opponent's iteration time over this one's; `speed_up_interval`: its 90 % interval.
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
    speed_up: Annotated[float | None, says("baseline's iteration time over this one's", "1")]
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
        return re.split(rf"(?:^|(?<=[.] )){BOTH_TIMES}", self.text, maxsplit=1)[0].strip()

    def __str__(self) -> str:
        return self.text
