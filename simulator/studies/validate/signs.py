"""Signs: whether compression pays, measured and predicted, for compressed rows beside a dense row of their set-up."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from simulator.scenario.scenario import Scenario
from simulator.studies.validate.measured_rows import WHOLE

CLOSE = 0.01
"""Measured times that differ by no more, relative to the compressed one, do not say whether compression pays."""
_DENSE = "dense"
Row = Mapping[str, Any]


def signs(measured: Iterable[tuple[Row, Scenario]]) -> list[dict[str, Any]]:
    """A sign for every whole iteration with a compressed gradient that has a dense one of the same set-up.

    `measured`: rows of `validate` with their scenarios. The opponent is the dense row that was measured to be fastest.
    Keys: `group`, `scenario`, `against` (the opponent's name); `measured_speed_up` and `predicted_speed_up`, times of
    the dense row over those of the compressed one; `measured_pays`, which is None where the times are closer than 1 %,
    and `predicted_pays`; `used_in_fit`, whether a constant was fitted to either row.
    """
    whole = [(row, scenario) for row, scenario in measured if row["quantity"] in WHOLE]
    fastest: dict[Hashable, Row] = {}
    for row, scenario in whole:
        key = _set_up(row, scenario)
        known = fastest.get(key)
        if scenario.sparsifier.kind == _DENSE and (known is None or row["measured"] < known["measured"]):
            fastest[key] = row
    return [
        _sign(row, fastest[_set_up(row, scenario)])
        for row, scenario in whole
        if scenario.sparsifier.kind != _DENSE and _set_up(row, scenario) in fastest
    ]


def _set_up(row: Row, scenario: Scenario) -> Hashable:
    """What two rows share that answer the same question: folder, model, batch, GPU, number of workers and link rate.

    Runtime, transport, topology and scheduler belong to the method: who trains without compression chooses them anew.
    Names stand for the model and the GPU, since their times may be those of one run.
    """
    workload, cluster = scenario.workload, scenario.cluster
    machines = (cluster.gpu.name, cluster.nodes, cluster.gpus_per_node, cluster.network.bandwidth)
    return (row["group"], workload.name, workload.batch_size, *machines)


def _sign(compressed: Row, dense: Row) -> dict[str, Any]:
    measured, predicted = (dense[key] / compressed[key] for key in ("measured", "predicted"))
    return {
        "group": compressed["group"],
        "scenario": compressed["scenario"],
        "against": dense["scenario"],
        "measured_speed_up": measured,
        "predicted_speed_up": predicted,
        "measured_pays": None if abs(measured - 1) <= CLOSE else measured > 1,
        "predicted_pays": predicted > 1,
        "used_in_fit": compressed["used_in_fit"] or dense["used_in_fit"],
    }


def sum_up_signs(made: Sequence[Row]) -> dict[str, Any]:
    """Sums of signs by set-up (`groups`) and `overall`.

    `pairs`: how many there are; `used_in_fit`: pairs with a fitted row, which do not count; `neither`: of the others,
    those measured within 1 %; `n`: those that are left; `right`: those predicted as measured, and `share` of `n`.
    """
    groups = sorted({str(item["group"]) for item in made})
    return {
        "groups": {name: _sum([item for item in made if item["group"] == name]) for name in groups},
        "overall": _sum(made),
    }


def _sum(made: Sequence[Row]) -> dict[str, Any]:
    unseen = [item for item in made if not item["used_in_fit"]]
    judged = [item for item in unseen if item["measured_pays"] is not None]
    right = sum(item["measured_pays"] == item["predicted_pays"] for item in judged)
    return {
        "pairs": len(made),
        "used_in_fit": len(made) - len(unseen),
        "neither": len(unseen) - len(judged),
        "n": len(judged),
        "right": right,
        "share": right / len(judged) if judged else None,
    }
