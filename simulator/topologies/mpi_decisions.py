"""Which algorithm Open MPI and MPICH choose for a collective, by the number of workers and the payload.

Open MPI: ompi/mca/coll/tuned/coll_tuned_decision_fixed.c, v4.1 (2020) and v5.0, for operations that commute: averages
of measurements on several clusters. MPICH: src/mpi/coll, v3.4 (2021), with the switch points of its control variables
(MPIR_CVAR_ALLREDUCE_SHORT_MSG_SIZE and others); the rules are those of Thakur, Rabenseifner and Gropp (2005).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from simulator.models.curves import Floats

Library = Literal["open_mpi", "mpich"]
ANY = 2**62


class Rule(NamedTuple):
    """For fewer than `workers`: the algorithm below each of `bounds` (bytes, rising), and the one from the last on."""

    workers: int
    bounds: tuple[int, ...]
    algorithms: tuple[str, ...]


def _rule(workers: int, text: str) -> Rule:
    """A rule from its algorithms, with the bound between each two."""
    words = text.split()
    return Rule(workers, tuple(int(word) for word in words[1::2]), tuple(words[::2]))


_OPEN_MPI = {
    "all_reduce": (
        _rule(
            4,
            "ring 8 recursive_doubling 4096 ring 8192 recursive_doubling 16384 ring 65536 segmented_ring 262144 "
            "rabenseifner",
        ),
        _rule(8, "ring 16 recursive_doubling 8192 rabenseifner"),
        _rule(16, "recursive_doubling 8192 rabenseifner"),
        _rule(32, "segmented_ring 64 recursive_doubling 4096 rabenseifner"),
        _rule(64, "segmented_ring 128 rabenseifner"),
        _rule(128, "recursive_doubling 262144 rabenseifner"),
        _rule(256, "reduce_broadcast 131072 recursive_doubling 262144 rabenseifner"),
        _rule(512, "reduce_broadcast 4096 rabenseifner"),
        _rule(2048, "reduce_broadcast 2048 recursive_doubling 16384 rabenseifner"),
        _rule(4096, "reduce_broadcast 2048 segmented_ring 4096 recursive_doubling 16384 rabenseifner"),
        _rule(ANY, "reduce_broadcast 2048 segmented_ring 16384 recursive_doubling 32768 rabenseifner"),
    ),
    "broadcast": (
        _rule(
            4,
            "pipeline 32 binary 256 pipeline 512 knomial 1024 linear 32768 binary 131072 chain 262144 linear 524288 "
            "binomial 1048576 binary",
        ),
        _rule(8, "binary 64 binomial 128 binary 2048 binomial 8192 linear 1048576 chain"),
        _rule(16, "knomial 8 binary 64 knomial 4096 binary 16384 binomial 32768 linear"),
        _rule(32, "knomial 4096 binomial 1048576 scatter_all_gather"),
        _rule(64, "binomial 2048 knomial"),
        _rule(128, "knomial"),
        _rule(256, "binomial 2 binary 16384 linear 32768 binary 65536 knomial"),
        _rule(1024, "knomial 16384 split_binary 32768 knomial"),
        _rule(2048, "knomial 524288 scatter_all_gather"),
        _rule(4096, "knomial 262144 scatter_all_gather"),
        _rule(ANY, "knomial 8192 binary 16384 knomial 262144 scatter_all_gather"),
    ),
    "reduce": (
        _rule(
            4,
            "rabenseifner 8 binary 16 pipeline 32 linear 262144 pipeline 524288 chain 1048576 pipeline",
        ),
        _rule(8, "binary 4096 chain 65536 binomial 262144 linear 524288 binomial 1048576 linear"),
        _rule(16, "binary 8192 binomial"),
        _rule(32, "binary 4096 binomial"),
        _rule(256, "binomial"),
        _rule(512, "binomial 8192 binary 16384 binomial"),
        _rule(2048, "binomial"),
        _rule(4096, "binomial 512 binary 1024 binomial 8192 binary 16384 binomial"),
        _rule(ANY, "binomial 16 binary 32 binomial 1024 binary 2048 binomial 8192 binary 16384 binomial"),
    ),
    "reduce_scatter": (
        _rule(4, "ring 65536 recursive_halving 131072 ring"),
        _rule(8, "reduce_scatterv 8 recursive_halving 262144 ring"),
        _rule(32, "recursive_halving 262144 ring"),
        _rule(64, "reduce_scatterv 64 recursive_halving 524288 ring"),
        _rule(512, "reduce_scatterv 256 recursive_halving"),
        _rule(4096, "reduce_scatterv 512 recursive_halving"),
        _rule(ANY, "reduce_scatterv 1024 recursive_halving"),
    ),
    "all_gather": (
        _rule(32, "recursive_doubling"),
        _rule(64, "recursive_doubling 1024 neighbor 65536 ring"),
        _rule(128, "recursive_doubling 512 neighbor 65536 ring"),
        _rule(256, "recursive_doubling 512 neighbor 131072 ring 524288 neighbor 1048576 ring"),
        _rule(
            512,
            "recursive_doubling 32 bruck 128 recursive_doubling 1024 neighbor 131072 ring 524288 neighbor 1048576 ring",
        ),
        _rule(1024, "recursive_doubling 64 bruck 256 recursive_doubling 2048 neighbor"),
        _rule(
            2048,
            "recursive_doubling 4 bruck 8 recursive_doubling 16 bruck 32 recursive_doubling 256 bruck 512 "
            "recursive_doubling 4096 neighbor",
        ),
        _rule(4096, "bruck 32 recursive_doubling 128 bruck 512 recursive_doubling 4096 neighbor"),
        _rule(ANY, "recursive_doubling 2 bruck 8 recursive_doubling 16 bruck 512 recursive_doubling 4096 neighbor"),
    ),
}

_MPICH = {
    "all_reduce": (_rule(ANY, "recursive_doubling 2049 rabenseifner"),),
    "broadcast": (
        _rule(8, "binomial"),
        _rule(ANY, "binomial 12288 scatter_all_gather 524288 scatter_ring_all_gather"),
    ),
    "reduce": (_rule(ANY, "binomial 2049 rabenseifner"),),
    "reduce_scatter": (_rule(ANY, "recursive_halving 524288 pairwise"),),
    "all_gather": (_rule(ANY, "recursive_doubling 524288 ring"),),
}
_MPICH_OTHER_COUNTS = {
    "broadcast": (_rule(8, "binomial"), _rule(ANY, "binomial 12288 scatter_ring_all_gather")),
    "all_gather": (_rule(ANY, "bruck 81920 ring"),),
}
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
