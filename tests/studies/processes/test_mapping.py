"""Calls spread over processes: the same results in every number of processes, and errors where they were asked for."""

import fcntl
import os
import sys
import threading
import time

import pytest

from simulator.errors import InputError, Problem, SparsimError
from simulator.studies.processes.executors import can_fork, count_processes, map_in_processes


def squared(numbers):
    return [number**2 for number in numbers]


def refuses(numbers):
    if 3 in numbers:
        raise InputError(Problem("here", "no 3", "3"))
    return numbers


def ends(numbers):
    if 3 in numbers:
        os._exit(5)
    return numbers


@pytest.mark.parametrize("processes", [1, 2, None])
def test_results_have_the_places_of_their_arguments(processes):
    assert dict(map_in_processes(squared, list(range(200)), processes)) == {n: n**2 for n in range(200)}
    assert list(map_in_processes(squared, [], processes)) == []


@pytest.mark.parametrize(
    ("call", "processes", "said"),
    [(refuses, 1, "expected no 3, got 3"), (refuses, 2, "no 3, got 3"), (ends, 2, r"died twice \(exit code 5\)")],
)
def test_an_error_of_a_call_is_raised_where_it_was_asked_for(call, processes, said):
    with pytest.raises(SparsimError, match=said):
        list(map_in_processes(call, list(range(8)), processes))


def test_processes_are_copies_only_where_there_is_one_thread(monkeypatch):
    if threading.active_count() == 1 and "torch" not in sys.modules and "distributed" not in sys.modules:
        assert can_fork() == (sys.platform == "linux")
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert not can_fork()
    assert count_processes(None) == 1  # nobody waits for new processes that did not ask for them
    assert (count_processes(3), count_processes(3, 2), count_processes(3, 0)) == (3, 2, 1)
    with pytest.raises(InputError, match="workers: expected at least 1, got 0"):
        count_processes(0)


def is_free(file):
    """Whether nobody else has a lock on a file."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@pytest.mark.skipif(sys.platform != "linux", reason="processes are copies on Linux only")
def test_a_copy_does_not_keep_the_files_of_the_process_that_was_copied(tmp_path):
    path = tmp_path / "lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        calls = map_in_processes(squared, [1, 2, 3, 4], 2)
        next(calls)
    with path.open("w") as again:  # the copies are still there, and let go of it as they begin
        until = time.monotonic() + 30
        while not is_free(again) and time.monotonic() < until:
            time.sleep(0.01)
        assert is_free(again)
    calls.close()
