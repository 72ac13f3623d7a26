"""What is known of the collective library on a fabric: its protocols, and collectives that were measured."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Literal

from pydantic import Field, field_validator

from simulator.bounds import BOUNDS, Count
from simulator.component import Spec
from simulator.models.curves import Piecewise, rising
from simulator.units import BytesPerSecond, Density, Fraction, PositiveBytes, Seconds


class Protocol(Spec):
    """A protocol of the collective library, used as long as the payload per worker is small enough.

    NCCL's LL sends 4 bytes of data with a 4-byte flag: it reaches half of the bandwidth, at a low latency.

    - `name`: of the protocol.
    - `up_to_per_worker`: largest payload per worker that it carries.
    - `efficiency`: share of the bandwidth that it leaves to the payload.
    """

    name: str
    up_to_per_worker: PositiveBytes
    efficiency: Density = 1.0


class FittedLaw(Spec):
    """The measurements that a link law was fitted to: how far from them it is used says how wrong it may be.

    `bandwidth` and `latency` are those of the law; with others the law is not the one that was fitted.

    - `nodes`, `gpus_per_node`: of the largest cluster whose timings were fitted.
    - `fewest_nodes`, `fewest_gpus_per_node`: of the smallest one; if they are left out, there was one cluster only.
    - `smallest`: the smallest payload that was fitted; if it is left out, all sizes were. Payloads of 1 MiB and more do
      not show the start-up.
    - `version`: of the collective library, as in `nccl`.
    - `rate`, `start_up`: error of the two parts of a collective's time on sizes that were left out of the fit: root
      mean square of the logarithm of fitted over measured.
    """

    nodes: Count
    gpus_per_node: Count = 1
    fewest_nodes: Count | None = None
    fewest_gpus_per_node: Count | None = None
    bandwidth: BytesPerSecond
    latency: Seconds = 0.0
    smallest: PositiveBytes | None = None
    version: str = ""
    rate: Fraction | None = None
    start_up: Fraction | None = None

    def doublings(self, count: int, of: Literal["nodes", "gpus_per_node"]) -> float:
        """How often the nodes, or the GPUs of a node, were doubled, or halved, beyond what was fitted."""
        most = getattr(self, of)
        return math.log2(max(1.0, count / most, (getattr(self, f"fewest_{of}") or most) / count))


class MeasuredCollective(Spec):
    """A collective that was measured with one number of workers: seconds by bytes of payload.

    `bandwidth` and `latency` are those of the fabric that was measured; the curve applies to no other fabric.

    - `primitive`: the collective.
    - `topology`: kind whose time the curve replaces.
    - `workers`: number of workers of the measurement; the curve applies to this number only.
    - `gpus_per_node`: of the cluster that was measured.
    - `points`: pairs of payload and seconds, payloads rising.
    - `held_out_mape`: mean absolute relative error on points that were left out.
    - `source`: where the measurement was published.
    """

    primitive: Literal["all_reduce", "all_gather", "reduce_scatter", "broadcast"]
    topology: str
    workers: int = Field(ge=2, le=BOUNDS["count"].largest)
    gpus_per_node: Count
    bandwidth: BytesPerSecond
    latency: Seconds
    points: tuple[tuple[PositiveBytes, Seconds], ...] = Field(min_length=2)
    held_out_mape: Fraction | None = None
    source: str

    _checked = field_validator("points")(rising)

    @cached_property
    def curve(self) -> Piecewise:
        """The points as a curve, straight on log-log axes between them."""
        return Piecewise(points=self.points)

    @property
    def id(self) -> str:
        """Name of the curve in a result's `calibration`."""
        return f"{self.primitive}/{self.topology}/{self.workers}x{self.gpus_per_node}"
