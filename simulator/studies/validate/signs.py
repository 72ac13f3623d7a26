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
Whole = tuple[Row, Scenario]
"""A row of `validate` that says how long an iteration takes, with its scenario."""


def signs(measured: Iterable[Whole]) -> list[dict[str, Any]]:
    """A sign for each of the `pairs_of` measured rows.

    Keys: `group`, `scenario`, `against` (the opponent's name); `measured_speed_up` and `predicted_speed_up`, times of
    the dense row over those of the compressed one; `measured_pays`, which is None where the times are closer than 1 %,
    and `predicted_pays`; `used_in_fit`, whether a constant was fitted to either row.
    """
    return [_sign(compressed, dense) for (compressed, _), (dense, _) in pairs_of(measured)]


def pairs_of(measured: Iterable[Whole]) -> list[tuple[Whole, Whole]]:
    """Every whole iteration with a compressed gradient, beside the dense one of its set-up that was measured fastest.

    Compressed rows without a dense one are left out.
    """
    whole = [item for item in measured if item[0]["quantity"] in WHOLE]
    fastest: dict[Hashable, Whole] = {}
    for row, scenario in whole:
        known = fastest.get(_set_up(row, scenario))
        if scenario.sparsifier.kind == _DENSE and (known is None or row["measured"] < known[0]["measured"]):
            fastest[_set_up(row, scenario)] = (row, scenario)
    compressed = [item for item in whole if item[1].sparsifier.kind != _DENSE]
    return [(item, fastest[_set_up(*item)]) for item in compressed if _set_up(*item) in fastest]


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
