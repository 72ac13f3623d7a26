"""Published formulas for the time of a synchronisation, as baselines beside our prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from simulator.engine.plan.plan import Plan
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


def formula_errors(plan: Plan, measured: float) -> dict[str, float]:
    """The signed error of each formula on a measured synchronisation of a dense model, at the bandwidth of a NIC."""
    workers, rate = plan.wiring.layout.workers, plan.setup.network.fabric.bandwidth
    nbytes = sum(plan.work.nbytes)
    return {item.name: item.seconds(nbytes, workers, rate) / measured - 1 for item in FORMULAS}


def formula_scoreboard(rows: Sequence[ValidationRow]) -> list[FormulaErrors]:
    """Median, mean and largest absolute error of each formula, and of our prediction, on measured synchronisations."""
    judged = [row for row in rows if row.get("formula_errors") and not row["used_in_fit"]]
    if not judged:
        return []
    errors = {item.name: [abs(row["formula_errors"][item.name]) for row in judged] for item in FORMULAS}
    errors[OURS] = [abs(row["signed_error"]) for row in judged]
    sources = {item.name: item.source for item in FORMULAS}
    return [
        FormulaErrors(name, len(each), median(each), sum(each) / len(each), max(each), sources.get(name, ""))
        for name, each in errors.items()
    ]
