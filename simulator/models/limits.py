"""Limits to sizes that would fill the memory or take minutes; larger sizes are refused with a message.

Each limit keeps a prediction below 2 GiB and 30 s on one core of a laptop; docs/developers/large.md has the
measurements.
"""

from __future__ import annotations

from simulator.component import expected

MAX_LAYERS = 100_000
"""Rows of a file of layers: the largest models have a few thousand."""
MAX_MESSAGES = 2**22
"""Messages in memory at once: of an all-to-all, of pushes to servers, or of all exchanges that share links."""
MAX_PRICED = 2**23
"""Messages in memory at once of all collectives that follow each other, repeated rounds once: 100 bytes, 1 us."""
MAX_HOPS = 2**26
"""Hops of all messages of an exchange over neighbours' links in memory at once, each message as far as the farthest."""
MAX_BLOCKS = 2**26
"""Sizes in memory at once, where workers pass on blocks of unlike sizes round by round: 8 bytes each."""
MAX_UNEVEN = 2**27
"""Messages of one repeated round, of all payloads, before all of its times move by the same amount: 50 ns each."""
MAX_COLLECTIVES = 2**25
"""Workers times buckets: each pair has its times in memory."""
MAX_DRAWS = 3 * 2**23
"""Workers times iterations, if every worker draws its own times."""
MAX_TURNS = 2**23
"""Buckets times iterations that differ, with one exchange after the other: 2 us each."""
MAX_LAYERED_TURNS = 2**20
"""Turns if every layer waits for its own parameters, or compute is slowed by communication: 10 to 50 us each."""
MAX_LIVE_TURNS = 2**15
"""Turns if exchanges share links: 0.6 ms each."""
MAX_OTHER_TURNS = 2**12
"""Exchanges of other jobs while this one iterates: up to 8 ms each."""
MAX_LAYERED_TIMES = 2**27
"""Workers times layers or buckets times iterations, if every layer waits for its own parameters, or the kernels of
workers differ: 0.1 us each."""


def refuse_messages(count: int, *, priced: bool = False) -> None:
    """Raise an expected-error for more than MAX_MESSAGES, or MAX_PRICED of collectives that are `priced` together."""
    most = MAX_PRICED if priced else MAX_MESSAGES
    if count > most:
        hint = "fewer workers, servers or buckets, or a topology with fewer messages, such as ring or tree"
        raise expected(f"an exchange of at most {most:,} messages", f"{count:,}", hint)


def refuse_hops(messages: int, farthest: int) -> None:
    """Raise an expected-error for messages that have more than MAX_HOPS together, each as far as the farthest."""
    if messages * farthest > MAX_HOPS:
        got = f"{messages:,} messages over up to {farthest:,} hops"
        hint = "fewer workers, a topology with fewer messages, or `dimensions` that are more alike"
        raise expected(f"an exchange of at most {MAX_HOPS:,} hops", got, hint)


def refuse_blocks(sizes: int, rounds: int) -> None:
    """Raise an expected-error for more than MAX_BLOCKS sizes of blocks in all rounds."""
    if sizes * rounds > MAX_BLOCKS:
        got, hint = f"{sizes:,} in each of {rounds:,} rounds", "fewer workers, or selections of the same size"
        raise expected(f"blocks of at most {MAX_BLOCKS:,} unlike sizes", got, hint)


def refuse_uneven_rounds(messages: int, rounds: int) -> None:
    """Raise an expected-error for more than MAX_UNEVEN messages in all rounds, as long as these differ."""
    if messages * rounds > MAX_UNEVEN:
        got = f"{messages:,} messages in a round, and no two rounds alike of {rounds:,}"
        hint = "fewer workers, links that are alike, or a topology with fewer rounds, such as tree"
        raise expected(f"at most {MAX_UNEVEN:,} messages in rounds that differ", got, hint)


def refuse_collectives(workers: int, buckets: int) -> None:
    """Raise an expected-error for more workers times buckets than MAX_COLLECTIVES."""
    if workers * buckets > MAX_COLLECTIVES:
        got, hint = f"{workers:,} workers times {buckets:,} buckets", "a scheduler with fewer buckets, or fewer workers"
        raise expected(f"at most {MAX_COLLECTIVES:,} workers times buckets", got, hint)


def refuse_draws(workers: int, iterations: int) -> None:
    """Raise an expected-error for more workers times iterations than MAX_DRAWS."""
    _refuse_iterations(MAX_DRAWS, workers, iterations, "workers")


def refuse_turns(
    workers: int, buckets: int, iterations: int, *, layered: bool, live: bool, unlike: bool = False
) -> None:
    """Raise an expected-error for more buckets times differing iterations than can be followed in half a minute.

    `layered`: every layer waits for its own parameters; `live`: exchanges share links; `unlike`: workers differ in
    their kernels, so that all of them are followed.
    """
    most = MAX_LIVE_TURNS if live else MAX_LAYERED_TURNS if layered else MAX_TURNS
    _refuse_iterations(most, buckets, iterations, "buckets")
    if layered or unlike:
        _refuse_iterations(MAX_LAYERED_TIMES, workers * buckets, iterations, "workers and layers")


def _refuse_iterations(most: int, count: int, iterations: int, what: str) -> None:
    if count * iterations > most:
        got, hint = f"{count:,} {what} times {iterations:,} iterations", f"fewer iterations, or fewer {what}"
        raise expected(f"at most {most:,} {what} times iterations of which each differs", got, hint)
