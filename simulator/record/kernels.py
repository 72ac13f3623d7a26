"""The kernels that are measured: their inputs, the call that is timed, and the check of its result."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import torch

from simulator.record.inputs import Inputs
from simulator.records import Record, asdict

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


Arguments = tuple[Any, ...]


class MeasuredKernel(Record):
    """How one kernel is measured.

    `inputs(source, point, state)`: fresh arguments; those that the call changes come from `state(role, n, dtype)`.
    `call(*arguments)`: what is timed. `right(before, result)`: whether the result fits the arguments as they were
    before the call, by a reference in float64.
    """

    inputs: Callable[[Inputs, Point, Callable[[str, int, Any], Any]], Arguments]
    call: Callable[..., Any]
    right: Callable[[Arguments, Any], bool]

    def arguments(self, source: Inputs, point: Point) -> Arguments:
        """The next arguments, for timing; those that the call changes are used again as they are."""
        return self.inputs(source, point, source.floats)

    def checked(self, source: Inputs, point: Point) -> bool:
        """Call once on fresh numbers and check the result."""
        arguments = self.inputs(source, point, lambda role, n, dtype: source.fresh(n, dtype))
        before = tuple(item.clone() if isinstance(item, torch.Tensor) else item for item in arguments)
        return self.right(before, self.call(*arguments))


def threshold_of(point: Point) -> float:
    """The magnitude above which k of n standard normal numbers are expected, exact in the point's type."""
    share = min(0.999, (point.k or 0) / point.elements)
    value = NormalDist().inv_cdf(1 - share / 2)
    return float(torch.tensor(value, dtype=DTYPES[point.dtype]))


def _near(result: Any, reference: Any, scale: Any, steps: float = 1.0) -> bool:
    """Whether every difference is within `steps` roundings of `scale`, by the result's type."""
    bound = steps * torch.finfo(result.dtype).eps * scale
    return bool(((result.double() - reference).abs() <= bound).all())


def _equal(result: Any, reference: Any) -> bool:
    return bool(torch.equal(result.double(), reference.double()))


def _of(*roles: str) -> Callable[[Inputs, Point, Callable[[str, int, Any], Any]], Arguments]:
    """Arguments of n numbers each; the call changes those whose role begins with `=`."""

    def inputs(source: Inputs, point: Point, state: Callable[[str, int, Any], Any]) -> Arguments:
        n, dtype = point.elements, DTYPES[point.dtype]
        return tuple((state if role[0] == "=" else source.floats)(role, n, dtype) for role in roles)

    return inputs


def _add_right(before: Arguments, result: Any) -> bool:
    a, b = before[0].double(), before[1].double()
    return _near(result, a + b, a.abs() + b.abs())


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


def _selected(before: Arguments) -> Any:
    """Indices of the magnitudes above the threshold, in order."""
    numbers, threshold = before
    return torch.arange(len(numbers), device=numbers.device)[numbers.double().abs() > threshold]


def _topk_right(before: Arguments, result: Any) -> bool:
    """The k values are those at k different indices, and no other value is larger."""
    magnitude, k = before[0].double().abs(), before[1]
    values, indices = result
    left = torch.ones(len(magnitude), dtype=torch.bool, device=magnitude.device)
    left[indices] = False
    rest = magnitude[left]
    stands: bool = _equal(values, magnitude[indices]) and len(magnitude) - len(rest) == k == len(values)
    return stands and (not len(rest) or bool(rest.max() <= values.double().min()))


def _topk_by_sort(numbers: Any, k: int) -> Any:
    """What PyTorch 1.11 does for some sizes (pull request 68632), and code that finds torch.topk slow."""
    values, indices = torch.sort(numbers.abs(), descending=True)
    return values[:k], indices[:k]


def _sort_right(before: Arguments, result: Any) -> bool:
    """The values increase and are those at the indices, and every index occurs."""
    numbers, (values, indices) = before[0].double(), result
    seen = torch.zeros(len(numbers), dtype=torch.bool, device=numbers.device)
    seen[indices] = True
    wide = values.double()
    return bool(seen.all()) and bool((wide[1:] >= wide[:-1]).all()) and _equal(wide, numbers[indices])


def _scatter_inputs(source: Inputs, point: Point, state: Callable[[str, int, Any], Any]) -> Arguments:
    n, k, lists = point.elements, point.k or 1, point.contributions or 1
    dtype = DTYPES[point.dtype]
    indices = source.indices(n, k, lists, point.order)
    return state("=1", n, dtype), indices, source.floats("a", k * lists, dtype)


def _scatter_right(before: Arguments, result: Any) -> bool:
    start, indices, values = before
    n = len(start)
    total = start.double() + torch.bincount(indices, values.double(), n)
    size = start.double().abs() + torch.bincount(indices, values.double().abs(), n)
    return _near(result, total, size, float(torch.bincount(indices, minlength=n).max()) + 1)


def _indexed(role: str) -> Callable[[Inputs, Point, Callable[[str, int, Any], Any]], Arguments]:
    def inputs(source: Inputs, point: Point, state: Callable[[str, int, Any], Any]) -> Arguments:
        numbers = (state if role[0] == "=" else source.floats)(role, point.elements, DTYPES[point.dtype])
        return numbers, source.indices(point.elements, point.k or 1, 1, point.order)

    return inputs


def _cleared_right(before: Arguments, result: Any) -> bool:
    reference = before[0].double()
    reference[before[1]] = 0.0
    return _equal(result, reference)


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


def _norm_right(before: Arguments, result: Any) -> bool:
    exact = before[0].double().square().sum().sqrt()
    bound = max(1e-3, 2 * torch.finfo(result.dtype).eps) * float(exact)
    return bool(abs(float(result) - float(exact)) <= bound)


def _statistics_right(before: Arguments, result: Any) -> bool:
    wide = before[0].double()
    deviation, mean = (float(item) for item in torch.std_mean(wide))
    bound = max(1e-3, 2 * torch.finfo(result[0].dtype).eps) * deviation
    return bool(abs(float(result[0]) - deviation) <= bound and abs(float(result[1]) - mean) <= bound)


def _quantise_inputs(source: Inputs, point: Point, state: Callable[[str, int, Any], Any]) -> Arguments:
    n, dtype = point.elements, DTYPES[point.dtype]
    return source.floats("a", n, dtype), state("=1", n, dtype), source.codes(n)


def _quantise(numbers: Any, scaled: Any, codes: Any) -> Any:
    torch.mul(numbers, CODE_SCALE, out=scaled)
    scaled.round_()
    return codes.copy_(scaled)


def _quantise_right(before: Arguments, result: Any) -> bool:
    scaled = before[0].double() * CODE_SCALE
    slack = 0.5 + 127 * torch.finfo(before[0].dtype).eps
    return result.dtype == torch.int8 and bool(((result.double() - scaled).abs() <= slack).all())


def _pack_inputs(source: Inputs, point: Point, state: Callable[[str, int, Any], Any]) -> Arguments:
    powers = 2 ** torch.arange(8, dtype=torch.uint8, device=source.device)
    return source.floats("a", point.elements, DTYPES[point.dtype]), powers


def _pack(numbers: Any, powers: Any) -> Any:
    return ((numbers.view(-1, 8) >= 0) * powers).sum(1, dtype=torch.uint8)


def _pack_right(before: Arguments, result: Any) -> bool:
    signs = before[0].double().view(-1, 8) >= 0
    bits = [(result.long() >> bit) & 1 == signs[:, bit] for bit in range(8)]
    return bool(torch.stack(bits).all())


def _dequantise_inputs(source: Inputs, point: Point, state: Callable[[str, int, Any], Any]) -> Arguments:
    return state("=1", point.elements, DTYPES[point.dtype]), source.codes(point.elements)


def _dequantise_right(before: Arguments, result: Any) -> bool:
    start, added = before[0].double(), before[1].double() / CODE_SCALE
    return _near(result, start + added, start.abs() + added.abs(), 3)


def _cast_inputs(source: Inputs, point: Point, state: Callable[[str, int, Any], Any]) -> Arguments:
    n, dtype = point.elements, DTYPES[point.dtype]
    other = torch.float16 if dtype == torch.float32 else torch.float32
    return source.floats("a", n, dtype), state("=1", n, other)


def _cast_right(before: Arguments, result: Any) -> bool:
    return _equal(result, before[0].double().to(before[1].dtype))


def _unscale_inputs(source: Inputs, point: Point, state: Callable[[str, int, Any], Any]) -> Arguments:
    # A factor of -1 can be checked, and leaves numbers that are used again and again as large as they were.
    factor, found = (torch.full((1,), value, device=source.device) for value in (-1.0, 0.0))
    return state("=1", point.elements, DTYPES[point.dtype]), found, factor


def _unscale(gradient: Any, found: Any, factor: Any) -> Any:
    torch._amp_foreach_non_finite_check_and_unscale_([gradient], found, factor)
    return gradient, found


def _unscale_right(before: Arguments, result: Any) -> bool:
    return _equal(result[0], -before[0].double()) and _equal(result[1], torch.zeros_like(before[1]))


def _with(make: Callable[[Inputs, Point], Arguments]) -> Callable[..., Arguments]:
    """Inputs that no call changes."""
    return lambda source, point, state: make(source, point)


KERNELS: dict[str, MeasuredKernel] = {
    "elementwise": MeasuredKernel(_of("a", "b", "=1"), lambda a, b, out: torch.add(a, b, out=out), _add_right),
    "copy": MeasuredKernel(_of("a", "=1"), lambda a, out: out.copy_(a), lambda before, out: _equal(out, before[0])),
    "residual_add": MeasuredKernel(_of("=1", "a"), lambda residual, gradient: residual.add_(gradient), _add_right),
    "update": MeasuredKernel(_of("a", "=1", "=2"), _update, _update_right),
    "cast": MeasuredKernel(_cast_inputs, lambda a, out: out.copy_(a), _cast_right),
    "unscale": MeasuredKernel(_unscale_inputs, _unscale, _unscale_right),
    "norm": MeasuredKernel(_of("a"), torch.linalg.vector_norm, _norm_right),
    "statistics": MeasuredKernel(_of("a"), torch.std_mean, _statistics_right),
    "quantise": MeasuredKernel(_quantise_inputs, _quantise, _quantise_right),
    "pack": MeasuredKernel(_pack_inputs, _pack, _pack_right),
    "dequantise": MeasuredKernel(
        _dequantise_inputs, lambda total, codes: total.add_(codes, alpha=1 / CODE_SCALE), _dequantise_right
    ),
    "sort": MeasuredKernel(_of("a"), torch.sort, _sort_right),
    "topk": MeasuredKernel(
        _with(lambda source, p: (source.floats("a", p.elements, DTYPES[p.dtype]), p.k)),
        lambda numbers, k: torch.topk(numbers.abs(), k, sorted=False),
        _topk_right,
    ),
    "topk_by_sort": MeasuredKernel(
        _with(lambda source, p: (source.floats("a", p.elements, DTYPES[p.dtype]), p.k)),
        _topk_by_sort,
        _topk_right,
    ),
    "threshold_scan": MeasuredKernel(
        _with(lambda source, p: (source.floats("a", p.elements, DTYPES[p.dtype]), threshold_of(p))),
        lambda numbers, threshold: torch.nonzero(numbers.abs() > threshold),
        lambda before, result: bool(torch.equal(result.flatten(), _selected(before))),
    ),
    "nonzero": MeasuredKernel(
        _with(lambda source, p: (source.mask(p.elements, threshold_of(p), DTYPES[p.dtype]),)),
        torch.nonzero,
        lambda before, result: bool(
            torch.equal(result.flatten(), torch.arange(len(before[0]), device=result.device)[before[0]])
        ),
    ),
    "masked_select": MeasuredKernel(
        _with(
            lambda source, p: (
                source.floats("a", p.elements, DTYPES[p.dtype]),
                source.mask(p.elements, threshold_of(p), DTYPES[p.dtype]),
            )
        ),
        torch.masked_select,
        lambda before, result: _equal(result, before[0].double()[before[1].nonzero().flatten()]),
    ),
    "gather": MeasuredKernel(
        _indexed("a"),
        lambda numbers, indices: torch.index_select(numbers, 0, indices),
        lambda before, result: _equal(result, before[0].double()[before[1]]),
    ),
    "scatter_add": MeasuredKernel(
        _scatter_inputs, lambda total, indices, values: total.scatter_add_(0, indices, values), _scatter_right
    ),
    "residual_clear": MeasuredKernel(
        _indexed("=1"), lambda residual, indices: residual.index_fill_(0, indices, 0.0), _cleared_right
    ),
    "random_indices": MeasuredKernel(
        _with(lambda source, p: (p.elements, p.k, source.device)),
        lambda n, k, device: torch.randint(n, (k,), device=device),
        _random_right,
    ),
    "unique": MeasuredKernel(_with(lambda source, p: (source.keys(p.elements),)), torch.unique, _unique_right),
}
"""Every kernel that is measured, by its name in configs (`nonzero`, `masked_select` and `pack` are parts of others,
`topk_by_sort` is another way to Top-k)."""

INDEX_KERNELS = ("random_indices", "unique")
"""Kernels on int64 numbers, whatever the type of the gradients."""
