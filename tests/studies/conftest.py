"""The sweep that the others are compared with."""

import pytest
from small_sweeps import results, swept, written


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """The sweep that the others are held against, run in this process without interruption."""
    folder = tmp_path_factory.mktemp("whole")
    path = written(folder)
    return path, swept(path, folder / "out"), results(folder / "out")
