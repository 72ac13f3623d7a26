"""The answer of `plan`: what each unknown has to be so that a target is met, with units and meanings."""

from __future__ import annotations

from typing import Annotated, Any

from simulator.answers import Answer, says

Ends = tuple[float | None, float | None]


class TargetNow(Answer):
    """What is to be reached."""

    text: Annotated[str, says("the target as it was given")]
    quantity: Annotated[str, says("the quantity")]
    value: Annotated[float, says("the value that it must have at least, or at most, in SI")]
    shown: Annotated[str, says("the value with its unit")]
    against: Annotated[str, says("what it is compared with")]


class PlanNow(Answer):
    """The quantity as the scenario is."""

    value: Annotated[float, says("its value, in SI")]
    shown: Annotated[str, says("the value with its unit")]
    met: Annotated[bool, says("whether the target is met")]


class UnknownNeeded(Answer, kw_only=True):
    """What an unknown has to be; of the last fields there are those of its status."""

    name: Annotated[str, says("the unknown")]
    key: Annotated[str, says("its key in the scenario")]
    now: Annotated[Any, says("its value now")]
    now_shown: Annotated[str, says("that with its unit")]
    tried: Annotated[tuple[float, float], says("smallest and largest value that was tried")]
    status: Annotated[str, says("`found`, `always` (all values meet the target), `never` or `refused`")]
    reason: Annotated[str | None, says("why no value could be run, or what limits the best")] = None
    upwards: Annotated[bool | None, says("whether more of it meets the target")] = None
    again: Annotated[bool | None, says("whether the target is met and missed in turn elsewhere")] = None
    best: Annotated[float | None, says("the value that comes closest")] = None
    best_shown: Annotated[str | None, says("that with its unit")] = None
    best_reached: Annotated[float | None, says("the quantity there")] = None
    best_reached_shown: Annotated[str | None, says("that with its unit")] = None
    needed: Annotated[float | None, says("the value that is needed")] = None
    needed_shown: Annotated[str | None, says("that with its unit")] = None
    reached: Annotated[float | None, says("the quantity there")] = None
    reached_shown: Annotated[str | None, says("that with its unit")] = None
    interval: Annotated[Ends | None, says("90 % interval of the value; null: beyond what was tried")] = None
    interval_shown: Annotated[list[str | None] | None, says("its ends with their units")] = None


class NarrowingMeasurement(Answer):
    """The measurement that would narrow the answers most."""

    what: Annotated[str, says("what to measure")]
    command: Annotated[str, says("command that measures it")]
    minutes: Annotated[float, says("what the measurement takes, about", "min")]
    width: Annotated[float, says("factor by which its input may be wrong either way in nine of ten cases", "1")]
    share: Annotated[float, says("share of the doubt (variance) that it settles", "1")]


class BackwardsPlan(Answer):
    """What a scenario needs to meet a target, each unknown by itself."""

    scenario: Annotated[str, says("name of the scenario")]
    target: TargetNow
    now: PlanNow
    answers: list[UnknownNeeded]
    measurement: NarrowingMeasurement | None
    note: Annotated[str, says("how runs differ from those of `run`; empty where they do not")] = ""
