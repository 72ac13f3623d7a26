"""Hashes and draws by counter against their definition with Python's whole numbers."""

import numpy as np
import pytest

from simulator.models.sampling import Purpose, draw_elements, draw_uniformly, random_stream, splitmix64

GOLDEN = 0x9E3779B97F4A7C15
"""2^64 over the golden ratio, the increment of SplitMix64."""


def mixed(value):
    """SplitMix64's finaliser (Steele, Lea and Flood 2014), with arithmetic modulo 2^64."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB % 2**64
    return value ^ (value >> 31)


def test_splitmix64_gives_the_numbers_that_its_authors_publish():
    """The first five numbers for the seed 1234567, as in Vigna's C code."""
    counters = [(1234567 + turn * GOLDEN) % 2**64 for turn in range(1, 6)]
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    assert splitmix64(np.array(counters, dtype=np.uint64)).tolist() == known
    assert [mixed(counter) for counter in counters] == known


@pytest.mark.parametrize(("seed", "iteration"), [(0, 0), (3, 0), (0, 7), (2**31 - 1, 1)])
def test_draws_count_on_from_seed_to_iteration_to_worker_to_coordinate(seed, iteration):
    """Each counter mixes in the next number plus one, times the increment; of 64 bits the first 53 make the draw."""

    def by_hand(*numbers):
        counter = 0
        for number in numbers:
            counter = mixed((counter + (number + 1) * GOLDEN) % 2**64)
        return (counter >> 11) / 2**53

    workers, places = np.array([0, 1, 5, 5]), np.array([4, 0, 0, 10**9])
    expected = [by_hand(seed, iteration, *pair) for pair in zip(workers.tolist(), places.tolist(), strict=True)]
    assert draw_uniformly(seed, iteration, workers, places).tolist() == expected


def test_streams_differ_in_seed_purpose_and_iteration_and_are_the_same_again():
    asked = [(0, Purpose.COMPUTE, 0), (1, Purpose.COMPUTE, 0), (0, Purpose.SELECTION, 0), (0, Purpose.COMPUTE, 1)]
    asked.append((0, Purpose.FAILURES, 0))
    first = [float(random_stream(*each).random()) for each in asked]
    assert (len(set(first)), first) == (len(asked), [float(random_stream(*each).random()) for each in asked])


def test_every_element_is_drawn_at_its_share_of_the_weights():
    """Weights 1, 3 and 4: shares up to 1/8 are the first, up to 1/2 the second, the rest the third."""

    class Draws:
        def random(self, count):
            return np.array([0.0, 0.124, 0.125, 0.499, 0.5, 1.0])[:count]

    assert draw_elements(np.array([1.0, 3.0, 4.0]), 6, Draws()).tolist() == [0, 0, 1, 1, 2, 2]
