"""Checkpoints: written whole, read without running anything."""

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.training.checkpoints import CHECKPOINT_FILE, read_checkpoint, write_checkpoint

CONTENT = {
    "points": [[0, 1.5, float("nan")], []],
    "method": {"residual": np.arange(6, dtype=np.float32).reshape(2, 3), "q": {3: np.ones(2)}, "threshold": 0.1 + 0.2},
    "borders": np.arange(3),
    "counts": [np.float64(0.1), 2],
    "none": None,
}


def test_everything_comes_back_with_its_type(tmp_path):
    assert read_checkpoint(tmp_path) is None
    write_checkpoint(tmp_path, {})
    write_checkpoint(tmp_path, CONTENT)
    back = read_checkpoint(tmp_path)
    np.testing.assert_equal(back, CONTENT)
    assert back["method"]["residual"].dtype == np.float32 and back["method"]["threshold"] == 0.1 + 0.2
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT_FILE]


@pytest.mark.parametrize("cut", [0, 10, 200])
def test_a_damaged_checkpoint_is_an_input_error(tmp_path, cut):
    write_checkpoint(tmp_path, CONTENT)
    path = tmp_path / CHECKPOINT_FILE
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(InputError, match=CHECKPOINT_FILE):
        read_checkpoint(tmp_path)


def test_pickled_objects_are_refused(tmp_path):
    np.savez(tmp_path / CHECKPOINT_FILE, content=np.array([{}], dtype=object))
    with pytest.raises(InputError, match=CHECKPOINT_FILE):
        read_checkpoint(tmp_path)
