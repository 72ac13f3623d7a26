"""Inputs as people bring them come to the figures that were worked out by hand, and so do not their mutations.

`pytest -m fuzz tests/hostile/test_expected.py` damages each of them, 20,000 in all: SPARSIM_FUZZ_INPUTS and
SPARSIM_FUZZ_SEED choose how many, and which others.
"""

import os
from random import Random

import pytest
from expected import CASES, FIGURES, FILES, case_readers, whole
from judge import judged
from mutations import mutated
from runner import fuzz_all

from simulator.errors import InputError

INPUTS = int(os.environ.get("SPARSIM_FUZZ_INPUTS", "20000"))
SEED = int(os.environ.get("SPARSIM_FUZZ_SEED", "1"))


@pytest.mark.parametrize("name", CASES)
def test_what_was_worked_out_by_hand_comes_of_it(name, tmp_path):
    case = CASES[name]
    path = tmp_path / FILES[case.kind]
    path.write_bytes(case.data)
    if isinstance(case.expected, str):
        with pytest.raises(InputError) as caught:
            whole(case.kind, path)
        assert case.expected in str(caught.value)
        return
    found = FIGURES[case.kind](path)
    if case.kind == "training":
        program, lines = case.expected
        assert (found[0], {key: found[1].get(key) for key in lines}) == (program, lines)
    else:
        assert found == case.expected
    whole(case.kind, path)


def test_the_inputs_are_many_and_small():
    assert len(CASES) >= 60
    assert sum(len(case.data) for case in CASES.values()) < 300_000


@pytest.mark.parametrize("name", CASES)
def test_damage_breaks_nothing(name, tmp_path):
    """A few of the mutations of each."""
    reader = case_readers()[f"case_{name}"]
    path = tmp_path / reader.name
    for number in range(5):
        path.write_bytes(mutated(reader.seeds[0], Random(f"{name} {SEED} {number}"), reader.seeds[0]))
        assert judged(reader, path)[1] == ""


@pytest.mark.fuzz
@pytest.mark.timeout(0)
def test_twenty_thousand_mutations_break_nothing(tmp_path):
    found = fuzz_all(list(case_readers()), INPUTS, SEED, tmp_path, os.cpu_count() or 1)
    assert [f"{item['reader']} {item['input']}: {item['finding']}" for item in found] == []
