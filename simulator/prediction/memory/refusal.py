"""What a scenario is refused with whose workers need more memory than their GPUs have."""

from __future__ import annotations

from simulator.errors import InputError, Problem
from simulator.prediction.memory.memory import Memory, describe_parts
from simulator.scenario.scenario import Scenario
from simulator.units import show_memory


def refuse_what_does_not_fit(scenario: Scenario, memory: Memory, *, remedies: bool = True) -> None:
    """Raise InputError where a worker needs more memory than its GPU has, unless the scenario ignores it.

    The error names the parts, largest first, and what would help; without `remedies` it says how to learn that.
    """
    if memory.fits is not False or scenario.ignore_memory or memory.capacity is None:
        return
    where = f"scenario '{scenario.name}'"
    what = f"at most {show_memory(memory.capacity)} of memory on each {memory.gpu.name}"
    texts = ["`sparsim run` of this scenario by itself says what would help"]
    if remedies:
        from simulator.prediction.memory.remedies import describe_remedies  # only a refusal needs the remedies

        texts = [*describe_remedies(scenario, memory)]
    raise InputError(
        [
            Problem(where, what, f"{show_memory(memory.total)}: {describe_parts(memory)}"),
            *(Problem("memory", "", text) for text in texts),
        ]
    )
