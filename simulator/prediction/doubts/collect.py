"""All doubts of a prediction, and the warnings that they make with their sizes."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.prediction.doubts.doubt import Doubt
from simulator.prediction.doubts.kernels import doubt_kernels, remark_on_kernels
from simulator.prediction.doubts.network import doubt_network, remark_on_network
from simulator.prediction.doubts.own_error import doubt_model
from simulator.prediction.doubts.sentences import Reader, SizedWarning
from simulator.prediction.doubts.software import doubt_software, remark_on_software
from simulator.prediction.doubts.spread import Spread
from simulator.prediction.doubts.workload import (
    doubt_recorded,
    doubt_workload,
    remark_on_recorded,
    remark_on_workload,
)
from simulator.prediction.simulated import Simulated
from simulator.units import show_memory


def remark_on_memory(reader: Reader) -> Iterator[SizedWarning]:
    """That a worker needs more memory than its GPU has. It has no size in seconds: such a training does not run."""
    memory = reader.simulated.memory
    if memory.capacity is None or not memory.exceeded:
        return
    asked = f"{show_memory(memory.total)} of memory{memory.where}, and {memory.gpu} has {show_memory(memory.capacity)}"
    if memory.fits is False:
        text = f"this training cannot run: a worker needs {asked}"
    else:
        text = f"this training may not run: a worker needs {asked}; at least {show_memory(memory.least)} are needed"
    yield SizedWarning(text, 0.0, unbounded=True)


_REMARKS = (
    remark_on_kernels,
    remark_on_workload,
    remark_on_recorded,
    remark_on_software,
    remark_on_network,
    remark_on_memory,
)


def collect_doubts(made: Simulated, slowed: float) -> list[Doubt]:
    """Every figure that a prediction rests on, part by part of the scenario. `slowed`: as of `find_slowed`.

    What does not depend on times is remembered. A scenario on an ideal GPU describes no machine, so that nothing is
    assumed of it.
    """
    doubts = [
        *doubt_kernels(made),
        *doubt_network(made),
        *doubt_software(made, slowed),
        *doubt_workload(made),
        *doubt_recorded(made),
        *doubt_model(made),
    ]
    return [item for item in doubts if item.level != "assumed"] if made.scenario.cluster.gpu.ideal else doubts


def sort_warnings(simulated: Simulated, spread: Spread) -> tuple[list[SizedWarning], list[SizedWarning]]:
    """What a reader should know of where the times of a result come from, largest first; and the notes.

    What touches and changes less than 0.1 % of the iteration is a note. Sizes follow from the responses in `spread`.
    """
    reader = Reader(simulated, spread)
    remarks = (remark for remark_on in _REMARKS for remark in remark_on(reader))
    found = sorted(reader.warnings(remarks), key=lambda item: item.size, reverse=True)
    return [item for item in found if not item.is_note], [item for item in found if item.is_note]
