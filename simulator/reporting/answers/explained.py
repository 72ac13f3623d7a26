"""The explanation of an iteration: terms, exchanges, costs, doubts and sensitivities, with units and meanings."""

from __future__ import annotations

from typing import Annotated, Any

from simulator.answers import Answer, Interval, in_json, says
from simulator.prediction.result_parts import AxisUses, Basis, MemoryUse

Numbers = dict[str, Any]
"""The numbers of a term's formula, by name."""
_SIDE = "seconds by which the iteration changes where the inputs have the {} ends of their widths"


class KernelCost(Answer, kw_only=True, omit_defaults=False, rename=in_json(time=("per_call",))):
    """What a kernel costs in a stage of the iteration, and how its time is known."""

    kernel: Annotated[str, says("the kernel")]
    runs: Annotated[float, says("how often it runs", "1")]
    calls: Annotated[float, says("calls of the framework", "1")]
    elements: Annotated[float, says("elements that it works on, in all runs", "1")]
    seconds: Annotated[float, says("what all runs take", "s")]
    per_call: Annotated[float, says("what a run takes", "s")]
    bound_by: Annotated[str, says("`GPU` or `host`: what takes longer")]
    law: Annotated[str, says("how its seconds follow from its elements")]
    level: Annotated[str | None, says("how it is known on this GPU; null on the host, or an ideal GPU")] = None
    width: Annotated[float | None, says("factor by which it may be wrong; null where it was measured", "1")] = None
    curve: Annotated[str | None, says("the curve that was measured; null where there is none")] = None
    held_out_mape: Annotated[float | None, says("error of the curve on what it was not fitted to", "1")] = None
    in_range: Annotated[bool | None, says("whether it was asked within what was measured")] = None


class TermBasis(Answer):
    """A curve or law that a term rests on."""

    what: Annotated[str, says("its kind")]
    id: Annotated[str, says("which one")]
    held_out_mape: Annotated[float | None, says("its held-out error; null where it is not known", "1")]
    source: Annotated[str, says("where it comes from")]


class TermShare(Answer, kw_only=True):
    """A term of the iteration."""

    term: Annotated[str, says("a term; all of them sum to the iteration time")]
    label: Annotated[str, says("what people call it")]
    seconds: Annotated[float, says("what it takes", "s")]
    share: Annotated[float, says("its share of the iteration", "1")]
    formula: Annotated[str, says("how it follows")]
    numbers: Annotated[Numbers, says("the numbers of the formula, by name; times end in `_s`")]
    calibration: list[TermBasis]


class ExchangeSum(Answer, rename=in_json(time=("spent",))):
    """All exchanges of the iteration, exposed or hidden."""

    buckets: Annotated[int, says("buckets of gradients", "1")]
    calls: Annotated[int, says("collectives, or pushes and pulls", "1")]
    payload_bytes: Annotated[float, says("their payloads", "B")]
    spent: Annotated[
        dict[str, float] | None, says("their seconds by cause, as if no other exchange used the network", "s")
    ]


class ComputeWait(Answer, rename=in_json(time=("seconds",))):
    """What holds compute: a collective, and what waits for it."""

    axis: Annotated[str, says("the axis along which GPUs exchange: a key of `axes`")]
    collective: Annotated[str, says("the collective")]
    unit: Annotated[str, says("tensors of the unit that it is for")]
    holds: Annotated[str, says("what waits for it")]
    seconds: Annotated[float, says("how long, in all micro-batches of the last iteration", "s")]


class HiddenExchange(Answer, rename=in_json(time=("seconds",))):
    """What hides the communication of an axis: compute that runs beside it."""

    axis: Annotated[str, says("the axis along which GPUs exchange: a key of `axes`")]
    beside: Annotated[str, says("the term of the compute that runs beside it")]
    seconds: Annotated[float, says("how long, in all micro-batches of the last iteration", "s")]


class Counterfactual(Answer, rename=in_json(time=("iteration_time", "saving"))):
    """The iteration without one of its costs."""

    name: Annotated[str, says("the cost that is left out")]
    what: Annotated[str, says("what that means")]
    iteration_time: Annotated[float, says("the iteration time without it", "s")]
    saving: Annotated[float, says("what that saves", "s")]
    saving_share: Annotated[float, says("the saving as a share of the iteration", "1")]


class UsedInput(Basis, kw_only=True, rename=in_json(time=("less", "more"))):
    """An uncertain input, with what it does to the iteration to first order."""

    less: Annotated[float, says("seconds by which the iteration may be shorter because of it", "s")]
    more: Annotated[float, says("seconds by which the iteration may be longer because of it", "s")]
    source: Annotated[str, says("where its width comes from")]


class Effect(Answer, rename=in_json(time=("low", "high"))):
    """Inputs that are wrong the same way, and together: what they do to the iteration, and what would settle them."""

    level: Annotated[str, says("how the least known of them is known")]
    low: Annotated[float, says(_SIDE.format("lower"), "s")]
    high: Annotated[float, says(_SIDE.format("upper"), "s")]
    share: Annotated[float, says("share of the interval's squared width on a logarithmic scale", "1")]
    inputs: list[UsedInput]
    command: Annotated[str | None, says("what would settle them; null where no command does")]
    minutes: Annotated[float | None, says("what that takes, about", "min")]

    @property
    def largest(self) -> float:
        """The larger of its two changes, in seconds."""
        return max(abs(self.low), abs(self.high))


class Doubts(Answer, rename=in_json(time=("interval", "single_iterations"))):
    """What the interval of a prediction consists of; effects with the largest change first."""

    interval: Annotated[Interval, says("90 % interval of the iteration time", "s")]
    groups: list[Effect]
    single_iterations: Annotated[
        Interval, says("by how much the 5th and 95th percentile of single iterations differ from their mean", "s")
    ]


class Slope(Answer):
    """How an answer changes with one input."""

    input: Annotated[str, says("the input: a dotted key of the scenario")]
    value: Annotated[float, says("its value, in `unit`")]
    unit: Annotated[str, says("unit of the value")]
    base: Annotated[float, says("the answer as it is")]
    elasticity: Annotated[float | None, says("slope in per cent per per cent; null where it is not known", "1")]
    derivative: Annotated[float | None, says("slope per unit of the input")]
    at_half: Annotated[float | None, says("the answer at half of the value; null where it has none")]
    at_double: Annotated[float | None, says("the answer at twice the value; null where it has none")]
    swing: Annotated[float, says("the largest less the smallest of the three answers")]


class Sensitivity(Answer, kw_only=True):
    """How an answer, by default the iteration time in seconds, changes with every numeric input."""

    of: Annotated[str | None, says("the answer, where it is not the iteration time")] = None
    base: Annotated[float, says("the answer as it is")]
    inputs: list[Slope]
    top: Annotated[list[str], says("the most important inputs")]
    without_effect: Annotated[list[str], says("inputs that change nothing from half to twice their values")]
    notes: Annotated[list[str], says("what was changed to make runs short")]
    answer: Annotated[str, says("the most important inputs, in a sentence")]
    turned_by: Annotated[list[str] | None, says("inputs that turn the answer at half or twice their values")] = None


class ExplainedIteration(
    Answer,
    kw_only=True,
    rename=in_json(time=("iteration_time", "hidden_communication"), interval="iteration_time_interval_s"),
):
    """Where the time of an iteration goes, what it would take without each cost, and what it depends on."""

    scenario: Annotated[str, says("name of the scenario")]
    digest: Annotated[str, says("SHA-256 over all that the prediction depends on")]
    versions: Annotated[dict[str, str], says("versions that it depends on")]
    workers: Annotated[int, says("GPUs in all")]
    iteration_time: Annotated[float, says("mean time of one training iteration", "s")]
    interval: Annotated[Interval, says("its 90 % interval", "s")]
    summary: Annotated[str, says("the largest terms, and what would save most")]
    basis: Annotated[str, says("what the terms follow")]
    terms: list[TermShare]
    hidden_communication: Annotated[float, says("communication that computation hides", "s")]
    exchanges: ExchangeSum
    axes: AxisUses | None = None
    waits: list[ComputeWait] | None = None
    hidden: list[HiddenExchange] | None = None
    counterfactuals: list[Counterfactual]
    measured: Annotated[str | None, says("what a measurement of this job, or of another one, says of it")] = None
    memory: MemoryUse | None
    uncertainty: Doubts
    sensitivity: Sensitivity
    warnings: Annotated[list[str], says("what a reader should know, each with its size, largest first")]
    notes: Annotated[list[str], says("what changes less than 0.1 % of the iteration, and inputs without effect")]
