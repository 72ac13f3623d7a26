"""Points over processes: every one comes back, whatever happens to a process."""

import gc
import itertools
import multiprocessing
import os
import signal
import time
from contextlib import suppress
from multiprocessing.connection import Connection

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_sweeps import results, swept

from simulator.errors import SparsimError
from simulator.studies.processes.executors import BATCH_SECONDS, ChunkQueue, run_locally


class Plain:
    """Evaluates nothing; at some numbers ends the process, at others says what no process says, at others is slow."""

    def __init__(self, deadly=(), babbled=(), slow=()):
        self.deadly, self.babbled, self.slow = deadly, babbled, slow

    def __call__(self, numbers):
        if set(self.deadly) & set(numbers):
            os.kill(os.getpid(), signal.SIGKILL)
        if set(self.babbled) & set(numbers):
            gc.unfreeze()
            for connection in [item for item in gc.get_objects() if isinstance(item, Connection)]:
                with suppress(OSError):
                    connection.send_bytes(b"no pickle")
            time.sleep(60)
        if set(self.slow) & set(numbers):
            time.sleep(2 * BATCH_SECONDS)
        return [str(number) for number in numbers]


@given(sizes=st.lists(st.integers(1, 200), max_size=12), hands=st.integers(1, 8))
def test_a_queue_hands_out_every_point_once(sizes, hands):
    queue, given_out = ChunkQueue([range(a, b) for a, b in itertools.pairwise([0, *itertools.accumulate(sizes)])]), []
    while queue.left:
        share = queue.left // hands
        chunk = queue.take(hands)
        assert 0 < len(chunk) <= max(2, share)
        given_out += chunk
    assert sorted(given_out) == list(range(sum(sizes)))


@pytest.mark.parametrize("copied", [True, pytest.param(False, marks=pytest.mark.long)])
@pytest.mark.parametrize("processes", [1, 2])
def test_every_point_comes_back_and_what_is_finished_does_not_wait_for_slow_ones(processes, copied, monkeypatch):
    monkeypatch.setattr("simulator.studies.processes.executors.can_fork", lambda: copied)
    groups = [range(0, 7), range(7, 8), range(8, 300)]
    batches = [[outcome.number for outcome in batch] for batch in run_locally(Plain(slow=(2,)), groups, processes)]
    assert sorted(number for batch in batches for number in batch) == list(range(300)) and [1, 2] in batches
    assert list(run_locally(Plain(), [], processes)) == []
    assert not multiprocessing.active_children()


@pytest.mark.long
def test_points_that_kill_their_process_fail_and_the_others_come_out():
    plain = Plain(deadly=(3,), babbled=(79,))
    outcomes = {o.number: o for batch in run_locally(plain, [range(40), range(40, 80)], 2) for o in batch}
    assert sorted(outcomes) == list(range(80))
    assert {number for number, outcome in outcomes.items() if outcome.lost} == {3, 79}
    assert outcomes[3].lost == "the process that evaluated this point died twice (signal SIGKILL)"
    assert outcomes[79].lost == "the process that evaluated this point died twice (signal SIGTERM)"
    assert not multiprocessing.active_children()


@pytest.mark.long
def test_a_killed_process_is_replaced_and_nothing_is_missing(whole, tmp_path):
    killed = []

    def kill_one(progress):
        if not killed and progress.evaluated:
            child = multiprocessing.active_children()[-1]
            os.kill(child.pid, signal.SIGKILL)
            killed.append(child.pid)

    path, _, expected = whole
    made = swept(path, tmp_path, workers=2, observe=kill_one)
    assert killed
    assert not made.errors
    assert results(tmp_path) == expected


class Stillborn:
    """What a new process cannot even read."""

    def __reduce__(self):
        return os._exit, (3,)


def test_processes_that_never_begin_are_an_error(monkeypatch):
    monkeypatch.setattr("simulator.studies.processes.executors.can_fork", lambda: False)
    with pytest.raises(SparsimError, match=r"processes end at once \(exit code 3\): in a script, call `sweep` below"):
        list(run_locally(Stillborn(), [range(10)], 2))
    assert not multiprocessing.active_children()
