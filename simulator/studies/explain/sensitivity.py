"""How much an answer changes with every input: the slope, and the answer at half and twice the value."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from simulator.errors import InputError
from simulator.prediction.run import plan_of, run
from simulator.progress import Watch
from simulator.scenario.scenario import Scenario
from simulator.studies.explain.inputs import Input, input_label, inputs_of
from simulator.studies.variants.changes import without_measured_collectives, without_replay

STEP = 0.01
"""Inputs are changed by this share to either side for a slope."""
ITERATIONS = 40
"""Iterations that are averaged at most: all runs share the same random numbers, so few are enough."""
_WITH_OTHER_JOBS = 3
"""The same where other jobs share the network, which takes long to simulate."""
_SLOPES_OF_LIVE = 3
"""Inputs with slopes where exchanges share links, which takes long to simulate."""
_NOTHING = 1e-9

Answer = Callable[[Scenario], float]


def iteration_time(scenario: Scenario) -> float:
    """Seconds per iteration."""
    return float(run(scenario).document["iteration_time_s"])


def sensitivity(scenario: Scenario, answer: Answer = iteration_time, watch: Watch | None = None) -> dict[str, Any]:
    """How an answer (default: the iteration time) changes with every numeric input.

    `inputs`, the most important first: `elasticity` is the slope in percent per percent, from 1 % to either side
    (nodes: one node to either side), `derivative` the same per unit of the input; `at_half` and `at_double` are the
    answer there, None where the parts no longer fit together, and `swing` the largest minus the smallest of the
    three. `top` names the first three, `without_effect` those that change nothing. A measured collective holds at one
    bandwidth and latency only, so inputs of the network are changed by the link law alone, and `base` is the answer by
    that law. Where exchanges share links only the first few inputs have slopes. An interruption leaves out the inputs
    and the slopes that `watch` has not seen done.
    """
    watch = watch or Watch()
    bare, note = without_replay(scenario)
    most = _WITH_OTHER_JOBS if bare.other_jobs else ITERATIONS
    bare = bare.model_copy(update={"iterations": min(bare.iterations, most), "warmup": min(bare.warmup, most)})
    base = answer(bare)
    network, network_base = bare, base
    if bare.cluster.network.measured:
        network = without_measured_collectives(bare)
        network_base = answer(network)
    studies = [
        _Study(item, network if item.network else bare, answer, network_base if item.network else base)
        for item in inputs_of(bare)
    ]
    slopes = _SLOPES_OF_LIVE if plan_of(bare).live else len(studies)
    watch.expect(len(studies) + slopes)
    swings: list[tuple[_Study, float | None, float | None]] = []
    found: list[float | None] = []
    with watch.part("the sensitivities"):
        for study in studies:
            swings.append((study, study.at(0.5), study.at(2.0)))
            watch.step()
        swings.sort(key=lambda row: -_swing(*row))
        for row in swings[:slopes]:
            found.append(row[0].slope())
            watch.step()
    swings.sort(key=lambda row: -_swing(*row))
    rows = [_row(*row, found[place] if place < len(found) else None) for place, row in enumerate(swings)]
    silent = [row["input"] for row in rows if row["swing"] <= _NOTHING * abs(base) and not row["elasticity"]]
    return {
        "base": base,
        "inputs": rows,
        "top": [row["input"] for row in rows[:3] if row["input"] not in silent],
        "without_effect": silent,
        "notes": [note] if note else [],
    }


@dataclass(frozen=True, slots=True)
class _Study:
    """How the answer of a scenario, `base`, changes with one input."""

    item: Input
    scenario: Scenario
    answer: Answer
    base: float

    def at(self, factor: float) -> float | None:
        """The answer with the input times a factor; None where the parts do not fit together there."""
        changed = self.item.scale(self.scenario, factor)
        try:
            return None if changed is None else self.answer(changed)
        except InputError:
            return None

    def slope(self) -> float | None:
        """d ln(answer) / d ln(input) by central difference, one-sided where one side has no value."""
        if self.base <= 0:
            return None
        step = 1 / self.item.value if self.item.whole else STEP
        below, above = self.at(1 - step), self.at(1 + step)
        low = (self.base, 0.0) if below is None else (below, -step)
        high = (self.base, 0.0) if above is None else (above, step)
        if low[1] == high[1] or low[0] <= 0 or high[0] <= 0:
            return None
        made = math.log(high[0] / low[0]) / (math.log1p(high[1]) - math.log1p(low[1]))
        return made if abs(made) > _NOTHING else 0.0


def _swing(study: _Study, half: float | None, double: float | None) -> float:
    answers = [value for value in (study.base, half, double) if value is not None]
    return max(answers) - min(answers)


def _row(study: _Study, half: float | None, double: float | None, elasticity: float | None) -> dict[str, Any]:
    return {
        "input": study.item.key,
        "value": study.item.value,
        "unit": study.item.unit,
        "base": study.base,
        "elasticity": elasticity,
        "derivative": None if elasticity is None else elasticity * study.base / study.item.value,
        "at_half": half,
        "at_double": double,
        "swing": _swing(study, half, double),
    }


def describe_sensitivity(
    result: dict[str, Any], subject: str = "the iteration", words: tuple[str, str] = ("longer", "shorter")
) -> str:
    """The most important inputs in a sentence; `words` say what more and less of the answer is called."""
    effects = []
    for row in (row for row in result["inputs"] if row["input"] in result["top"]):
        name, slope = f"the {input_label(row['input'])}", row["elasticity"]
        effect = "" if not slope else f"{abs(slope):.2g} % {words[0] if slope > 0 else words[1]}"
        effects.append((name, effect))
    if not effects:
        return f"No input changes {subject}."
    (name, effect), *others = effects
    text = f"Most sensitive to {name}"
    text += f": 1 % more makes {subject} {effect}" if effect else ""
    rest = " and ".join(f"{name} ({effect})" if effect else name for name, effect in others)
    return f"{text}; then to {rest}." if rest else f"{text}."


def notes(result: dict[str, Any]) -> list[str]:
    """One line on inputs that change nothing."""
    silent = result["without_effect"]
    return [f"inputs without effect, from half to twice their values: {', '.join(silent)}"] if silent else []
