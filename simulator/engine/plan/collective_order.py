"""The order of collectives; orders in which workers would wait for each other for ever are found before they run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simulator.component import expected
from simulator.engine.plan.setup import Setup


def bucket_order(setup: Setup, buckets: int) -> list[int]:
    """The buckets in the order of their collectives; pushes and pulls need no common order."""
    if setup.orders and setup.scheduler.queue.by_priority:
        hint = "a scheduler by priority sets the order of collectives itself"
        raise expected("a scheduler that goes first in, first out", setup.scheduler.kind, hint)
    if not setup.orders or setup.topology.style != "collective":
        return list(range(buckets))
    return common_order(setup.orders, setup.workers, buckets)


def common_order(orders: Mapping[int, Sequence[int]], workers: int, buckets: int) -> list[int]:
    """The order in which all workers issue their collectives: that in which buckets become ready, if none is stated.

    A collective needs every worker, and the stream of a worker stays at its collective until that has run. Workers with
    different orders therefore wait for each other for ever. Raises an expected-error that names workers and buckets
    where they do, or where an order leaves out or repeats a bucket.
    """
    usual = list(range(buckets))
    for worker, order in orders.items():
        if sorted(order) != usual:
            missing = sorted(set(usual) - set(order))
            got = f"{list(order)} of worker {worker}" + (f", without {missing}" if missing else "")
            raise expected(f"every bucket from 0 to {buckets - 1} once", got)
    at = {worker: list(orders.get(worker, usual)) for worker in range(workers)}
    made: list[int] = []
    for turn in range(buckets):
        heads = {worker: order[turn] for worker, order in at.items()}
        if len(set(heads.values())) > 1:
            raise expected("an order of collectives that all workers share", _describe_deadlock(heads, made), _HINT)
        made.append(heads[0])
    return made


_HINT = "each collective waits for all workers, and each worker's stream for its collective: a deadlock"


def _describe_deadlock(heads: Mapping[int, int], made: Sequence[int]) -> str:
    """Which workers wait at which bucket."""
    standing: dict[int, list[int]] = {}
    for worker, bucket in heads.items():
        standing.setdefault(bucket, []).append(worker)
    parts = [f"{_list_numbers('worker', workers)} at bucket {bucket}" for bucket, workers in sorted(standing.items())]
    after = f" after {_list_numbers('bucket', list(made))}" if made else ""
    return f"{' and '.join(parts)}{after}, each waiting for the other"


def _list_numbers(noun: str, numbers: list[int]) -> str:
    shown = ", ".join(str(number) for number in numbers[:4]) + (", ..." if len(numbers) > 4 else "")
    return f"{noun}{'s' if len(numbers) > 1 else ''} {shown}"
