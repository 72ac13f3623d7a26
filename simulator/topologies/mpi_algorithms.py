"""Algorithms of MPI libraries as rounds of messages, and which of them Open MPI and MPICH choose."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from simulator.models.curves import Floats
from simulator.models.exchange import Ints, Layout, Round, binomial_reduce, send
from simulator.models.limits import refuse_messages
from simulator.topologies.all_to_all import AllToAll
from simulator.topologies.base import Rounds, ring_gather
from simulator.topologies.halving_doubling import HalvingDoubling, doubling, split_into_pairs
from simulator.topologies.recursive_doubling import RecursiveDoubling
from simulator.topologies.ring import Ring
from simulator.topologies.tree import Tree

CHAINS = 4
"""Chains of a broadcast or reduce by chains (coll_tuned_bcast_algorithm_chain_fanout, Open MPI 4.1)."""
RADIX = 4
"""Of the k-nomial tree (coll_tuned_bcast_knomial_radix, Open MPI 4.1)."""

Algorithm = Callable[[Floats, Layout], Rounds]
"""Rounds of payloads (b,), or (b, p) of an all-gather. Trees are those of Open MPI, rooted at worker 0, which serves
all children at once (ompi/mca/coll/base/coll_base_topo.c, v4.1, 2020)."""


def chain_parents(workers: int, chains: int = CHAINS) -> Ints:
    """The parent of workers 1 ... p-1 in `chains` chains of almost equal length; the first ones are longer."""
    lengths = [len(part) for part in np.array_split(np.arange(workers - 1), min(chains, max(1, workers - 1)))]
    heads = np.cumsum([1, *lengths])[:-1]
    parents = np.arange(workers - 1)
    parents[heads[heads < workers] - 1] = 0
    return parents


def binary_parents(workers: int) -> Ints:
    """The parent of workers 1 ... p-1: worker i of level k is below worker i modulo 2^(k-1) of level k-1."""
    numbers = np.arange(1, workers)
    level = np.log2(numbers + 1).astype(np.int64)
    above = 2 ** (level - 1)
    parents: Ints = (numbers - (2 * above - 1)) % above + above - 1
    return parents


def knomial_parents(workers: int, radix: int = RADIX) -> Ints:
    """The parent of workers 1 ... p-1: the number without its last digit that is not 0, to the base `radix`."""
    numbers, digit = np.arange(1, workers), 1
    parents = np.full(workers - 1, -1)
    while (parents < 0).any():
        found = (parents < 0) & (numbers % (digit * radix) != 0)
        parents[found] = numbers[found] // (digit * radix) * (digit * radix)
        digit *= radix
    return parents


def down(parents: Ints, nbytes: Floats) -> Rounds:
    """Broadcast down the tree with these parents of workers 1 ... p-1, to all children at once; one round a level."""
    depth = [0]
    for parent in parents.tolist():
        depth.append(depth[parent] + 1)
    levels = [np.flatnonzero(np.array(depth) == level) for level in range(1, max(depth) + 1)]
    return [send(parents[children - 1], children, nbytes[:, None]) for children in levels]


def up(parents: Ints, nbytes: Floats) -> Rounds:
    """Reduce up the same tree."""
    return [item.backwards() for item in reversed(down(parents, nbytes))]


def linear_reduce(nbytes: Floats, layout: Layout) -> Rounds:
    """Worker 0 receives from one worker after the other, the last one first (coll_base_reduce.c)."""
    root = np.zeros(1, dtype=np.int64)
    return [Round(np.array([child]), root, nbytes[:, None]) for child in range(layout.workers - 1, 0, -1)]


def halving_reduce(nbytes: Floats, layout: Layout) -> Rounds:
    """Rabenseifner's reduce: reduce-scatter by halving, then a gather to worker 0 up a binomial tree."""
    members, _ = split_into_pairs(layout.workers)
    gather, distance = [], len(members) // 2
    share = nbytes / len(members)
    while distance:
        receivers = np.arange(distance)
        size = share * (len(members) // (2 * distance))
        gather.append(send(members[receivers + distance], members[receivers], size[:, None]))
        distance //= 2
    whole = HalvingDoubling().all_reduce(nbytes, layout)
    return whole[: len(whole) - len(doubling(members, share[:, None])) - (len(members) < layout.workers)] + gather


def scatter(nbytes: Floats, layout: Layout) -> Rounds:
    """A p-th of worker 0's payload to each worker, down a binomial tree: first half of it to the middle, and so on."""
    workers = np.arange(1, layout.workers)
    parents, lowest = workers & (workers - 1), workers & -workers
    share = np.minimum(lowest, layout.workers - workers) / layout.workers  # of the workers below each, with itself
    return [Round(item.src, item.dst, item.nbytes * share[item.dst - 1]) for item in down(parents, nbytes)]


def scatter_all_gather(nbytes: Floats, layout: Layout) -> Rounds:
    """Broadcast: scatter, then gather the parts by doubling, or on a ring where p is no power of two."""
    p = layout.workers
    if p & (p - 1):
        return scatter_ring_all_gather(nbytes, layout)
    return scatter(nbytes, layout) + doubling(np.arange(p), nbytes[:, None] / p)


def scatter_ring_all_gather(nbytes: Floats, layout: Layout) -> Rounds:
    """Broadcast: scatter, then gather the parts on a ring (van de Geijn 1994)."""
    p = layout.workers
    return scatter(nbytes, layout) + ring_gather(np.arange(p), np.repeat(nbytes[:, None] / p, p, axis=1))


def split_binary_broadcast(nbytes: Floats, layout: Layout) -> Rounds:
    """Half of the payload down each side of a binary tree; then workers of the two sides swap halves.

    A last worker without partner gets its other half from worker 0.
    """
    p = layout.workers
    left = np.arange(1, p - 1, 2)
    alone = np.arange(1, p)[len(left) * 2 :]
    src, dst = np.concatenate([left, left + 1, 0 * alone]), np.concatenate([left + 1, left, alone])
    swap = [send(src, dst, nbytes[:, None] / 2)] if p > 1 else []
    return down(binary_parents(p), nbytes / 2) + swap


def bruck_all_gather(nbytes: Floats, layout: Layout) -> Rounds:
    """Every worker sends all it has to the one `distance` before it, distance 1, 2, 4, ...: ceil(log2 p) rounds."""
    p, rounds, distance = layout.workers, [], 1
    workers = np.arange(p)
    before = np.cumsum(np.concatenate([np.zeros((len(nbytes), 1)), nbytes, nbytes], axis=1), axis=1)
    while distance < p:
        sums = before[:, workers + min(distance, p - distance)] - before[:, workers]
        rounds.append(Round(workers, (workers - distance) % p, sums))
        distance *= 2
    return rounds


def neighbor_all_gather(nbytes: Floats, layout: Layout) -> Rounds:
    """Neighbours to both sides swap in turn the two blocks that came last: p/2 rounds; a ring for odd p."""
    p = layout.workers
    if p % 2:
        return Ring().all_gather(nbytes, layout)
    refuse_messages(p * p // 2)
    workers, pairs = np.arange(p), np.arange(p) // 2
    sums = nbytes[:, ::2] + nbytes[:, 1::2]
    rounds = [Round(workers, workers ^ 1, nbytes)]
    sides = [(workers + np.where(workers % 2 == side, 1, -1)) % p for side in (0, 1)]
    for number in range(1, p // 2):
        partner = sides[number % 2]
        rounds.append(Round(workers, partner, sums[:, pairs]))
        pairs = pairs[partner]
    return rounds


def doubling_all_gather(nbytes: Floats, layout: Layout) -> Rounds:
    """Recursive doubling; Bruck's algorithm where the number of workers is no power of two."""
    if layout.workers & (layout.workers - 1):
        return bruck_all_gather(nbytes, layout)
    return HalvingDoubling().all_gather(nbytes, layout)


_AT_ONCE = Tree(children="at_once")
ALGORITHMS: dict[str, dict[str, Algorithm]] = {
    "all_reduce": {
        "linear": lambda nbytes, layout: linear_reduce(nbytes, layout) + AllToAll().broadcast(nbytes, layout),
        "reduce_broadcast": lambda nbytes, layout: binomial_reduce(nbytes, layout) + _AT_ONCE.broadcast(nbytes, layout),
        "recursive_doubling": RecursiveDoubling().all_reduce,
        "ring": Ring().all_reduce,
        "segmented_ring": Ring().all_reduce,  # segments of 0 bytes, the default, are the whole
        "rabenseifner": HalvingDoubling().all_reduce,
    },
    "broadcast": {
        "linear": AllToAll().broadcast,
        "chain": lambda nbytes, layout: down(chain_parents(layout.workers), nbytes),
        "pipeline": lambda nbytes, layout: down(chain_parents(layout.workers, 1), nbytes),
        "binary": lambda nbytes, layout: down(binary_parents(layout.workers), nbytes),
        "split_binary": split_binary_broadcast,
        "binomial": _AT_ONCE.broadcast,
        "knomial": lambda nbytes, layout: down(knomial_parents(layout.workers), nbytes),
        "scatter_all_gather": scatter_all_gather,
        "scatter_ring_all_gather": scatter_ring_all_gather,
    },
    "reduce": {
        "linear": linear_reduce,
        "chain": lambda nbytes, layout: up(chain_parents(layout.workers), nbytes),
        "pipeline": lambda nbytes, layout: up(chain_parents(layout.workers, 1), nbytes),
        "binary": lambda nbytes, layout: up(binary_parents(layout.workers), nbytes),
        "binomial": binomial_reduce,
        "rabenseifner": halving_reduce,
    },
    "reduce_scatter": {
        "reduce_scatterv": Tree().reduce_scatter,
        "recursive_halving": HalvingDoubling().reduce_scatter,
        "ring": Ring().reduce_scatter,
        "pairwise": AllToAll().reduce_scatter,
    },
    "all_gather": {
        "bruck": bruck_all_gather,
        "recursive_doubling": doubling_all_gather,
        "ring": Ring().all_gather,
        "neighbor": neighbor_all_gather,
    },
}
"""The rounds of each algorithm, by primitive. Algorithms of equal rounds have one name: butterfly is recursive
halving, and its in-order binary tree a binary tree."""


Library = Literal["open_mpi", "mpich"]
"""Open MPI: ompi/mca/coll/tuned/coll_tuned_decision_fixed.c, v4.1 (2020) and v5.0, for operations that commute:
averages of measurements on several clusters. MPICH: src/mpi/coll, v3.4 (2021), with the switch points of its control
variables (MPIR_CVAR_ALLREDUCE_SHORT_MSG_SIZE and others); its rules are those of Thakur, Rabenseifner and Gropp (2005).
"""


class Rule(NamedTuple):
    """For fewer than `workers`: the algorithm below each of `bounds` (bytes, rising), and the one from the last on."""

    workers: float
    bounds: tuple[int, ...]
    algorithms: tuple[str, ...]


def _rules(text: str) -> dict[str, list[Rule]]:
    """The rules of each primitive, one a line: the workers, and the algorithms with the bound between each two."""
    made = defaultdict[str, list[Rule]](list)
    for primitive, workers, *words in map(str.split, text.splitlines()):
        made[primitive].append(Rule(float(workers), tuple(map(int, words[1::2])), tuple(words[::2])))
    return dict(made)


_OPEN_MPI = _rules("""\
all_reduce 4 ring 8 recursive_doubling 4096 ring 8192 recursive_doubling 16384 ring 65536 segmented_ring 262144 \
    rabenseifner
all_reduce 8 ring 16 recursive_doubling 8192 rabenseifner
all_reduce 16 recursive_doubling 8192 rabenseifner
all_reduce 32 segmented_ring 64 recursive_doubling 4096 rabenseifner
all_reduce 64 segmented_ring 128 rabenseifner
all_reduce 128 recursive_doubling 262144 rabenseifner
all_reduce 256 reduce_broadcast 131072 recursive_doubling 262144 rabenseifner
all_reduce 512 reduce_broadcast 4096 rabenseifner
all_reduce 2048 reduce_broadcast 2048 recursive_doubling 16384 rabenseifner
all_reduce 4096 reduce_broadcast 2048 segmented_ring 4096 recursive_doubling 16384 rabenseifner
all_reduce inf reduce_broadcast 2048 segmented_ring 16384 recursive_doubling 32768 rabenseifner
broadcast 4 pipeline 32 binary 256 pipeline 512 knomial 1024 linear 32768 binary 131072 chain 262144 linear 524288 \
    binomial 1048576 binary
broadcast 8 binary 64 binomial 128 binary 2048 binomial 8192 linear 1048576 chain
broadcast 16 knomial 8 binary 64 knomial 4096 binary 16384 binomial 32768 linear
broadcast 32 knomial 4096 binomial 1048576 scatter_all_gather
broadcast 64 binomial 2048 knomial
broadcast 128 knomial
broadcast 256 binomial 2 binary 16384 linear 32768 binary 65536 knomial
broadcast 1024 knomial 16384 split_binary 32768 knomial
broadcast 2048 knomial 524288 scatter_all_gather
broadcast 4096 knomial 262144 scatter_all_gather
broadcast inf knomial 8192 binary 16384 knomial 262144 scatter_all_gather
reduce 4 rabenseifner 8 binary 16 pipeline 32 linear 262144 pipeline 524288 chain 1048576 pipeline
reduce 8 binary 4096 chain 65536 binomial 262144 linear 524288 binomial 1048576 linear
reduce 16 binary 8192 binomial
reduce 32 binary 4096 binomial
reduce 256 binomial
reduce 512 binomial 8192 binary 16384 binomial
reduce 2048 binomial
reduce 4096 binomial 512 binary 1024 binomial 8192 binary 16384 binomial
reduce inf binomial 16 binary 32 binomial 1024 binary 2048 binomial 8192 binary 16384 binomial
reduce_scatter 4 ring 65536 recursive_halving 131072 ring
reduce_scatter 8 reduce_scatterv 8 recursive_halving 262144 ring
reduce_scatter 32 recursive_halving 262144 ring
reduce_scatter 64 reduce_scatterv 64 recursive_halving 524288 ring
reduce_scatter 512 reduce_scatterv 256 recursive_halving
reduce_scatter 4096 reduce_scatterv 512 recursive_halving
reduce_scatter inf reduce_scatterv 1024 recursive_halving
all_gather 32 recursive_doubling
all_gather 64 recursive_doubling 1024 neighbor 65536 ring
all_gather 128 recursive_doubling 512 neighbor 65536 ring
all_gather 256 recursive_doubling 512 neighbor 131072 ring 524288 neighbor 1048576 ring
all_gather 512 recursive_doubling 32 bruck 128 recursive_doubling 1024 neighbor 131072 ring 524288 neighbor 1048576 ring
all_gather 1024 recursive_doubling 64 bruck 256 recursive_doubling 2048 neighbor
all_gather 2048 recursive_doubling 4 bruck 8 recursive_doubling 16 bruck 32 recursive_doubling 256 bruck 512 \
    recursive_doubling 4096 neighbor
all_gather 4096 bruck 32 recursive_doubling 128 bruck 512 recursive_doubling 4096 neighbor
all_gather inf recursive_doubling 2 bruck 8 recursive_doubling 16 bruck 512 recursive_doubling 4096 neighbor
""")
_MPICH = _rules("""\
all_reduce inf recursive_doubling 2049 rabenseifner
broadcast 8 binomial
broadcast inf binomial 12288 scatter_all_gather 524288 scatter_ring_all_gather
reduce inf binomial 2049 rabenseifner
reduce_scatter inf recursive_halving 524288 pairwise
all_gather inf recursive_doubling 524288 ring
""")
_MPICH_OTHER_COUNTS = _rules("""\
broadcast 8 binomial
broadcast inf binomial 12288 scatter_ring_all_gather
all_gather inf bruck 81920 ring
""")
"""Where the number of workers is no power of two."""


def choose(library: Library, primitive: str, nbytes: Floats, workers: int) -> list[str]:
    """The algorithm of each payload (b,): bytes of the vector, of all parts together for gathers and scatters.

    Open MPI decides on a gather by the bytes of one worker, MPICH by those of all.
    """
    power = workers & (workers - 1) == 0
    if library == "mpich":
        rules = (_MPICH if power else _MPICH | _MPICH_OTHER_COUNTS)[primitive]
    else:
        rules = _OPEN_MPI[primitive]
    size = nbytes / workers if library == "open_mpi" and primitive == "all_gather" else nbytes
    rule = next(rule for rule in rules if workers < rule.workers)
    return [rule.algorithms[int(number)] for number in np.searchsorted(rule.bounds, size, side="right")]
