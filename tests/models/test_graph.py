"""What a graph of six tasks says of itself, by hand."""

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


def test_exchanges_go_in_turn_where_each_queue_has_one_stream_and_rising_turns():
    later = replace(GATHER, turn=2)
    for queue in (Queue(streams=2), Queue(by_priority=True), Queue(credit=0.0)):
        assert not Graph((FORWARD, GATHER), (queue, Queue())).in_turn
    for tasks, in_turn in (
        ((GATHER, later), True), ((GATHER, GATHER), False), ((later, GATHER), False),
        ((later, replace(GATHER, queue=1)), True),
    ):  # fmt: skip
        assert Graph((FORWARD, *tasks), (Queue(), Queue())).in_turn is in_turn


def test_exchanges_overlap_on_several_queues_unless_they_are_split():
    assert (GRAPH.halves, GRAPH.overlaps, Graph(TASKS, (Queue(), Queue())).overlaps) == (True, False, False)
    assert [Graph((FORWARD, GATHER), (Queue(),) * count).overlaps for count in (1, 2)] == [False, True]


def test_workers_that_differ_only_before_they_meet():
    here = replace(FORWARD, meets=True)
    for tasks, last in (
        ((BACKWARD, here, FORWARD), True), ((FORWARD, here, BACKWARD), False),
        ((replace(BACKWARD, meets=True),), False), ((FORWARD, replace(GATHER, meets=True)), False),
    ):  # fmt: skip
        assert Graph(tasks, (Queue(),)).meets_last is last


def test_compute_is_slowed_down_on_each_worker_by_itself_if_any_task_is():
    assert [Graph((FORWARD, replace(FORWARD, slowed=how)), ()).slows_each for how in ("own", "front")] == [True, False]
    assert FIRST.sends and not FIRST.meets
    assert (FORWARD.bucket, FORWARD.layer, FORWARD.ready, FORWARD.turn, FORWARD.priority) == (-1, -1, -1, 0, 0)
