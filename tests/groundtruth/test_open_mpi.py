"""Open MPI between network namespaces against predictions that know link rate, bucket and ping-pong alone.

Opt-in (`pytest -m groundtruth tests/groundtruth`), as root on Linux; Open MPI is installed from the package registry
into a temporary environment, or `MPI_ENVIRONMENT` names one. About six minutes on a quiet machine.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

import pytest

from groundtruth import open_mpi
from groundtruth.measure_open_mpi import RATE, SIZES, WORKERS, rows
from groundtruth.namespaces import Hosts
from groundtruth.shaping import Shaping, unavailable
from simulator.studies.validate.collective_table import CollectiveRow, predict

pytestmark = pytest.mark.groundtruth
MIB = 2**20
BAR = 0.03


@pytest.fixture(scope="module")
def place():
    reason = unavailable()
    if reason:
        pytest.skip(reason)
    with tempfile.TemporaryDirectory() as folder:
        found = open_mpi.environment(Path(folder))
        if found is None:
            pytest.skip("Open MPI cannot be installed here")
        yield found


def test_collectives_of_open_mpi_are_predicted(place):
    errors = {}
    for workers in WORKERS:
        for cells in rows(place, workers, SIZES):
            row = CollectiveRow.model_validate({name: cells[name] for name in CollectiveRow.model_fields})
            key = (workers, row.algorithm, row.collective, row.message_bytes)
            errors[key] = float(predict(row)[0].seconds[0] / row.median_s - 1)
    assert len(errors) == 70 * len(WORKERS)
    assert median(map(abs, errors.values())) <= BAR, errors


def doubling(place, folder, nbytes):
    """Median seconds of a recursive-doubling all-reduce on 4 ranks."""
    with Hosts(4, Shaping(RATE, 10_000)) as hosts:
        jobs = [("all_reduce", nbytes, 7)]
        (found,) = open_mpi.measure(hosts, place, jobs, {"all_reduce": "recursive_doubling"}, folder)
    return median(found["seconds"])


def test_the_second_step_is_half_as_fast_over_rendezvous_only(place, tmp_path, monkeypatch):
    wire = 8 * MIB / RATE
    assert doubling(place, tmp_path, MIB) == pytest.approx(3 * wire, rel=0.05)
    monkeypatch.setenv("OMPI_MCA_btl_tcp_eager_limit", str(2 * MIB))
    assert doubling(place, tmp_path, MIB) == pytest.approx(2 * wire, rel=0.05)


def test_what_open_mpi_complains_about_is_said(place, tmp_path):
    with Hosts(2, None) as hosts, pytest.raises(RuntimeError, match="no_such_collective"):
        list(open_mpi.measure(hosts, place, [("no_such_collective", 4, 1)], {}, tmp_path))
