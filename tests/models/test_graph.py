"""What a graph of six tasks says of itself, by hand."""

import pytest

from simulator.models.graph import COMMUNICATION, COMPUTE, HOST, Cost, Graph, Queue, Task
from simulator.records import replace

FORWARD = Task(COMPUTE, "forward", Cost("forward"))
BACKWARD = Task(COMPUTE, "backward", Cost("backward", 1, 3, "backward"), after=(0,))
FIRST = Task(COMMUNICATION, "first", Cost("exchange", 2), after=(0, 2), bucket=1)
GATHER = Task(COMMUNICATION, "gather", Cost("gather"), after=(0,), bucket=0, turn=1)
TASKS = (
    FORWARD,
    Task(HOST, "hook", Cost("hook")),
    BACKWARD,
    FIRST,
    Task(COMMUNICATION, "second", Cost("second", 1, 2), after=(3,), bucket=1, half=1, turn=2),
    GATHER,
)
GRAPH = Graph(TASKS, (Queue(),))


def test_tasks_are_found_by_their_streams_and_by_what_they_wait_for():
    assert (GRAPH.compute, GRAPH.hooks, GRAPH.exchanges) == ((0, 2), (1,), (3, 4, 5))
    assert (GRAPH.made_ready_by, GRAPH.follow_ons, GRAPH.ready_tasks) == ({2: [3], 0: [5]}, (4,), (0, 2))


def test_costs_are_found_by_their_names():
    assert GRAPH.costs == ("forward", "hook", "backward", "exchange", "second", "gather")
    assert [part.tolist() for part in GRAPH.cost_places] == [[*range(6)], [0, 0, 1, 2, 1, 0], [1, 1, 3, 1, 2, 1]]
    expected = {"exchange": [0, 0, 1], "second": [0, 2, 0], "gather": [1, 0, 0]}
    assert {name: counts.tolist() for name, counts in GRAPH.calls.items()} == expected
    nothing = Graph((FORWARD,), (Queue(),)).calls
    assert {name: counts.tolist() for name, counts in nothing.items()} == {"exchange": [], "second": []}


@pytest.mark.parametrize(
    ("queue", "tasks", "in_turn"),
    [
        (Queue(), (GATHER, replace(GATHER, turn=2)), True),
        (Queue(), (GATHER, GATHER), False),
        (Queue(), (replace(GATHER, turn=2), GATHER), False),
        (Queue(), (replace(GATHER, turn=2), replace(GATHER, queue=1)), True),
        (Queue(streams=2), (GATHER,), False),
        (Queue(by_priority=True), (GATHER,), False),
        (Queue(credit=0.0), (GATHER,), False),
    ],
)
def test_exchanges_go_in_turn_where_each_queue_has_one_stream_and_rising_turns(queue, tasks, in_turn):
    assert Graph((FORWARD, *tasks), (queue, Queue())).in_turn is in_turn


def test_exchanges_overlap_on_several_queues_unless_they_are_split():
    assert (GRAPH.halves, GRAPH.overlaps) == (True, False)
    assert not Graph(TASKS, (Queue(), Queue())).overlaps
    assert [Graph((FORWARD, GATHER), (Queue(),) * count).overlaps for count in (1, 2)] == [False, True]


@pytest.mark.parametrize(
    ("tasks", "last"),
    [
        ((BACKWARD, replace(FORWARD, meets=True), FORWARD), True),
        ((FORWARD, replace(FORWARD, meets=True), BACKWARD), False),
        ((replace(BACKWARD, meets=True),), False),
        ((FORWARD, replace(GATHER, meets=True)), False),
    ],
)
def test_workers_that_differ_only_before_they_meet(tasks, last):
    assert Graph(tasks, (Queue(),)).meets_last is last


def test_compute_is_slowed_down_on_each_worker_by_itself_if_any_task_is():
    assert [Graph((FORWARD, replace(FORWARD, slowed=how)), ()).slows_each for how in ("own", "front")] == [True, False]
    assert FIRST.sends and not FIRST.meets
