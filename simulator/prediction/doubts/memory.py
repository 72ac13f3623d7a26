"""What is said of the memory of a GPU: what does not fit, and what may not."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.prediction.doubts.sentences import Reader
from simulator.prediction.doubts.warning import SizedWarning
from simulator.units import show_memory


def remark_on_memory(reader: Reader) -> Iterator[SizedWarning]:
    """That a worker needs more memory than its GPU has. It has no size in seconds: such a training does not run."""
    memory = reader.simulated.memory
    if memory.capacity is None or not memory.exceeded:
        return
    asked = f"{show_memory(memory.total)} of memory, and {memory.gpu.name} has {show_memory(memory.capacity)}"
    if memory.fits is False:
        text = f"this training cannot run: a worker needs {asked}"
    else:
        text = f"this training may not run: a worker needs {asked}; at least {show_memory(memory.least)} are needed"
    yield SizedWarning(text, 0.0, unbounded=True)
