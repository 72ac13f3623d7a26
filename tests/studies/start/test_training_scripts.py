"""Scripts that use torchft are parsed, not run."""

import pytest

from simulator.errors import InputError
from simulator.studies.start.training_files import read_schedule


def read(tmp_path, text):
    (tmp_path / "train.py").write_text(text)
    return read_schedule(tmp_path / "train.py")


def test_the_arguments_of_torchft_become_a_scheduler(tmp_path):
    call = "DiLoCo(manager, [a, b], inner, outer, sync_every=20, fragment_sync_delay=5, fragment_update_alpha=0.5)"
    made = read(tmp_path, f"raise SystemExit('this is never run')\nwith {call} as d:\n    pass\n").scheduler
    assert (made.kind, made.fragments, made.between, made.delay, made.mixing) == ("streaming_diloco", 2, 10, 5, 0.5)


def test_positions_and_buckets_count(tmp_path):
    text = "local_sgd.DiLoCo(m, [model], inner, outer, 100, use_bucketization=True, bucket_cap_mb=32)\n"
    made = read(tmp_path, text)
    assert (made.scheduler.kind, made.scheduler.inner_steps, made.scheduler.bucket_size) == ("diloco", 100, 32 * 2**20)
    assert "buckets" in made.text()
    assert read(tmp_path, "LocalSGD(manager, model, optimizer, 7)\n").scheduler.described()["inner_steps"] == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "one call of DiLoCo or LocalSGD, got none"),
        ("LocalSGD(m, n, o, 3)\nLocalSGD(m, n, o, 4)\n", "got 2 in lines 1, 2"),
        ("LocalSGD(m, n, o, steps)\n", "train.py:1: sync_every: expected a number .* got steps: the script is not run"),
        ("DiLoCo(m, list(parts), i, o, 20)\n", r"model_fragments: expected a list that is written out"),
        ("DiLoCo(m, [a], i, o)\n", "sync_every in the call"),
        ("DiLoCo(m, [a, b, c], i, o, 20)\n", "a multiple of the 3 fragments"),
        ("def f(:\n", "train.py:1: expected a script of Python"),
        ("LocalSGD(m, n, o, 0)\n", "greater than or equal to 1|at least 1"),
        ("f(" * 5000 + ")" * 5000, "a script of Python"),
    ],
    ids=range(9),
)
def test_what_cannot_be_read_is_refused_with_its_place(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, text)
