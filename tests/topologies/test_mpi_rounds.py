"""MPI's algorithms in rounds and bytes: closed forms, and which block of the payload every worker has in the end."""

from math import ceil, floor, log2

import numpy as np
import pytest

from simulator.models.exchange import Layout
from simulator.topologies.mpi_algorithms import ALGORITHMS, binary_parents, chain_parents, knomial_parents

SIZE = 960.0
COUNTS = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 31, 32]


def rounds_of(primitive, name, workers):
    return ALGORITHMS[primitive][name](np.array([SIZE]), Layout(workers, 1))


def carried(rounds, workers):
    """Bytes that came to each worker, and that left it."""
    came, left = np.zeros(workers), np.zeros(workers)
    for item in rounds:
        np.add.at(came, item.dst, item.repeat * item.nbytes[0])
        np.add.at(left, item.src, item.repeat * item.nbytes[0])
    return came, left


def digits(number, base):
    """Digits of a number that are not 0."""
    return 0 if number == 0 else (number % base > 0) + digits(number // base, base)


LEVELS = {
    "chain": lambda p: ceil((p - 1) / 4),  # four chains
    "pipeline": lambda p: p - 1,
    "binary": lambda p: floor(log2(p)),
    "knomial": lambda p: max(digits(worker, 4) for worker in range(p)),
    "binomial": lambda p: max(digits(worker, 2) for worker in range(p)),
    "linear": lambda p: min(1, p - 1),
}


@pytest.mark.parametrize("workers", COUNTS)
@pytest.mark.parametrize("name", LEVELS)
def test_a_broadcast_down_a_tree_brings_the_payload_once_to_all_one_round_for_a_level(name, workers):
    rounds = rounds_of("broadcast", name, workers)
    assert sum(item.repeat for item in rounds) == LEVELS[name](workers)
    assert all(len(item.src) for item in rounds)
    assert carried(rounds, workers)[0].tolist() == [0] + [SIZE] * (workers - 1)
    has = {0}
    for item in rounds:
        assert has.issuperset(item.src.tolist())
        has.update(item.dst.tolist())


@pytest.mark.parametrize("workers", COUNTS)
def test_a_reduce_up_a_tree_takes_every_sum_once(workers):
    """Nobody sends before all workers below have; worker 0 has the binomial children 1, 2, 4, ... in this order."""
    levels = {**LEVELS, "linear": lambda p: p - 1, "binomial": lambda p: ceil(log2(p))}
    for name in ("chain", "pipeline", "binary", "binomial", "linear"):
        rounds, sent = rounds_of("reduce", name, workers), set()
        assert sum(item.repeat for item in rounds) == levels[name](workers)
        assert carried(rounds, workers)[1].tolist() == [0] + [SIZE] * (workers - 1)
        for item in rounds:
            assert sent.isdisjoint([*item.src.tolist(), *item.dst.tolist()])
            sent.update(item.src.tolist())
    binomial = [item.src[item.dst == 0].tolist() for item in rounds_of("reduce", "binomial", workers)]
    assert binomial == [[2**level] for level in range(len(binomial))]
    linear = [item.src.tolist() for item in rounds_of("reduce", "linear", workers)]
    assert linear == [[worker] for worker in range(workers - 1, 0, -1)]


@pytest.mark.parametrize("workers", COUNTS)
def test_parents_in_the_trees(workers):
    """Chains of almost equal length, the first ones longer; the k-nomial parent lacks the last digit that is not 0.

    In the binary tree of Open MPI the children of worker i of a level of 2^k are i + 2^k and i + 2^(k+1).
    """
    number, chain = 1, [0] * (workers - 1)
    for place in range(min(4, workers - 1)):
        for step in range((workers - 1) // 4 + (place < (workers - 1) % 4) if workers > 4 else 1):
            chain[number - 1] = 0 if step == 0 else number - 1
            number += 1
    assert chain_parents(workers).tolist() == chain
    below: dict[int, int] = {}
    level = [0]
    while level[-1] < workers:
        for parent in level:
            below |= {parent + len(level): parent, parent + 2 * len(level): parent}
        level = [*range(2 * level[0] + 1, 2 * level[-1] + 3)]
    assert binary_parents(workers).tolist() == [below[worker] for worker in range(1, workers)]
    parents = []
    for worker in range(1, workers):
        unit = 1
        while worker % (4 * unit) == 0:
            unit *= 4
        parents.append(worker - worker // unit % 4 * unit)
    assert knomial_parents(workers).tolist() == parents


@pytest.mark.parametrize("workers", [2, 3, 4, 5, 6, 7, 8, 9, 12, 16])
def test_rabenseifner_s_reduce_halves_and_gathers(workers):
    """Halves of what is left are swapped down to a part each, and the parts go up a tree to worker 0.

    Workers beyond a power of two first hand all they have to a partner, in halves, and are through with that.
    """
    rounds, power = rounds_of("reduce", "rabenseifner", workers), 2 ** floor(log2(workers))
    levels, extra = int(log2(power)), workers > power
    before = rounds[: len(rounds) - 2 * levels]
    assert bool(before) == extra
    parts = [item.nbytes[0].tolist() for item in rounds[len(before) :]]
    halving = [[SIZE / 2**level] * power for level in range(1, levels + 1)]
    gathering = [[SIZE * 2**level / power] * (power // 2 ** (level + 1)) for level in range(levels)]
    assert parts == [pytest.approx(part) for part in halving + gathering]
    has = {w: {w} for w in range(workers)}  # workers whose blocks went up to each
    members = sorted(set(rounds[-1 - levels].src.tolist())) if levels else [0]
    assert len(members) == power
    for item in rounds[len(rounds) - levels :]:
        for a, b in zip(item.src.tolist(), item.dst.tolist(), strict=True):
            has[b] |= has.pop(a)
    assert has[0] == set(members)


@pytest.mark.parametrize("workers", COUNTS)
@pytest.mark.parametrize("name", ["scatter_all_gather", "scatter_ring_all_gather"])
def test_a_scattered_broadcast_gathers_a_part_from_every_worker(name, workers):
    """Down a binomial tree, then p - 1 parts more for each: doubling for powers of two, else a ring."""
    rounds = rounds_of("broadcast", name, workers)
    doubling = name == "scatter_all_gather" and workers & (workers - 1) == 0
    gather = [[SIZE / workers * 2**level] * workers for level in range(int(log2(workers)))]
    if not doubling:
        gather = [[SIZE / workers] * workers] * (workers - 1)
    rounds = [item for item in rounds for _ in range(item.repeat)]
    scattered = rounds[: len(rounds) - len(gather)]
    assert len(scattered) == max(digits(worker, 2) for worker in range(workers))
    assert [item.nbytes[0].tolist() for item in rounds[len(scattered) :]] == [pytest.approx(part) for part in gather]
    came, left = carried(scattered, workers)
    np.testing.assert_allclose((came - left)[1:], SIZE / workers)


@pytest.mark.parametrize("workers", COUNTS)
def test_a_split_broadcast_swaps_halves_between_both_sides(workers):
    """Workers 1 and 2, 3 and 4, ... swap; a last one without partner gets its other half from worker 0."""
    rounds = rounds_of("broadcast", "split_binary", workers)
    assert len(rounds) == floor(log2(workers)) + (workers > 1)
    assert carried(rounds, workers)[0].tolist() == [0] + [SIZE] * (workers - 1)
    if workers > 1:
        pairs = {(w, w + 1 if w % 2 else w - 1) for w in range(1, workers - (workers + 1) % 2)}
        alone = set() if workers % 2 else {(0, workers - 1)}
        assert set(zip(rounds[-1].src.tolist(), rounds[-1].dst.tolist(), strict=True)) == pairs | alone
        assert set(rounds[-1].nbytes[0].tolist()) == {SIZE / 2}


@pytest.mark.parametrize("workers", COUNTS)
@pytest.mark.parametrize("name", ["bruck", "neighbor", "recursive_doubling", "ring"])
def test_a_gather_has_the_rounds_of_its_algorithm_and_brings_every_block_once(name, workers):
    """Blocks are powers of two: the sum of those that came says which they are. Powers of two double; others: Bruck."""
    sizes = 2.0 ** np.arange(workers)
    rounds = ALGORITHMS["all_gather"][name](sizes[None], Layout(workers, 1))
    counts = {"bruck": ceil(log2(workers)), "neighbor": workers // 2, "ring": workers - 1}
    if workers % 2:
        counts["neighbor"] = workers - 1  # a ring
    assert sum(item.repeat for item in rounds) == counts.get(name, ceil(log2(workers)))
    came = np.zeros(workers)
    for item in rounds:
        np.add.at(came, item.dst, item.repeat * item.nbytes[0])
    np.testing.assert_array_equal(came, sizes.sum() - sizes)
