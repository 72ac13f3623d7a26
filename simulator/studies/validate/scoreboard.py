"""Errors of a validation by set-up and overall, those of published formulas beside them, and signs."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import compress, pairwise
from statistics import fmean, median
from typing import Any, NamedTuple

from simulator.architectures.describing import description_of
from simulator.calibration.fits.accuracy import errors_as_dict
from simulator.engine.plan.plan import Plan
from simulator.hardware.gpu import Gpu
from simulator.hardware.operator_times import rate_of
from simulator.models.groups import group_by
from simulator.models.layers import Workload
from simulator.prediction.doubts.spread import Spread, compare_spreads
from simulator.prediction.measured import WHOLE
from simulator.prediction.result import SHARES
from simulator.reporting.answers.validated import (
    ErrorSummary,
    FormulaErrors,
    JudgedSign,
    ProbabilityBin,
    SignSum,
    SignSums,
    ValidationRow,
)
from simulator.scenario.scenario import Scenario

LEVELS = tuple(str(percent) for percent in SHARES)
"""Per cent of cases that the intervals of a row are to hold."""
_MOSTLY = 0.5
NARROW = 0.2
"""Half-width of a 90 % interval, over the prediction, below which a row decides something."""


def scoreboard(
    rows: Sequence[ValidationRow],
) -> tuple[dict[str, ErrorSummary], ErrorSummary, ErrorSummary, ErrorSummary]:
    """Errors of rows that no constant was fitted to: by set-up, of whole iterations, of those whose doubt rests by more
    than half on measured inputs and on the model itself, and overall."""
    groups = sorted({str(row["group"]) for row in rows})
    counted = [row for row in rows if not row["used_in_fit"]]
    whole = [row for row in counted if row["quantity"] in WHOLE]
    return (
        {name: errors_of([row for row in counted if row["group"] == name]) for name in groups},
        errors_of(whole),
        errors_of([row for row in whole if row["measured_share"] > _MOSTLY]),
        errors_of(counted),
    )


def errors_of(rows: Sequence[ValidationRow]) -> ErrorSummary:
    """The errors of rows, all of which count; coverage and width are those of the rows with intervals."""
    signed = [row["signed_error"] for row in rows]
    figures: dict[str, Any] = errors_as_dict(signed) or {}
    trivial = [abs(row["baseline_signed_error"]) for row in rows if row["baseline_signed_error"] is not None]
    judged = [row for row in rows if row["intervals"] is not None]
    figures |= {f"coverage_{level}": _mean([_is_inside(row, level) for row in judged]) for level in LEVELS}
    narrow = [_is_inside(row, "90") for row in judged if _half_width(row) < NARROW]
    figures["narrow_coverage_90"] = _mean(narrow)
    half_width = median(_half_width(row) for row in judged) if judged else None
    return ErrorSummary(baseline_mape=_mean(trivial), half_width=half_width, **figures)


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _is_inside(row: ValidationRow, level: str) -> bool:
    low, high = row["intervals"][level]
    return bool(low <= row["measured"] <= high)


def _half_width(row: ValidationRow) -> float:
    low, high = row["intervals"]["90"]
    return float((high - low) / 2 / row["predicted"])


CLOSE = 0.01
"""Measured times that differ by no more, relative to the compressed one, do not say whether compression pays."""
BOUNDS = (0.0, 0.05, 0.275, 0.5, 0.725, 0.95, 1.01)
"""Bounds of probabilities: those of decided questions, and four bins of the others."""
_DENSE = "dense"


class Whole(NamedTuple):
    """A row of `validate` that says how long an iteration takes, with its scenario and what is known of its time."""

    row: ValidationRow
    scenario: Scenario
    spread: Spread


def signs(measured: Iterable[Whole]) -> list[JudgedSign]:
    """A sign for every whole iteration with a compressed gradient, beside the dense one of its set-up that was measured
    fastest; compressed rows without a dense one are left out."""
    whole = [item for item in measured if item.row["quantity"] in WHOLE]
    dense = group_by((item for item in whole if item.scenario.sparsifier.kind == _DENSE), _set_up)
    fastest = {set_up: min(items, key=lambda item: item.row["measured"]) for set_up, items in dense.items()}
    compressed = [item for item in whole if item.scenario.sparsifier.kind != _DENSE]
    return [_sign(item, fastest[_set_up(item)]) for item in compressed if _set_up(item) in fastest]


def _set_up(item: Whole) -> Hashable:
    """What two rows share that answer the same question: folder, model, batch, GPU, number of workers and link rate.

    Runtime, transport, topology and scheduler belong to the method: who trains without compression chooses them anew.
    Names stand for the model and the GPU, since their times may be those of one run.
    """
    workload, cluster = item.scenario.workload, item.scenario.cluster
    machines = (cluster.gpu.name, cluster.nodes, cluster.gpus_per_node, cluster.network.bandwidth)
    return (item.row["group"], workload.name, workload.batch_size, *machines)


def _sign(compressed: Whole, dense: Whole) -> JudgedSign:
    row, other = compressed.row, dense.row
    measured, predicted = (other[key] / row[key] for key in ("measured", "predicted"))
    verdict = compare_spreads(compressed.spread, dense.spread)
    return JudgedSign(
        group=row["group"],
        scenario=row["scenario"],
        against=other["scenario"],
        measured_speed_up=measured,
        predicted_speed_up=predicted,
        measured_pays=None if abs(measured - 1) <= CLOSE else measured > 1,
        predicted_pays=predicted > 1,
        probability=verdict.probability(),
        verdict=verdict.word,
        used_in_fit=row["used_in_fit"] or other["used_in_fit"],
        speed_up_interval=verdict.interval(),
    )


def sum_up_signs(made: Sequence[JudgedSign]) -> SignSums:
    """Sums of signs by set-up and overall."""
    groups = sorted({item.group for item in made})
    sums = {name: _sum([item for item in made if item.group == name]) for name in groups}
    counted = [item for item in made if not item.used_in_fit and item.measured_pays is not None]
    return SignSums(sums, _sum(made), list(_bins(counted)))


def _bins(counted: Sequence[JudgedSign]) -> Iterator[ProbabilityBin]:
    """What is stated beside what was measured, by probability; bins without a pair are left out."""
    for low, high in pairwise(BOUNDS):
        if chosen := [item for item in counted if low <= item.probability < high]:
            stated = fmean(item.probability for item in chosen)
            yield ProbabilityBin(low, high, len(chosen), stated, fmean(bool(item.measured_pays) for item in chosen))


def _sum(made: Sequence[JudgedSign]) -> SignSum:
    unseen = [item for item in made if not item.used_in_fit]
    judged = [item for item in unseen if item.measured_pays is not None]
    right = [item.measured_pays == item.predicted_pays for item in judged]
    decided = [item.verdict in ("yes", "no") for item in judged]
    decided_right = [item.measured_pays == (item.verdict == "yes") for item in compress(judged, decided)]
    ends = [(item.measured_speed_up, item.speed_up_interval) for item in unseen]
    return SignSum(
        pairs=len(made),
        used_in_fit=len(made) - len(unseen),
        neither=len(unseen) - len(judged),
        n=len(judged),
        right=sum(right),
        share=_mean(right),
        decided=sum(decided),
        decided_share=_mean(decided),
        decided_right=sum(decided_right),
        decided_right_share=_mean(decided_right),
        coverage_90=_mean([each[0] <= measured <= each[1] for measured, each in ends if each is not None]),
    )


OURS = "this simulator"


Formula = Callable[[float, int, float], float]
"""Seconds in which p workers exchange a model of S bytes over links of B bytes per second."""
FORMULAS: dict[str, tuple[Formula, str]] = {
    "bytes over rate": (
        lambda nbytes, workers, rate: nbytes / rate,
        "S/B, as published calculators of local steps count (Adnan082/diloco-measured, 2026, compares it)",
    ),
    "twice the bytes over rate": (
        lambda nbytes, workers, rate: 2 * nbytes / rate,
        "2 S/B, a reduction and a broadcast: how MaxText sizes a link (AI-Hypercomputer/maxtext, "
        "docs/reference/core_concepts/diloco.md, 2026)",
    ),
    "ring": (
        lambda nbytes, workers, rate: 2 * (workers - 1) / workers * nbytes / rate,
        "2 (p - 1)/p S/B (Patarasuk and Yuan 2009), without start-up",
    ),
}
"""Closed formulas by name, each with where it was published."""


TWO_FORMULAS = "two formulas"
SHARE_OF_PEAK = 0.45
"""Share of the data sheet's rate that the products of a large training reach (Chowdhery et al. 2022, 2204.02311: 46 %
on TPU v4)."""
_SOURCES = {name: source for name, (_, source) in FORMULAS.items()} | {
    TWO_FORMULAS: f"FLOP over {SHARE_OF_PEAK} of the data sheet's rate (Chowdhery et al. 2022, 2204.02311: 46 %), plus "
    "bytes of the busiest link over its bandwidth, none of them hidden"
}


def formula_errors(plan: Plan, measured: float) -> dict[str, float]:
    """The signed error of each formula on a measured synchronisation of a dense model, at the bandwidth of a NIC."""
    workers, rate = plan.wiring.layout.workers, plan.setup.network.fabric.bandwidth
    nbytes = sum(plan.work.nbytes)
    return {name: formula(nbytes, workers, rate) / measured - 1 for name, (formula, _) in FORMULAS.items()}


def two_formulas_error(
    workload: Workload, gpu: Gpu, wire: float, measured: float, *, gpus: int = 1
) -> dict[str, float]:
    """The signed error of two formulas on a measured iteration of a described model: its arithmetic at a usual share of
    the data sheet's rate of `gpus` that compute a copy of it, and then the seconds of its bytes on the busiest link."""
    made = description_of(workload.origin.architecture, workload.pass_size, workload.precision)
    at_peak = math.fsum(
        item.flops / rate_of(gpu, item.multiplies_in(made.arithmetic)) for item in (*made.forward, *made.backward)
    )
    return {TWO_FORMULAS: (workload.micro_batches * at_peak / gpus / SHARE_OF_PEAK + wire) / measured - 1}


def formula_scoreboard(rows: Sequence[ValidationRow]) -> list[FormulaErrors]:
    """Median, mean and largest absolute error of each formula, and of our prediction, on the measured synchronisations
    and on the iterations of described models of each set-up."""
    judged = [row for row in rows if row.get("formula_errors") and not row["used_in_fit"]]
    made = []
    for (group, *names), each in group_by(judged, lambda row: (row["group"], *row["formula_errors"])).items():
        errors = {name: [abs(row["formula_errors"][name]) for row in each] for name in names}
        errors[OURS] = [abs(row["signed_error"]) for row in each]
        made += [
            FormulaErrors(group, name, len(of), median(of), sum(of) / len(of), max(of), _SOURCES.get(name, ""))
            for name, of in errors.items()
        ]
    return made
