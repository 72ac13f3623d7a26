"""The kernels that are measured: their inputs, the call that is timed, and the check of its result."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import cycle
from statistics import NormalDist
from typing import Any

import torch

from simulator.records import Record, asdict

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
        """The next slice of n standard normal numbers.

        Roles with numbers of their own: `codes` are from -127 to 127, `keys` uniform below 2**24, and `mask THRESHOLD`
        says where magnitudes of standard normal numbers are above it.
        """
        key = role, dtype
        if self._fresh.get(key, 0) < n:
            self._grow(key, n)
        pool, start = self._pools[key], self._next[key]
        if start + n > len(pool):
            start = 0
        self._next[key] = start + -(-n // ALIGNMENT) * ALIGNMENT
        return pool[start : start + n]

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
            self._lists = key, cycle([self._index_lists(*key) for _ in range(count)])
        return next(self._lists[1])

    def _index_lists(self, n: int, k: int, contributions: int, order: str) -> Any:
        stride = n // k
        shape = (contributions, k)
        offset = torch.randint(stride, shape, generator=self._random, device=self.device)
        lists = offset.add_(torch.arange(k, device=self.device) * stride)
        if order == "random":
            shuffle = torch.rand(shape, generator=self._random, device=self.device).argsort(1)
            lists = lists.gather(1, shuffle)
        return lists.flatten()

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


DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
LEARNING_RATE, MOMENTUM = 0.01, 0.9
CODE_SCALE = 127 / 8
"""Factor with which standard normal numbers fit into a signed byte."""


class Point(Record):
    """One thing to measure: a kernel on `elements` numbers of a type.

    `k`: elements selected, or indices in a list; `contributions`: lists that are added; `order`: of the indices in a
    list, `sorted` or `random`. None and "" where a kernel has no such parameter.
    """

    kernel: str
    dtype: str
    elements: int
    k: int | None = None
    contributions: int | None = None
    order: str = ""

    def cells(self) -> dict[str, str]:
        """The columns of the recorded table that state it."""
        return {name: "" if value is None else str(value) for name, value in asdict(self).items()}


def threshold_of(point: Point) -> float:
    """The magnitude above which k of n standard normal numbers are expected, exact in the point's type."""
    share = min(0.999, (point.k or 0) / point.elements)
    value = NormalDist().inv_cdf(1 - share / 2)
    return float(torch.tensor(value, dtype=DTYPES[point.dtype]))


_ARGUMENTS: dict[str, Callable[[Inputs, Point], Any]] = {
    "n": lambda source, p: p.elements,
    "k": lambda source, p: p.k,
    "device": lambda source, p: source.device,
    "threshold": lambda source, p: threshold_of(p),
    "zero": lambda source, p: torch.zeros(1, device=source.device),
    "minus one": lambda source, p: -torch.ones(1, device=source.device),
    "powers": lambda source, p: 2 ** torch.arange(8, dtype=torch.uint8, device=source.device),
    "codes": lambda source, p: source.floats("codes", p.elements, torch.int8),
    "keys": lambda source, p: source.floats("keys", p.elements, torch.int64),
    "mask": lambda source, p: source.floats(f"mask {threshold_of(p)!r}", p.elements, DTYPES[p.dtype]),
    "indices": lambda source, p: source.indices(p.elements, p.k or 1, p.contributions or 1, p.order),
    "values": lambda source, p: source.floats("a", (p.k or 1) * (p.contributions or 1), DTYPES[p.dtype]),
}
"""Arguments that are not n numbers of the point's type."""
Arguments = tuple[Any, ...]


class MeasuredKernel(Record):
    """How one kernel is measured.

    `roles`: of its arguments; those that the call changes begin with `=`, and `=other` is of another type than the
    point's. `call(*arguments)`: what is timed. `right(before, result)`: whether the result fits the arguments as they
    were before the call, by a reference in float64.
    """

    roles: tuple[str, ...]
    call: Callable[..., Any]
    right: Callable[[Arguments, Any], bool]

    def inputs(self, source: Inputs, point: Point, state: Callable[[str, int, Any], Any] | None = None) -> Arguments:
        """Fresh arguments; those that the call changes come from `state(role, n, dtype)`, or are used again."""

        def argument(role: str) -> Any:
            if role in _ARGUMENTS:
                return _ARGUMENTS[role](source, point)
            dtype = DTYPES[point.dtype]
            if role == "=other":
                dtype = torch.float16 if dtype == torch.float32 else torch.float32
            draw = state if state and role[0] == "=" else source.floats
            return draw(role, point.elements, dtype)

        return tuple(map(argument, self.roles))

    def checked(self, source: Inputs, point: Point) -> bool:
        """Call once on fresh numbers and check the result."""
        arguments = self.inputs(source, point, lambda role, n, dtype: source.fresh(n, dtype))
        before = tuple(item.clone() if isinstance(item, torch.Tensor) else item for item in arguments)
        return self.right(before, self.call(*arguments))


def _near(result: Any, reference: Any, scale: Any, steps: float = 1.0) -> bool:
    """Whether every difference is within `steps` roundings of `scale`, by the result's type."""
    bound = steps * torch.finfo(result.dtype).eps * scale
    return bool(((result.double() - reference).abs() <= bound).all())


def _equal(result: Any, reference: Any) -> bool:
    return bool(torch.equal(result.double(), reference.double()))


def _add_right(before: Arguments, result: Any, factor: float = 1.0, steps: float = 1.0) -> bool:
    a, b = before[0].double(), factor * before[1].double()
    return _near(result, a + b, a.abs() + b.abs(), steps)


def _update(gradient: Any, momentum: Any, weight: Any) -> Any:
    momentum.mul_(MOMENTUM).add_(gradient)
    weight.add_(momentum, alpha=-LEARNING_RATE)
    return momentum, weight


def _update_right(before: Arguments, result: Any) -> bool:
    gradient, momentum, weight = (item.double() for item in before)
    moved = MOMENTUM * momentum + gradient
    scale = momentum.abs() + gradient.abs()
    stepped = weight - LEARNING_RATE * moved
    return _near(result[0], moved, scale, 3) and _near(result[1], stepped, weight.abs() + scale, 3)


def _places_right(mask: Any, result: Any) -> bool:
    return bool(torch.equal(result.flatten(), torch.arange(len(mask), device=mask.device)[mask]))


def _topk_right(before: Arguments, result: Any) -> bool:
    """The k values are those at k different indices, and no other value is larger."""
    magnitude, k = before[0].double().abs(), before[1]
    values, indices = result
    left = torch.ones(len(magnitude), dtype=torch.bool, device=magnitude.device)
    left[indices] = False
    rest = magnitude[left]
    stands: bool = _equal(values, magnitude[indices]) and len(magnitude) - len(rest) == k == len(values)
    return stands and (not len(rest) or bool(rest.max() <= values.double().min()))


def _sort_right(before: Arguments, result: Any) -> bool:
    """The values increase and are those at the indices, and every index occurs."""
    numbers, (values, indices) = before[0].double(), result
    seen = torch.zeros(len(numbers), dtype=torch.bool, device=numbers.device)
    seen[indices] = True
    wide = values.double()
    return bool(seen.all()) and bool((wide[1:] >= wide[:-1]).all()) and _equal(wide, numbers[indices])


def _scatter_right(before: Arguments, result: Any) -> bool:
    start, indices, values = before
    n = len(start)
    total = start.double() + torch.bincount(indices, values.double(), n)
    size = start.double().abs() + torch.bincount(indices, values.double().abs(), n)
    return _near(result, total, size, float(torch.bincount(indices, minlength=n).max()) + 1)


def _random_right(before: Arguments, result: Any) -> bool:
    """All are below n, with a mean within six standard errors of that of a uniform distribution."""
    n, k, _ = before
    mean, error = float(result.double().mean()), n / math.sqrt(12 * k)
    inside: bool = result.dtype == torch.int64 and len(result) == k and int(result.min()) >= 0 and int(result.max()) < n
    return inside and bool(abs(mean - (n - 1) / 2) <= 6 * error)


def _unique_right(before: Arguments, result: Any) -> bool:
    keys = before[0].sort().values
    first = torch.ones(len(keys), dtype=torch.bool, device=keys.device)
    first[1:] = keys[1:] != keys[:-1]
    return bool(torch.equal(result, keys[first]))


def _sum_right(result: Any, exact: Any, scale: Any) -> bool:
    """Whether a sum over many numbers is within a thousandth of `scale`, or two roundings."""
    return _near(result, exact, scale, max(1e-3 / torch.finfo(result.dtype).eps, 2))


def _norm_right(before: Arguments, result: Any) -> bool:
    exact = before[0].double().square().sum().sqrt()
    return _sum_right(result, exact, exact)


def _statistics_right(before: Arguments, result: Any) -> bool:
    exact = torch.std_mean(before[0].double())
    return all(_sum_right(part, right, exact[0]) for part, right in zip(result, exact, strict=True))


def _quantise(numbers: Any, scaled: Any, codes: Any) -> Any:
    torch.mul(numbers, CODE_SCALE, out=scaled)
    scaled.round_()
    return codes.copy_(scaled)


def _quantise_right(before: Arguments, result: Any) -> bool:
    scaled = before[0].double() * CODE_SCALE
    slack = 0.5 + 127 * torch.finfo(before[0].dtype).eps
    return result.dtype == torch.int8 and bool(((result.double() - scaled).abs() <= slack).all())


def _pack(numbers: Any, powers: Any) -> Any:
    return ((numbers.view(-1, 8) >= 0) * powers).sum(1, dtype=torch.uint8)


def _pack_right(before: Arguments, result: Any) -> bool:
    signs = before[0].double().view(-1, 8) >= 0
    bits = [(result.long() >> bit) & 1 == signs[:, bit] for bit in range(8)]
    return bool(torch.stack(bits).all())


def _unscale(gradient: Any, found: Any, factor: Any) -> Any:
    torch._amp_foreach_non_finite_check_and_unscale_([gradient], found, factor)
    return gradient, found


KERNELS: dict[str, MeasuredKernel] = {
    "elementwise": MeasuredKernel(("a", "b", "=1"), lambda a, b, out: torch.add(a, b, out=out), _add_right),
    "copy": MeasuredKernel(("a", "=1"), lambda a, out: out.copy_(a), lambda before, out: _equal(out, before[0])),
    "residual_add": MeasuredKernel(("=1", "a"), lambda residual, gradient: residual.add_(gradient), _add_right),
    "update": MeasuredKernel(("a", "=1", "=2"), _update, _update_right),
    "cast": MeasuredKernel(
        ("a", "=other"),
        lambda a, out: out.copy_(a),
        lambda before, out: _equal(out, before[0].double().to(before[1].dtype)),
    ),
    # A factor of -1 can be checked, and leaves numbers that are used again and again as large as they were.
    "unscale": MeasuredKernel(
        ("=1", "zero", "minus one"),
        _unscale,
        lambda before, out: _equal(out[0], -before[0].double()) and _equal(out[1], torch.zeros_like(before[1])),
    ),
    "norm": MeasuredKernel(("a",), torch.linalg.vector_norm, _norm_right),
    "statistics": MeasuredKernel(("a",), torch.std_mean, _statistics_right),
    "quantise": MeasuredKernel(("a", "=1", "codes"), _quantise, _quantise_right),
    "pack": MeasuredKernel(("a", "powers"), _pack, _pack_right),
    "dequantise": MeasuredKernel(
        ("=1", "codes"),
        lambda total, codes: total.add_(codes, alpha=1 / CODE_SCALE),
        lambda before, total: _add_right(before, total, 1 / CODE_SCALE, 3),
    ),
    "sort": MeasuredKernel(("a",), torch.sort, _sort_right),
    "topk": MeasuredKernel(("a", "k"), lambda numbers, k: torch.topk(numbers.abs(), k, sorted=False), _topk_right),
    # What PyTorch 1.11 does for some sizes (pull request 68632), and code that finds torch.topk slow.
    "topk_by_sort": MeasuredKernel(
        ("a", "k"),
        lambda numbers, k: tuple(part[:k] for part in torch.sort(numbers.abs(), descending=True)),
        _topk_right,
    ),
    "threshold_scan": MeasuredKernel(
        ("a", "threshold"),
        lambda numbers, threshold: torch.nonzero(numbers.abs() > threshold),
        lambda before, result: _places_right(before[0].double().abs() > before[1], result),
    ),
    "nonzero": MeasuredKernel(("mask",), torch.nonzero, lambda before, result: _places_right(before[0], result)),
    "masked_select": MeasuredKernel(
        ("a", "mask"),
        torch.masked_select,
        lambda before, result: _equal(result, before[0].double()[before[1].nonzero().flatten()]),
    ),
    "gather": MeasuredKernel(
        ("a", "indices"),
        lambda numbers, indices: torch.index_select(numbers, 0, indices),
        lambda before, result: _equal(result, before[0].double()[before[1]]),
    ),
    "scatter_add": MeasuredKernel(
        ("=1", "indices", "values"),
        lambda total, indices, values: total.scatter_add_(0, indices, values),
        _scatter_right,
    ),
    "residual_clear": MeasuredKernel(
        ("=1", "indices"),
        lambda residual, indices: residual.index_fill_(0, indices, 0.0),
        lambda before, result: _equal(result, before[0].double().index_fill(0, before[1], 0.0)),
    ),
    "random_indices": MeasuredKernel(
        ("n", "k", "device"),
        lambda n, k, device: torch.randint(n, (k,), device=device),
        _random_right,
    ),
    "unique": MeasuredKernel(("keys",), torch.unique, _unique_right),
}
"""Every kernel that is measured, by its name in configs (`nonzero`, `masked_select` and `pack` are parts of others,
`topk_by_sort` is another way to Top-k)."""

INDEX_KERNELS = ("random_indices", "unique")
"""Kernels on int64 numbers, whatever the type of the gradients."""
