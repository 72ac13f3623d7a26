"""The answer of `validate`: predicted against measured, with units and meanings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from simulator.answers import Answer, Interval, says
from simulator.prediction.result_parts import Word
from simulator.records import field

ValidationRow = Mapping[str, Any]
"""A measured value beside the predicted one; rows of iterations, of their parts and of collectives have other keys."""


class ErrorSummary(Answer, omit_defaults=False):
    """Signed errors of rows, as fractions; None where no row counts, or an older version stored it."""

    n: Annotated[int, says("rows", "1")] = 0
    mape: Annotated[float | None, says("mean absolute relative error", "1")] = None
    baseline_mape: Annotated[float | None, says("MAPE of the trivial sum, on the rows that have one", "1")] = None
    median_ape: Annotated[float | None, says("median absolute relative error", "1")] = None
    p95_ape: Annotated[float | None, says("95th percentile of absolute relative errors", "1")] = None
    max_ape: Annotated[float | None, says("largest absolute relative error", "1")] = None
    bias: Annotated[float | None, says("mean signed relative error", "1")] = None
    coverage_50: Annotated[float | None, says("share of measured values inside the 50 % interval", "1")] = None
    coverage_80: Annotated[float | None, says("share inside the 80 % interval", "1")] = None
    coverage_90: Annotated[float | None, says("share inside the 90 % interval", "1")] = None
    narrow_coverage_90: Annotated[
        float | None, says("share inside the 90 % interval, of rows where half of it is below 20 %", "1")
    ] = None
    half_width: Annotated[float | None, says("median of half the 90 % interval over the prediction", "1")] = None


class JudgedSign(Answer):
    """Whether compression pays, for a compressed row beside the fastest measured dense one of its set-up."""

    group: Annotated[str, says("the set-up")]
    scenario: Annotated[str, says("the compressed row")]
    against: Annotated[str, says("the dense row")]
    measured_speed_up: Annotated[float, says("time of the dense row over that of the compressed one", "1")]
    predicted_speed_up: Annotated[float, says("that of the predicted times", "1")]
    measured_pays: Annotated[bool | None, says("whether it is faster; null where times are closer than 1 %")]
    predicted_pays: Annotated[bool, says("whether it is predicted to be faster")]
    probability: Annotated[float, says("probability that it is faster, from the spreads of both predictions", "1")]
    verdict: Annotated[Word | None, says("the verdict from these spreads")]
    used_in_fit: Annotated[bool, says("whether a constant was fitted to either row")]
    speed_up_interval: Annotated[Interval | None, says("90 % interval of the predicted speed-up", "1")] = None


class SignSum(Answer, omit_defaults=False):
    """How many signs are right."""

    pairs: Annotated[int, says("pairs of rows", "1")] = 0
    used_in_fit: Annotated[int, says("pairs with a fitted row, which do not count", "1")] = 0
    neither: Annotated[int, says("others that were measured within 1 %, which do not count", "1")] = 0
    n: Annotated[int, says("pairs that are left", "1")] = 0
    right: Annotated[int, says("those predicted as measured", "1")] = 0
    share: Annotated[float | None, says("their share", "1")] = None
    decided: Annotated[int, says("those with a verdict of yes or no", "1")] = 0
    decided_share: Annotated[float | None, says("their share", "1")] = None
    decided_right: Annotated[int, says("those whose verdict is right", "1")] = 0
    decided_right_share: Annotated[float | None, says("their share of the decided ones", "1")] = None
    coverage_90: Annotated[
        float | None, says("share of measured speed-ups inside the 90 % interval, of pairs without a fitted row", "1")
    ] = None


class ProbabilityBin(Answer):
    """Counted pairs whose stated probability lies between two bounds, and how many of them compression pays for."""

    low: Annotated[float, says("least stated probability", "1")]
    high: Annotated[float, says("the probability that it is below", "1")]
    n: Annotated[int, says("pairs", "1")]
    stated: Annotated[float, says("their mean probability that compression pays", "1")]
    observed: Annotated[float, says("share of them for which it was measured to pay", "1")]


class SignSums(Answer):
    """Signs by set-up and overall, and how often what is probable happens."""

    groups: dict[str, SignSum]
    overall: SignSum
    probabilities: list[ProbabilityBin] = field(default_factory=list)


class FormulaErrors(Answer):
    """Absolute errors of a formula, or of our prediction, on measured synchronisations or iterations of a set-up."""

    group: Annotated[str, says("the set-up")]
    formula: Annotated[str, says("the formula")]
    n: Annotated[int, says("rows", "1")]
    median_ape: Annotated[float, says("median absolute relative error", "1")]
    mape: Annotated[float, says("mean absolute relative error", "1")]
    max_ape: Annotated[float, says("largest absolute relative error", "1")]
    source: Annotated[str, says("where it was published; empty for our prediction")]


class ValidatedModel(Answer, omit_defaults=False):
    """Errors of rows that no constant was fitted to: by set-up, of whole iterations, of those whose doubt rests by more
    than half on measured inputs and on the model itself, and overall; and whether compression pays."""

    rows: list[ValidationRow]
    groups: dict[str, ErrorSummary]
    iterations: ErrorSummary = field(default_factory=ErrorSummary)
    on_measured: ErrorSummary = field(default_factory=ErrorSummary)
    overall: ErrorSummary = field(default_factory=ErrorSummary)
    signs: list[JudgedSign] = field(default_factory=list)
    signs_summary: SignSums = field(default_factory=lambda: SignSums({}, SignSum()))
    formulas: list[FormulaErrors] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
