"""Quantised all-reduce: messages of 1 to 8 bits per value, sums in fp32."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from simulator.bounds import Count
from simulator.models.curves import Floats
from simulator.models.exchange import (
    AllGather,
    AllReduce,
    Bucket,
    Compute,
    Messages,
    PushPull,
    Selection,
    Step,
    all_to_all,
)
from simulator.models.gradients import Block, Values
from simulator.sparsifiers.base import Style, per_call
from simulator.sparsifiers.compressor import SCALE_BYTES, Compressor, packed

FormatName = Literal["uint8", "int8", "int4", "fp8", "e3m0", "sign"]
_CODES = 256


class LowBits(NamedTuple):
    """A format: bits of a value, bytes that go with each row of values, and what rows (r, n) of fp64 are decoded as."""

    bits: int
    header: int
    decoded: Callable[[Floats], Floats]

    def rounded(self, values: Floats, row: int) -> Floats:
        """Values (n,) after decoding, in rows of `row` elements, of which the last may be shorter."""
        whole = len(values) // row * row
        parts = [part for part in (values[:whole].reshape(-1, row), values[None, whole:]) if part.size]
        return np.concatenate([values[:0], *(self.decoded(part).ravel() for part in parts)])


def _means(rows: Floats) -> Floats:
    """The mean of each of 256 steps of 6 deviations from 0 / 256 (Prime's uniform 8-bit codes, after hivemind)."""
    count, n = rows.shape
    deviation = np.sqrt(np.square(rows).sum(axis=1, keepdims=True) / max(1, n - 1))
    step = np.where(deviation > 0, 6 * deviation / _CODES, 1.0)
    code = np.clip(np.rint(rows / step) + _CODES // 2, 0, _CODES - 1).astype(np.int64)
    place = (code + _CODES * np.arange(count)[:, None]).ravel()
    sums = np.bincount(place, weights=rows.ravel(), minlength=_CODES * count)
    means = sums / np.maximum(np.bincount(place, minlength=_CODES * count), 1)
    made: Floats = means[place].reshape(rows.shape)
    return made


def _steps(most: int, rows: Floats) -> Floats:
    """The nearest of equal steps, of which the largest magnitude is `most`."""
    step = _largest(rows) / most
    made: Floats = np.rint(rows / step) * step
    return made


def _floats(fraction: int, lowest: int, top: float, rows: Floats) -> Floats:
    """The nearest floating-point number: `fraction` bits, exponents from `lowest` on, the largest is `top`."""
    scale = _largest(rows) / top
    _, exponent = np.frexp(rows / scale)
    step = np.ldexp(scale, np.maximum(exponent - 1, lowest) - fraction)
    made: Floats = np.rint(rows / step) * step
    return made


def _signs(rows: Floats) -> Floats:
    """The sign, of 0 as of a positive number, times the root of the mean square."""
    made: Floats = np.where(rows >= 0, 1.0, -1.0) * np.sqrt(np.square(rows).mean(axis=1, keepdims=True))
    return made


def _largest(rows: Floats) -> Floats:
    """The largest magnitude of each row, (r, 1); 1 where all are 0."""
    largest: Floats = np.abs(rows).max(axis=1, keepdims=True)
    return np.where(largest > 0, largest, 1.0)


FORMATS: Mapping[FormatName, LowBits] = {
    "uint8": LowBits(8, SCALE_BYTES * _CODES, _means),
    "int8": LowBits(8, SCALE_BYTES, partial(_steps, 127)),
    "int4": LowBits(4, SCALE_BYTES, partial(_steps, 7)),
    "fp8": LowBits(8, SCALE_BYTES, partial(_floats, 3, -6, 448.0)),
    "e3m0": LowBits(4, SCALE_BYTES, partial(_floats, 0, 0, 64.0)),
    "sign": LowBits(1, SCALE_BYTES, _signs),
}
"""fp8 is E4M3, whose largest number is 448. E3M0 has a sign, seven powers of two, and 0."""


RING_MESSAGES = 2
"""Messages in which Prime's ring sends a part, so that one is rounded while the other one travels."""


class QuantisedAllReduce(Compressor, kind="quantised_all_reduce"):
    """Quantised all-reduce: messages are rounded to a few bits, and whoever receives one decodes it and adds in fp32.

    The bucket is one vector of d elements, in n parts. `exchange_by: ring`: a part is rounded, sent, decoded and added
    at each of n-1 hops, and rounded for the last time when it is whole: 2 (n-1)/n d bits/8 bytes and two codebooks of
    256 fp32 means in each of 2 (n-1) hops with `uint8` (INTELLECT-1, 2412.01152, 2024; PrimeIntellect-ai/prime). This
    holds on the topologies that sum around a ring. `all_to_all`: all parts are rounded and sent to their owners, who
    add them up, round the sums and gather them: (n-1)/n d bits/8 bytes each way (torchft, pull request 201, 2025, and
    ColossalAI, pull request 5928, 2024, in `fp8`, with a scale for each row; Streaming DiLoCo, 2501.18512, 2025, in
    `e3m0`, whose way to sum it leaves open; 1-bit Adam, 2102.02888, 2021, in `sign` with error feedback, of its
    momentum). Servers, where there are some, are the owners.

    Formats: `uint8` (the means of 256 steps), `int8` and `int4` (steps relative to the largest), `fp8` (E4M3), `e3m0`
    (a sign and a power of two), `sign` (times the root mean square). A rounding error belongs to the worker that
    rounds: with `error_feedback` it stays in that worker's residual. The ring is summed as a whole, so that the work
    of its hops comes before and after it, not between.

    - `format`: what values are rounded to.
    - `exchange_by`: how messages are summed.
    - `row`: elements that share a scale or codebook; none: all of a message. torchft: the last dimension of a matrix.
    - `on_host`: whether the host rounds and decodes, at the runtime's `host_element` seconds for each element and time,
      which are 0 unless it states them. Prime's first code took about 3.6 ns: two processes on one machine needed
      8.99 s for 1e9 elements in `uint8`, and 6.90 s for four times the bytes in fp32 (PrimeIntellect-ai/prime-diloco,
      pull request 23, 2024).
    """

    whole_only: ClassVar[str] = "elements in a row are rounded together"

    format: FormatName = "uint8"
    exchange_by: Literal["ring", "all_to_all"] = "ring"
    row: Count | None = None
    on_host: bool = False

    def message(self, numel: int, workers: int) -> tuple[int, int]:
        """Messages of a part, and elements of each."""
        messages = RING_MESSAGES if self.exchange_by == "ring" else 1
        return messages, -(-numel // (workers * messages))

    def part_bytes(self, numel: int, workers: int) -> float:
        """Bytes of one of n parts: codes, and the scale or codebook of each row."""
        messages, each = self.message(numel, workers)
        low = FORMATS[self.format]
        return messages * (packed(each, low.bits) + low.header * -(-each // (self.row or each)))

    def quantised(self, u: Values, block: Block) -> Values:
        """The values of each worker plus the errors that it makes, so that their sum is what all decode."""
        workers, numel = u.shape
        messages, each = self.message(numel, workers)
        owners = [owner for owner in range(workers) for _ in range(messages)]
        sent = u.astype(np.float64)
        for number, owner in enumerate(owners):
            rows = sent[:, number * each : (number + 1) * each]
            (self._around_ring if self.exchange_by == "ring" else self._at_owner)(rows, owner)
        return sent.astype(np.float32)

    def _around_ring(self, rows: Floats, owner: int) -> None:
        """Add errors to the values (n, m) of a message that ends its way at `owner`."""
        workers, total = len(rows), np.zeros(rows.shape[1])
        for hop in range(1, workers + 1):
            worker = (owner + hop) % workers
            total += rows[worker]
            decoded = self._rounded(total)
            rows[worker] += decoded - total
            total = decoded

    def _at_owner(self, rows: Floats, owner: int) -> None:
        """Add errors to the values (n, m) of a part that `owner` adds up."""
        for worker in range(len(rows)):
            rows[worker] = self._rounded(rows[worker])
        total = rows.sum(axis=0)
        rows[owner] += self._rounded(total) - total

    def _rounded(self, values: Floats) -> Floats:
        return FORMATS[self.format].rounded(values, self.row or max(1, len(values)))

    def compute(self, selection: Selection, bucket: Bucket, workers: int) -> list[Compute]:
        """All roundings, of d elements on a ring; those of what is sent to the owners."""
        return [*self.before(bucket), *self._rounding(bucket.numel, "selection")]

    def exchange(self, selection: Selection, bucket: Bucket, workers: int, style: Style) -> list[Step]:
        """The sum around the ring; or all-to-all, decoding, rounding and all-gather. Then what arrived is decoded."""
        numel, part = bucket.numel, self.part_bytes(bucket.numel, workers)
        if style == "push_pull":
            return [PushPull(workers * part, workers * part), self._decoding(numel)]
        if self.exchange_by == "ring":
            return [AllReduce(workers * part), self._decoding(2 * (workers - 1) / workers * numel)]
        return [
            Messages("all-to-all of quantised parts", (part,), all_to_all),
            self._decoding(numel),
            *self._rounding(numel / workers, "combine"),
            AllGather(part),
            self._decoding(numel),
        ]

    def _rounding(self, elements: float, phase: Literal["selection", "combine"]) -> list[Compute]:
        if self.on_host:
            return [per_call("host_merge", (elements,), 1, phase)]
        return [per_call("norm", (elements,), 1, phase), per_call("quantise", (elements,), 1, phase)]

    def _decoding(self, elements: float) -> Compute:
        return per_call("host_merge" if self.on_host else "dequantise", (elements,), 1, "combine")
