"""The inputs that once broke a reader, or might: each is read or refused in words, in seconds and little memory.

`python tests/hostile/test_corpus.py` writes down anew which of them are valid.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

JUDGE = Path(__file__).parent / "judge.py"
CORPUS = Path(__file__).parents[1] / "corpus"
OUTCOMES = CORPUS / "outcomes.txt"
pytestmark = pytest.mark.long


def judgements():
    """What the judge says about every file, in a process that may die."""
    command = [sys.executable, str(JUDGE), "corpus", str(CORPUS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"{lines[-1:]} {done.stderr[-3000:]}"
    return {item["input"]: item for item in lines}


def outcomes(judged):
    return "".join(f"{name} {'valid' if item['outcome'] == 'valid ' else 'refused'}\n" for name, item in judged.items())


@pytest.fixture(scope="module")
def judged():
    return judgements()


def test_nothing_in_the_corpus_breaks_a_reader(judged):
    assert {name: item["finding"] for name, item in judged.items() if item["finding"]} == {}


def test_what_is_valid_stays_valid_and_the_rest_is_refused(judged):
    assert outcomes(judged) == OUTCOMES.read_text()


def test_byte_order_marks_and_line_ends_do_not_matter(judged):
    """Text that a Windows editor saved is the same text."""
    names = [name for name in judged if name.endswith(("/byte-order-mark", "/crlf"))]
    assert len(names) > 20
    assert {name: judged[name]["outcome"] for name in names if judged[name]["outcome"] != "valid "} == {}


if __name__ == "__main__":
    OUTCOMES.write_text(outcomes(judgements()))
