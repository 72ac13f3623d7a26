"""Iterations as they are drawn by hand: each task with what it waits for, and how exchanges slow it down."""

import pytest

from simulator.models.layers import Layer
from simulator.records import asdict
from simulator.schedulers.base import singles
from simulator.schedulers.decoupled import Decoupled
from simulator.schedulers.fsdp import Fsdp
from simulator.schedulers.step import Shape, Step


def drawn(scheduler, *given, second):
    """The tasks of an iteration over two tensors, a bucket each, by place, and those of its properties that are set."""
    kinds = {name: name in given for name in ("alone", "shares", "joint", "staged", "inside", "live")}
    buckets = tuple(singles([Layer(name=name, numel=9) for name in "ab"]))
    step = Step(Shape(buckets, 2, 1, (0, 1), (True, True), (second, second), (), **kinds), scheduler.queue)
    scheduler.lay_out(step)
    lines, graph = [], step.graph()
    assert graph.together and not graph.periodic  # all wait for each other at its end
    for place, task in enumerate(graph.tasks):
        stream = "" if task.stream == "compute" else f" on {task.stream}"
        told = {key: value for key, value in asdict(task).items() if key not in ("cost", "stream", "term", "label")}
        plain = {"after": (), "earlier": (), "ready": -1, "bucket": -1, "layer": -1, "sends": True, "slowed": ""}
        words = [f"{key} {value}" for key, value in told.items() if value != plain.get(key, 0) and value is not True]
        words += [key for key, value in told.items() if value is True and key != "sends"]
        lines.append(f"{place} {task.cost.name} {task.cost.index}{stream}: {', '.join(words)}".rstrip())
    return lines


DECOUPLED = """
0 backward 0: slowed front, bucket 0 | 1 selection 0: slowed front, bucket 0 |
2 exchange 0 on communication: after (1,), bucket 0, priority 1, meets | 3 backward 1: slowed front, bucket 1 |
4 selection 1: slowed front, bucket 1 | 5 exchange 1 on communication: after (4,), bucket 1, turn 1, meets |
6 second 1 on communication: after (2, 5), bucket 1, queue 1, half 1, meets |
7 second 0 on communication: after (2, 5), bucket 0, queue 1, turn 1, priority 1, half 1, meets | 8 load 0: |
9 layer_combine 0: after (6,), ready 8, layer 0 | 10 layer_update 0: layer 0 |
11 layer_forward 0: slowed own, layer 0 | 12 layer_combine 1: after (7,), ready 8, layer 1 |
13 layer_update 1: layer 1 | 14 layer_forward 1: slowed own, layer 1
"""
FSDP = """
0 load 0: | 1 stages 0: | 2 gather 1 on communication: after (1,), bucket 1, queue 1, meets |
3 gather 0 on communication: after (1,), bucket 0, queue 1, turn 1, meets |
4 copy_out 1: after (2,), ready 1, slowed front, bucket 1 | 5 unit_forward 1: slowed front, bucket 1 |
6 joint_forward 1 on communication: after (5,), bucket 1, queue 2, meets |
7 nothing 0: after (6,), ready 5, slowed front, bucket 1 | 8 copy_out 0: after (3,), ready 1, slowed front, bucket 0 |
9 unit_forward 0: slowed front, bucket 0 |
10 joint_forward 0 on communication: after (9,), bucket 0, queue 2, turn 1, meets |
11 nothing 0: after (10,), ready 9, slowed front, bucket 0 |
12 gather 1 on communication: after (11,), bucket 1, queue 1, turn 2, meets |
13 first_backward 0: slowed front, bucket 0 |
14 joint_backward 0 on communication: after (13,), bucket 0, queue 2, turn 2, meets |
15 nothing 0: after (14,), ready 13, slowed front, bucket 0 | 16 copy_into 0: slowed front, bucket 0 |
17 reduce 0 on communication: after (16,), bucket 0, queue 1, turn 3, meets |
18 copy_out 1: after (12,), ready 11, slowed front, bucket 1 | 19 first_backward 1: slowed front, bucket 1 |
20 joint_backward 1 on communication: after (19,), bucket 1, queue 2, turn 3, meets |
21 nothing 0: after (20,), ready 19, slowed front, bucket 1 |
22 copy_into 1: after (17,), ready 16, slowed front, bucket 1 | 23 selection 0: slowed front, bucket 0 |
24 exchange 0 on communication: after (23,), bucket 0, priority 1, meets |
25 reduce 1 on communication: after (23,), bucket 1, queue 1, turn 4, meets |
26 nothing 0: after (25,), ready 23, slowed front | 27 selection 1: slowed front, bucket 1 |
28 exchange 1 on communication: after (27,), bucket 1, turn 1, meets |
29 combine 0: after (24,), ready 27, bucket 0, meets | 30 combine 1: after (28,), ready 27, bucket 1 | 31 update 0:
"""


@pytest.mark.parametrize(
    ("scheduler", "given", "second", "drawing"),
    [(Decoupled(bucket_size=1), (), True, DECOUPLED), (Fsdp(), ("shares", "joint", "staged"), False, FSDP)],
)
def test_an_iteration_is_as_it_was_drawn(scheduler, given, second, drawing):
    """Tensor 0 is the first of the forward pass, and of the other one bucket 0 is: its gradient comes first."""
    assert drawn(scheduler, *given, second=second) == " ".join(drawing.split()).split(" | ")
