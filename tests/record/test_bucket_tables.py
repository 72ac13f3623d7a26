"""How long an all-reduce takes by itself, from what every rank saw; needs no PyTorch."""

import pytest
from command_line import invoke
from hypothesis import given
from hypothesis import strategies as st

from simulator.errors import InputError
from simulator.loading.documents import read_document
from simulator.record.merging import (
    BucketTimes,
    IterationTime,
    find_durations,
    merge_tables,
    write_tables,
)
from simulator.scenario.reading import load

JOB = {"workers": 2, "nodes": 1, "batch_size": 4, "averaged_by": "all_reduce", "backend": "gloo", "device": "cpu"}


def test_the_rank_that_is_ready_last_does_not_wait():
    early = [BucketTimes(3, 0, 100, 0.010, 0.050)]
    late = [BucketTimes(3, 0, 100, 0.042, 0.050)]  # its own clock: as long after its own backward pass began
    assert find_durations([early, late]) == {100: [pytest.approx(0.008)]}


def test_a_bucket_that_waits_for_the_one_before_takes_its_time_from_there():
    rank = [BucketTimes(3, 0, 100, 0.0, 0.010), BucketTimes(3, 1, 50, 0.002, 0.015), BucketTimes(4, 0, 100, 0.0, 0.012)]
    assert find_durations([rank]) == {50: [pytest.approx(0.005)], 100: [pytest.approx(0.010), pytest.approx(0.012)]}


@given(
    price=st.floats(1e-4, 1e-2),
    ready=st.lists(st.lists(st.floats(0, 0.1), min_size=2, max_size=4), min_size=1, max_size=5),
    offset=st.floats(-0.05, 0.05),
)
def test_a_serial_network_is_found_again_whatever_the_ranks_clocks_say(price, ready, offset):
    """All-reduces that begin when the last of two ranks is ready and take `price` each, one after the other."""
    first, second, free = [], [], 0.0
    for number, moments in enumerate(map(sorted, ready)):
        for bucket, moment in enumerate(moments):
            late = moment + 0.003 * (bucket % 2)
            free = max(late, free if bucket else 0.0) + price
            first.append(BucketTimes(number, bucket, 8, moment, free))
            second.append(BucketTimes(number, bucket, 8, late + offset, free + offset))
    found = find_durations([first, second])[8]
    assert len(found) == sum(map(len, ready))
    # The origin of a rank's times is only its own backward pass: a bucket never seems to take longer than it does.
    assert max(found) <= price * (1 + 1e-6) + 1e-9 and max(found) == pytest.approx(price, rel=1e-6, abs=1e-9)


def written(folder, rank, scale=1.0):
    times = [
        BucketTimes(number, bucket, 2**16 * 4**bucket, 0.1 * bucket, 0.1 * bucket + scale * 1e-3 * 4**bucket)
        for number in (3, 4)
        for bucket in (0, 1, 2)
    ]
    iterations = [IterationTime(3, 0.5, True), IterationTime(4, 0.2, False), IterationTime(5, 0.4, False)]
    path = folder / f"rank-0000{rank}"
    path.mkdir()
    write_tables(path, {0: (2**16, ["b", "a"]), 1: (2**18, ["c"]), 2: (2**20, ["d"])}, times, iterations, JOB)
    return path


def test_tables_of_ranks_become_one_that_calibration_reads(tmp_path):
    folders = [written(tmp_path, 0), written(tmp_path, 1, scale=2.0)]
    assert all((folder / "job.yaml").is_file() for folder in folders)
    merge_tables(folders, tmp_path)
    job = read_document(tmp_path / "job.yaml").data
    assert (job["iteration_time"], job["timed_without_recording"]) == ("0.3 s", True)
    assert (tmp_path / "buckets.csv").read_text().splitlines()[1] == "0,65536,b a"
    assert len((tmp_path / "bucket_times.csv").read_text().splitlines()) == 1 + 12
    out = tmp_path / "mine.yaml"
    made = invoke(*["calibrate", "network", str(tmp_path / "collectives.csv"), "--out", str(out), "--no-figure"])
    assert made.exit_code == 0, made.output
    # 1 ms for 64 KiB, and in proportion: between two workers each link carries all of it once.
    network = load("ring_check", {"cluster": {"network": str(out)}}).cluster.network
    assert network.bandwidth == pytest.approx(2**16 / 1e-3, rel=0.01)


def test_another_average_than_all_reduce_gives_no_collectives(tmp_path):
    folders = [written(tmp_path, rank) for rank in range(2)]
    for folder in folders:
        (folder / "job.yaml").write_text((folder / "job.yaml").read_text().replace("all_reduce", "powerSGD_hook"))
    merge_tables(folders, tmp_path)
    assert not (tmp_path / "collectives.csv").exists()


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("bucket_times.csv", "65536", "many", "nbytes: expected a whole number, got 'many'"),
        ("bucket_times.csv", "0.001", "nan", "seconds, got 'nan'"),
        ("iterations.csv", "true", "maybe", "disturbed: expected true or false, got 'maybe'"),
        ("iterations.csv", "seconds", "time", "the columns iteration, seconds, disturbed"),
        ("job.yaml", "workers", "worker", "what describes the job, got no workers"),
    ],
)
def test_damaged_tables_are_input_errors(tmp_path, name, old, new, message):
    folders = [written(tmp_path, rank) for rank in range(2)]
    damaged = folders[0] / name
    damaged.write_text(damaged.read_text().replace(old, new))
    with pytest.raises(InputError, match=message):
        merge_tables(folders, tmp_path)
