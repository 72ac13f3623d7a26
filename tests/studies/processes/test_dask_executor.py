"""Sweeps on a Dask cluster: a scheduler and two workers as processes of their own, on the loopback interface."""

import os
import signal
import sys
import threading
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
from command_line import refused
from dask_processes import address_of, end, start_dask
from small_inputs import BASE
from small_sweeps import results

from simulator.errors import InputError, SparsimError
from simulator.studies.processes.dask_executor import run_on_cluster
from simulator.studies.sweep.sweep import run_sweep

pytestmark = [
    pytest.mark.skipif(find_spec("distributed") is None, reason="the extra `cluster` is not installed"),
    pytest.mark.filterwarnings("ignore"),  # what other packages deprecate is theirs to mend
]

SWEEP = f"""{BASE}vary:
  sparsifier: [topk, randomk, dgc, gtopk]
  sparsifier.density: {{from: 1e-4, to: 0.5, scale: log, points: 10}}
  cluster.nodes: [1, 2, 3, 4, 8]
  cluster.network.bandwidth: {{from: 100 Mbit/s, to: 100 Gbit/s, scale: log, points: 5}}
"""
POINTS = 1000


def started(*arguments):
    return start_dask(arguments, os.environ)


def work(address):
    return started("worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1")


@pytest.fixture
def cluster():
    """The address of a scheduler, its two worker processes, and its own."""
    scheduler = started("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-show")
    processes = [scheduler]
    try:
        address = address_of(scheduler)
        processes += [work(address) for _ in range(2)]
        yield address, processes[1:], scheduler
    finally:
        end(processes)


@pytest.fixture
def sweep_file(tmp_path):
    path = tmp_path / "sweep.yaml"
    path.write_text(SWEEP)
    return path


@pytest.mark.long
def test_a_worker_that_is_killed_midway_changes_nothing(cluster, sweep_file, tmp_path):
    address, workers, _ = cluster
    at = []

    def kill_one(progress):
        if not at and progress.evaluated >= POINTS / 4:
            workers[0].send_signal(signal.SIGKILL)
            at.append(progress.evaluated)

    there = run_sweep(sweep_file, tmp_path / "there", cluster=address, observe=kill_one)
    assert POINTS / 4 <= at[0] < POINTS
    assert workers[0].wait(timeout=10) == -signal.SIGKILL and workers[1].poll() is None
    here = run_sweep(sweep_file, tmp_path / "here", workers=1)
    assert there.manifest["evaluated"] == here.manifest["evaluated"] == POINTS
    assert len(there.errors) == len(here.errors) == 4 * 10 * 5 // 4  # gTop-k on three workers
    assert results(tmp_path / "there") == results(tmp_path / "here")


@pytest.mark.long
def test_without_workers_for_a_while_the_sweep_waits_for_one(cluster, sweep_file, tmp_path):
    address, workers, _ = cluster
    for process in workers:
        process.kill()
        process.wait()
    late = []
    timer = threading.Timer(1, lambda: late.append(work(address)))
    timer.start()
    try:
        made = run_sweep(sweep_file, tmp_path / "out", cluster=address, shard=(1, 20))
        assert made.manifest["evaluated"] == POINTS // 20
    finally:
        timer.join()
        end(late)


class Failing:
    """Evaluates nothing; raises an error of Dask's, or of this name, at some numbers."""

    def __init__(self, numbers, error):
        self.numbers, self.error = numbers, error

    def __call__(self, numbers):
        if set(self.numbers) & set(numbers):
            raise self.error
        return [str(number) for number in numbers]


@pytest.fixture(scope="module")
def here():
    """The address of a scheduler with one worker, both in this process."""
    from distributed import LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0") as made:
        yield made.scheduler_address


def test_points_whose_workers_die_are_tried_again_alone_and_then_fail(here):
    from distributed.scheduler import KilledWorker

    failing = Failing((3, 70), KilledWorker("chunk", SimpleNamespace(address="tcp://there"), 3))
    outcomes = {o.number: o for batch in run_on_cluster(failing, [range(40), range(40, 80)], here) for o in batch}
    assert sorted(outcomes) == list(range(80))
    errors = {number: outcome.lost for number, outcome in outcomes.items() if outcome.lost}
    assert errors == dict.fromkeys((3, 70), "the Dask workers that evaluated this point died")


def test_an_error_of_the_workers_is_said_with_the_cluster_s_address(here):
    with pytest.raises(SparsimError, match=rf"^--cluster {here}: ImportError: no module named simulator$"):
        list(run_on_cluster(Failing((3,), ImportError("no module named simulator")), [range(8)], here))


def test_a_scheduler_that_is_lost_before_anything_is_sent_is_an_error(here, monkeypatch):
    def lost(client):
        raise OSError

    monkeypatch.setattr("distributed.Client.nthreads", lost)
    with pytest.raises(SparsimError, match=rf"^--cluster {here}: the connection to the scheduler was lost$"):
        list(run_on_cluster(Failing((), None), [range(8)], here))


def test_threads_of_this_process_are_a_cluster_too(here, sweep_file, tmp_path):
    there = run_sweep(sweep_file, tmp_path / "there", shard=(1, 50), cluster=here)
    alone = run_sweep(sweep_file, tmp_path / "here", shard=(1, 50), workers=1)
    assert there.manifest["evaluated"] == POINTS // 50 and there.table.equals(alone.table)


def test_a_cluster_without_workers_is_an_input_error(monkeypatch):
    from distributed import LocalCluster

    monkeypatch.setattr("simulator.studies.processes.dask_executor._CONNECT_SECONDS", 1)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as empty,
        pytest.raises(InputError, match="expected a Dask scheduler with workers, got none"),
    ):
        list(run_on_cluster(Failing((), None), [range(8)], empty.scheduler_address))


@pytest.mark.long
def test_a_scheduler_that_is_killed_is_an_error_and_what_is_finished_is_kept(cluster, sweep_file, tmp_path):
    address, _, scheduler = cluster
    at = []

    def kill(progress):
        if not at and progress.evaluated:
            at.append(progress.evaluated)
            scheduler.kill()

    with pytest.raises(SparsimError, match=rf"^--cluster {address}: the connection to the scheduler was lost$"):
        run_sweep(sweep_file, tmp_path / "out", cluster=address, observe=kill)
    assert run_sweep(sweep_file, tmp_path / "out", workers=1).manifest["reused"] >= at[0] > 0


def test_nothing_to_evaluate_asks_nobody():
    assert list(run_on_cluster(Failing((), None), [], "tcp://127.0.0.1:9")) == []


def test_nobody_at_the_address_is_an_input_error(sweep_file, tmp_path, monkeypatch):
    from simulator.studies.processes import dask_executor

    monkeypatch.setattr(dask_executor, "_CONNECT_SECONDS", 0.1)
    with pytest.raises(InputError, match=r"--cluster tcp://127.0.0.1:9: expected a Dask scheduler that answers"):
        run_sweep(sweep_file, tmp_path / "out", cluster="tcp://127.0.0.1:9")
    assert not (tmp_path / "out" / "results.parquet").exists()


def test_without_the_package_there_is_a_hint(sweep_file, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    options = ["--out", str(tmp_path / "out"), "--cluster", "tcp://127.0.0.1:9"]
    assert refused("sweep", sweep_file, *options) == (
        "--cluster: expected the package `distributed`, got none installed: pip install 'sparsim[cluster]'\n"
    )
    assert not (tmp_path / "out").exists()
