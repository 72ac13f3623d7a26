"""Published formulas for the time of a synchronisation or an iteration, as baselines beside our prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import fsum
from statistics import median
from typing import NamedTuple

from simulator.architectures.describing import description_of
from simulator.engine.plan.plan import Plan
from simulator.hardware.gpu import Gpu
from simulator.hardware.operator_times import rate_of
from simulator.models.groups import group_by
from simulator.models.layers import Workload
from simulator.reporting.answers.validated import FormulaErrors, ValidationRow

OURS = "this simulator"


class Formula(NamedTuple):
    """A closed formula: seconds in which p workers exchange a model of S bytes over links of B bytes per second."""

    name: str
    source: str
    seconds: Callable[[float, int, float], float]


FORMULAS = (
    Formula(
        "bytes over rate",
        "S/B, as published calculators of local steps count (Adnan082/diloco-measured, 2026, compares it)",
        lambda nbytes, workers, rate: nbytes / rate,
    ),
    Formula(
        "twice the bytes over rate",
        "2 S/B, a reduction and a broadcast: how MaxText sizes a link (AI-Hypercomputer/maxtext, "
        "docs/reference/core_concepts/diloco.md, 2026)",
        lambda nbytes, workers, rate: 2 * nbytes / rate,
    ),
    Formula(
        "ring",
        "2 (p - 1)/p S/B (Patarasuk and Yuan 2009), without start-up",
        lambda nbytes, workers, rate: 2 * (workers - 1) / workers * nbytes / rate,
    ),
)


TWO_FORMULAS = "two formulas"
SHARE_OF_PEAK = 0.45
"""Share of the data sheet's rate that the products of a large training reach (Chowdhery et al. 2022, 2204.02311: 46 %
on TPU v4)."""
_SOURCES = {item.name: item.source for item in FORMULAS} | {
    TWO_FORMULAS: f"FLOP over {SHARE_OF_PEAK} of the data sheet's rate (Chowdhery et al. 2022, 2204.02311: 46 %), plus "
    "bytes of the busiest link over its bandwidth, none of them hidden"
}


def formula_errors(plan: Plan, measured: float) -> dict[str, float]:
    """The signed error of each formula on a measured synchronisation of a dense model, at the bandwidth of a NIC."""
    workers, rate = plan.wiring.layout.workers, plan.setup.network.fabric.bandwidth
    nbytes = sum(plan.work.nbytes)
    return {item.name: item.seconds(nbytes, workers, rate) / measured - 1 for item in FORMULAS}


def two_formulas_error(
    workload: Workload, gpu: Gpu, wire: float, measured: float, *, gpus: int = 1
) -> dict[str, float]:
    """The signed error of two formulas on a measured iteration of a described model: its arithmetic at a usual share of
    the data sheet's rate of `gpus` that compute a copy of it, and then the seconds of its bytes on the busiest link."""
    made = description_of(workload.origin.architecture, workload.pass_size, workload.precision)
    at_peak = fsum(
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
