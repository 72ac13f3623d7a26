"""Quantised all-reduce: messages of 1 to 8 bits per value, sums in fp32."""

from __future__ import annotations

from typing import ClassVar, Literal

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
from simulator.sparsifiers.compressor import Compressor, packed
from simulator.sparsifiers.low_bits import FORMATS, FormatName

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
