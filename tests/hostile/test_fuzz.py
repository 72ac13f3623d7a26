# ruff: noqa: E501
"""Fuzzing of every reader, outside the default run: `pytest -m fuzz` damages 100,000 inputs.

SPARSIM_FUZZ_INPUTS and SPARSIM_FUZZ_SEED choose how many, and which others. A finding's input stays in the test's folder,
and goes to tests/corpus/READER once it is mended.
"""

import os

import pytest
from mutations import JUNK, mutated
from readers import readers
from runner import fuzz_all, shares

INPUTS = int(os.environ.get("SPARSIM_FUZZ_INPUTS", "100000"))
SEED = int(os.environ.get("SPARSIM_FUZZ_SEED", "1"))


@pytest.mark.fuzz
@pytest.mark.timeout(0)
def test_no_input_breaks_a_reader(tmp_path):
    found = fuzz_all(list(readers()), INPUTS, SEED, tmp_path, os.cpu_count() or 1)
    assert [f"{item['reader']} {item['input']}: {item['finding']}" for item in found] == []


def test_every_reader_gets_its_share():
    given = shares(list(readers()), 100_000)
    assert sum(given.values()) >= 100_000
    assert min(given.values()) >= 1000


def test_the_same_seed_does_the_same_damage():
    from random import Random

    made = [[mutated(b"a: 1\nb: [2, x]\n", Random(f"{i}"), b"c: 3\n") for i in range(200)] for _ in range(2)]
    assert made[0] == made[1]
    assert len(set(made[0])) > 150
    assert len(set(JUNK)) == len(JUNK)
