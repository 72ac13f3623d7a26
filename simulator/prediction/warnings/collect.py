"""All warnings and notes of a prediction."""

from __future__ import annotations

from simulator.prediction.simulated import Simulated
from simulator.prediction.uncertainty.spread import Spread
from simulator.prediction.warnings.kernels import warn_of_kernels
from simulator.prediction.warnings.memory import warn_of_memory
from simulator.prediction.warnings.network import warn_of_network
from simulator.prediction.warnings.sizes import Sizes
from simulator.prediction.warnings.software import warn_of_software
from simulator.prediction.warnings.warning import SizedWarning
from simulator.prediction.warnings.workload import warn_of_trace, warn_of_workload


def sort_warnings(simulated: Simulated, spread: Spread) -> tuple[list[SizedWarning], list[SizedWarning]]:
    """What a reader should know of where the times of a result come from, largest first; and the notes.

    What touches and changes less than 0.1 % of the iteration is a note. Sizes follow from the responses in `spread`.
    """
    found = sorted(
        _collect(Sizes(simulated.scenario, simulated.plan, simulated.figures.breakdown, spread), simulated),
        key=lambda item: item.size,
        reverse=True,
    )
    return [item for item in found if not item.is_note], [item for item in found if item.is_note]


def _collect(sizes: Sizes, simulated: Simulated) -> list[SizedWarning]:
    """Every warning, part by part of the scenario."""
    return [
        *warn_of_kernels(sizes),
        *warn_of_workload(sizes),
        *warn_of_trace(sizes, simulated.recorded.warning),
        *warn_of_software(sizes),
        *warn_of_network(sizes),
        *warn_of_memory(simulated.memory),
    ]
