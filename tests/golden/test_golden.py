"""No scenario and no sparsifier gives anything else than it gave; if it should: `python tests/golden.py --accept`."""

import json
import os
import subprocess
import sys

import pytest
from golden import FOLDER, NAMES, VALIDATION, changes, exact, moved

LARGE = ("failover", "priority_p3", "ps_colocated", "two_jobs")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.long if n in LARGE else ()) for n in NAMES if n != VALIDATION]
)
def test_nothing_has_moved(name):
    lines = changes(name)
    assert not lines, "\n".join([*lines, "if this is meant: python tests/golden.py --accept"])


def test_another_process_with_another_hash_seed_gives_the_same_bytes():
    """.ci/run holds everything against processes of its own, with seeds of theirs."""
    code = "import golden; print(golden.exact(['straggler']), end='')"
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    made = subprocess.check_output([sys.executable, "-c", code], cwd=FOLDER.parent, env=environment, text=True)
    assert made == exact(["straggler"])


def test_no_golden_file_is_left_of_a_scenario_that_is_gone():
    assert {path.stem for path in FOLDER.glob("*.json")} == set(NAMES)


def test_what_moves_is_named_with_both_values_and_by_how_much():
    before = {"a": {"time_s": 2.0, "same": 1}, "list": [1, 2], "text": "x", "gone": 0}
    after = json.loads(json.dumps({"a": {"time_s": 2.1, "same": 1 + 1e-12}, "list": [1, 3], "text": "y"}))
    assert list(moved(before, after)) == [
        "a.time_s: 2 -> 2.1 (+5 %)",
        "list[1]: 2 -> 3 (+50 %)",
        "text: 'x' -> 'y'",
        "gone: 0 -> None",
    ]
