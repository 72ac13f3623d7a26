# ruff: noqa: E501
"""Fuzzing of every reader and command, outside the default run: `pytest -m fuzz` damages 100,000 and 5,000 inputs.

SPARSIM_FUZZ_INPUTS, SPARSIM_FUZZ_COMMANDS and SPARSIM_FUZZ_SEED choose how many, and which others. A finding's input stays in the test's folder,
and goes to tests/corpus/READER once it is mended.
"""

import os

import pytest
from commands import commands
from mutations import JUNK, mutated
from readers import prepared, readers
from runner import fuzz_all, shares

INPUTS = int(os.environ.get("SPARSIM_FUZZ_INPUTS", "100000"))
SLOW = ("sparsim_advise", "sparsim_plugin", "sparsim_calibrate_table")
COMMANDS = int(os.environ.get("SPARSIM_FUZZ_COMMANDS", "5000"))
SEED = int(os.environ.get("SPARSIM_FUZZ_SEED", "1"))


@pytest.mark.fuzz
@pytest.mark.timeout(0)
@pytest.mark.parametrize(("fuzzed", "count"), [(readers, INPUTS), (commands, COMMANDS)], ids=["readers", "commands"])
def test_no_input_breaks_a_reader_or_a_command(fuzzed, count, tmp_path):
    found = fuzz_all(list(fuzzed()), count, SEED, tmp_path, os.cpu_count() or 1)
    assert [f"{item['reader']} {item['input']}: {item['finding']}" for item in found] == []


@pytest.mark.parametrize("name", [name for name in commands() if name not in SLOW])
def test_every_command_takes_what_is_whole(name, tmp_path):
    """Otherwise its damaged inputs would all be refused at the first word."""
    reader = commands()[name]
    path = prepared(reader, tmp_path)
    path.write_bytes(reader.seeds[0])
    reader.read(path)


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
