"""Classes of messages are remembered by what they depend on, and by nothing else."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from examples import switch
from simulator.engine.rounds import equivalence_classes
from simulator.engine.rounds.equivalence_classes import classify, structure, structures
from simulator.engine.rounds.link_sharing import MaxMinRates
from simulator.models.exchange import Round
from simulator.records import replace


def classes_of(wiring, nbytes=(1e6, 1e6, 2e6)):
    rounds = [Round(np.array([0, 1, 2]), np.array([1, 2, 0]), np.array([nbytes]))]
    return classify([structure(rounds)[0]], wiring.route, np.zeros(len(wiring.node)), wiring.capacity)


def test_another_bandwidth_or_payload_has_the_same_classes():
    wiring = switch(3, 1, 1e9, 1e-5)
    first = classes_of(wiring)
    assert classes_of(switch(3, 1, 7e9, 1e-5)) is first
    assert classes_of(wiring, (3e6, 3e6, 6e6)) is first


def test_another_latency_proportion_or_pattern_of_capacities_has_classes_of_its_own():
    wiring = switch(3, 1, 1e9, 1e-5)
    capacity = wiring.capacity.copy()
    capacity[0] /= 2
    first, others = classes_of(wiring), [classes_of(switch(3, 1, 1e9, 2e-5)), classes_of(wiring, (1e6, 2e6, 2e6))]
    others.append(classes_of(replace(wiring, capacity=capacity)))
    assert all(each is not first for each in others)
    assert next(iter(others[0].programmes.values())).rounds[0][0][0].latency == 2e-5


def test_large_classes_are_not_remembered(monkeypatch):
    for name in ("_MOST_BYTES", "_SMALL_BYTES"):
        monkeypatch.setattr(equivalence_classes, name, 100)
    wiring = switch(3, 1, 1e9, 3e-5)
    first, again = classes_of(wiring), classes_of(wiring)
    assert again is not first
    assert again.programmes == first.programmes


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0, 2.0, 3.5]), min_size=3, max_size=3), min_size=1, max_size=6))
def test_payloads_have_the_structures_that_they_have_one_by_one(nbytes):
    rounds = [Round(np.arange(3), (np.arange(3) + 1) % 3, np.array(nbytes), repeat) for repeat in (1, 4)]
    assert structures(rounds) == [structure(rounds, row) for row in range(len(nbytes))]


def test_the_memory_of_rates_is_bounded_by_bytes(monkeypatch):
    types = 50
    order = np.arange(types)
    rates = MaxMinRates(np.ones(types), order, order, np.ones(types), np.full(types, np.inf), np.zeros(types))
    monkeypatch.setattr("simulator.engine.rounds.link_sharing._REMEMBERED", 10 * 2 * 8 * types)
    for number in range(100):
        rates.rates(np.full(types, float(number)))
        assert len(rates._known) <= 10
    assert len(rates._known) > 1
