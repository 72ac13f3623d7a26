"""Numbers of schedules: what they are where nobody says so, and how small and how large they may be."""

import pytest
from number_fields import numbers

from simulator.schedulers.asc_wfbp import SimultaneousMerged
from simulator.schedulers.fsdp import Fsdp
from simulator.schedulers.mg_wfbp import MergedGradient
from simulator.schedulers.overlapped_diloco import OverlappedDiLoCo
from simulator.schedulers.streaming_diloco import StreamingDiLoCo
from simulator.schedulers.wfbp import WaitFree


@pytest.mark.parametrize(
    ("schedule", "name", "default", "least", "most"),
    [
        (WaitFree, "streams", 1, 1, 64),
        (SimultaneousMerged, "streams", 2, 1, 64),
        (Fsdp, "prefetch", 1, 1, 64),
        (Fsdp, "shard", None, 1, 2**20),
        (MergedGradient, "smallest", 8192, 0, 10**12),
        (StreamingDiLoCo, "fragments", 1, 1, 10**5),
        (StreamingDiLoCo, "delay", 0, 0, 10**6),
        (StreamingDiLoCo, "mixing", 0.5, 0, 1),
        (OverlappedDiLoCo, "site", None, 1, 2**20),
        (OverlappedDiLoCo, "delay", None, 0, 10**6),
    ],
)
def test_a_number_of_a_schedule_has_a_default_and_two_ends(schedule, name, default, least, most):
    (number,) = (each for of, each, _ in numbers(schedule) if of == name)
    assert (schedule.model_fields[name].default, number.smallest, number.largest) == (default, least, most)
