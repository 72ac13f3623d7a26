"""Sizes that are refused in words, before they would fill the memory: each bound keeps a prediction below 2 GiB."""

from __future__ import annotations

from simulator.component import expected

MAX_LAYERS = 100_000
"""Rows of a file of layers: the largest models have a few thousand."""
MAX_MESSAGES = 2**23
"""Of one exchange, where all are held at once: 2,896 workers all to all, or workers times servers."""
MAX_COLLECTIVES = 2**25
"""Workers times buckets: times of each are held for each."""
MAX_DRAWS = 3 * 2**23
"""Workers times iterations, where every worker draws its own times."""


def refuse_messages(count: int) -> None:
    """Raise an expected-error for an exchange of more messages than are held at once."""
    if count > MAX_MESSAGES:
        hint = "fewer workers, fewer servers, or a topology with fewer messages, such as ring or tree"
        raise expected(f"an exchange of at most {MAX_MESSAGES:,} messages", f"{count:,}", hint)


def refuse_collectives(workers: int, buckets: int) -> None:
    """Raise an expected-error for more workers times buckets than there are times held."""
    if workers * buckets > MAX_COLLECTIVES:
        got, hint = f"{workers:,} workers times {buckets:,} buckets", "a scheduler with fewer buckets, or fewer workers"
        raise expected(f"at most {MAX_COLLECTIVES:,} workers times buckets", got, hint)


def refuse_draws(workers: int, iterations: int, buckets: int) -> None:
    """Raise an expected-error for more workers times iterations than there are draws held."""
    if workers * iterations > MAX_DRAWS:
        got, hint = f"{workers:,} workers times {iterations:,} iterations", "fewer iterations, or fewer workers"
        raise expected(f"at most {MAX_DRAWS:,} workers times iterations of which each differs", got, hint)
