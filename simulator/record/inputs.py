"""Random inputs for kernels, used in turn so that no input is still in the cache when it is used again."""

from __future__ import annotations

import math
from typing import Any

import torch

ALIGNMENT = 64
"""Elements: every slice of a pool begins at a multiple of this."""
SMALLEST = 2**20
MAX_LISTS = 256


class Inputs:
    """Pools of random numbers on one device, each of at least `rotate` bytes, cut into slices.

    Each pool has a `role`, so that two arguments of one call never share memory. Index lists rotate through at most 256
    lists; in training, a selection has just made them when they are used.
    """

    def __init__(self, device: str, rotate: int, seed: int = 0) -> None:
        self.device, self.rotate = device, rotate
        self._random = torch.Generator(device).manual_seed(seed)
        self._pools: dict[tuple[str, Any], Any] = {}
        self._fresh: dict[tuple[str, Any], int] = {}
        self._next: dict[tuple[str, Any], int] = {}
        self._lists: tuple[Any, Any] = ((), None)

    def floats(self, role: str, n: int, dtype: Any) -> Any:
        """The next slice of n standard normal numbers."""
        return self._slice((role, dtype), n)

    def codes(self, n: int) -> Any:
        """The next slice of n bytes, from -127 to 127."""
        return self._slice(("codes", torch.int8), n)

    def keys(self, n: int) -> Any:
        """The next slice of n int64 numbers, uniform below 2**24."""
        return self._slice(("keys", torch.int64), n)

    def mask(self, n: int, threshold: float, dtype: Any) -> Any:
        """The next slice of n booleans: magnitudes of standard normal numbers above `threshold`."""
        return self._slice((f"mask {threshold!r}", dtype), n)

    def fresh(self, n: int, dtype: Any) -> Any:
        """New standard normal numbers, for outputs that are checked."""
        return torch.empty(n, dtype=dtype, device=self.device).normal_(generator=self._random)

    def indices(self, n: int, k: int, contributions: int, order: str) -> Any:
        """The next `contributions` lists, one after the other, of k distinct indices below n, int64.

        One index is drawn from each of k equal parts; `order` is `sorted` or `random`, within each list.
        """
        key = (n, k, contributions, order)
        if self._lists[0] != key:
            count = max(1, min(MAX_LISTS, math.ceil(self.rotate / (8 * k * contributions))))
            self._lists = (key, [self._index_lists(*key) for _ in range(count)])
            self._next["indices", key] = 0
        lists, place = self._lists[1], self._next["indices", key]
        self._next["indices", key] = place + 1
        return lists[place % len(lists)]

    def _index_lists(self, n: int, k: int, contributions: int, order: str) -> Any:
        stride = n // k
        shape = (contributions, k)
        offset = torch.randint(stride, shape, generator=self._random, device=self.device)
        lists = offset.add_(torch.arange(k, device=self.device) * stride)
        if order == "random":
            shuffle = torch.rand(shape, generator=self._random, device=self.device).argsort(1)
            lists = lists.gather(1, shuffle)
        return lists.flatten()

    def _slice(self, key: tuple[str, Any], n: int) -> Any:
        if self._fresh.get(key, 0) < n:
            self._grow(key, n)
        pool, start = self._pools[key], self._next[key]
        if start + n > len(pool):
            start = 0
        self._next[key] = start + -(-n // ALIGNMENT) * ALIGNMENT
        return pool[start : start + n]

    def _grow(self, key: tuple[str, Any], n: int) -> None:
        """Make a pool of at least n random numbers, repeated until it is large enough to rotate through."""
        role, dtype = key
        self._pools.pop(key, None)
        n = max(n, SMALLEST)
        if role == "codes":
            pool = torch.randint(-127, 128, (n,), dtype=dtype, generator=self._random, device=self.device)
        elif role == "keys":
            pool = torch.randint(2**24, (n,), generator=self._random, device=self.device)
        else:
            pool = self.fresh(n, dtype)
        if role.startswith("mask "):
            for other in [other for other in self._pools if other[0].startswith("mask ")]:
                del self._pools[other], self._fresh[other]
            pool = pool.abs() > float(role[5:])
        self._pools[key] = pool.repeat(max(1, math.ceil(self.rotate / (n * pool.element_size()))))
        self._fresh[key], self._next[key] = n, 0
