"""Invariants on random scenarios over all kinds of all families; `pytest -m fuzz` tries 20,000 of them.

SPARSIM_SCENARIOS and SPARSIM_FUZZ_SEED choose how many, and which others. `python tests/invariants/scenario_trial.py
smallest SEED NUMBER` makes a scenario in which something does not hold as small as it gets.
"""

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from invariants import predicted, validated
from once_failed import ONCE_FAILED
from random_scenarios import crowded, scenario
from scenario_trial import judged, smallest, tried

from simulator.prediction.run import run

SCENARIOS = int(os.environ.get("SPARSIM_SCENARIOS", "20000"))
SEED = int(os.environ.get("SPARSIM_FUZZ_SEED", "1"))
CHUNK = 250
VALID = 0.7
"""Fewer than this share of the scenarios are refused because their parts cannot work together."""


@settings(max_examples=10 * settings.default.max_examples)
@given(number=st.integers(0, 2**32))
def test_invariants_hold(number):
    made = judged(scenario(Random(number)), number)
    assert made is None or made[1] == []


@pytest.mark.parametrize("name", ONCE_FAILED)
def test_what_once_failed_holds(name):
    assert judged(ONCE_FAILED[name])[1] == []


@pytest.mark.parametrize("name", [name for name in ONCE_FAILED if name.startswith("kernels inside exchanges")])
def test_spans_of_unlike_workers_sum_to_the_breakdown(name):
    """Kernels of an exchange within the wait of each worker, and waits in which no exchange is under way, too."""
    spec = validated(ONCE_FAILED[name])
    made, seconds = run(spec, keep_iterations=True).iteration, Counter()
    for span in chain.from_iterable(map(made.spans_of, range(spec.cluster.workers))):
        if span.stream == "compute":
            seconds[span.term] += (span.end - span.start) / spec.cluster.workers
    assert {term: seconds[term] for term in made.breakdown} == pytest.approx(made.breakdown, rel=1e-6, abs=1e-12)


def test_most_random_scenarios_are_valid():
    made = [validated(scenario(Random(number))) for number in range(100)]
    assert sum(spec is not None and predicted(spec) is not None for spec in made) > 100 * VALID


@given(number=st.integers(0, 2**32))
def test_invariants_hold_where_everything_meets(number):
    """Servers, token buckets, other jobs and jitter together."""
    made = judged(crowded(Random(number)), number)
    assert made is None or made[1] == []


@pytest.mark.long
def test_neither_the_hash_seed_nor_the_compiled_loop_changes_a_digit():
    """With servers, token buckets, other jobs and jitter together."""
    first, broken = tried("crowded", 15, 15, "digests")
    second = tried("crowded", 15, 15, "digests", hash_seed=1, compiled=False)[0]
    assert broken == {}
    assert first == second
    assert len(first) > 15 * VALID


@pytest.mark.fuzz
@pytest.mark.timeout(0)
def test_invariants_hold_in_many_scenarios():
    chunks = range(0, SCENARIOS, CHUNK)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        made = list(pool.map(lambda first: tried(SEED, first, CHUNK), chunks))
        other = {"hash_seed": 1, "compiled": False}
        again = list(pool.map(lambda first: tried(SEED, first, CHUNK, "digests", **other), chunks))
    assert {number: found for _, findings in made for number, found in findings.items()} == {}
    assert [digests for digests, _ in made] == [digests for digests, _ in again]
    assert sum(len(digests) for digests, _ in made) > SCENARIOS * VALID


def test_a_scenario_is_made_as_small_as_it_still_fails():
    mapping = {"a": {"b": [1, 2, {"c": 3}], "d": 4}, "e": 5}
    assert smallest(mapping, lambda one: 2 in one.get("a", {}).get("b", [])) == {"a": {"b": [2]}}
