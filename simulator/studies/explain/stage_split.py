"""What the seconds of an exchange's stages are spent on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.plan import Plan, Stage
from simulator.engine.plan.prices import Prices, price_steps
from simulator.engine.plan.work.kernels import Kernel
from simulator.engine.rounds.fold import fold
from simulator.models.curves import Floats
from simulator.models.exchange import Communication
from simulator.models.sharding import AXIS_OF
from simulator.models.wiring import Wiring
from simulator.records import replace
from simulator.scenario.scenario import Scenario

PARTS = ("start_up", "transfer", "software", "kernel", "sharing")
"""What an exchange's seconds are split into; `sharing` are those that other exchanges on the same links cost it."""
TRANSFER, KERNEL, SHARING = (PARTS.index(part) for part in ("transfer", "kernel", "sharing"))
SAME = 1e-9
"""Relative difference below which two times are equal."""


class StageSplitter:
    """Splits the seconds of a stage by pricing it again without latency on the same links."""

    def __init__(self, scenario: Scenario, plan: Plan) -> None:
        self.scenario, self.plan = scenario, plan
        self.instant = plan.wiring.instant()
        self.known: dict[tuple[int, int], Floats] = {}
        self.chains = plan.work.whole_chains
        self.stages = [[*first, *second] for first, second in zip(*plan.exchanges, strict=True)]
        self.start_up_shares = np.zeros(len(plan.work.steps))
        if not plan.live:
            self.start_up_shares = self._start_up_shares(plan.work.steps, plan.prices, plan.setup.network)
        self.shared_shares = dict[str, Floats]()
        for shared in plan.shards:
            shares = self._start_up_shares(shared.steps, shared.prices, shared.network)
            self.shared_shares |= shared.by_label(shares)
        if (divided := plan.divided) is not None:
            seconds = [axis.prices.seconds for axis in divided.axes]
            start_ups = [
                each * self._start_up_shares(axis.work.steps, axis.prices, axis.work.network)
                for axis, each in zip(divided.axes, seconds, strict=True)
            ]
            whole = divided.add_up(seconds)
            for label, each in divided.add_up(start_ups).items():
                self.shared_shares[label] = np.divide(
                    each, whole[label], out=np.zeros_like(each), where=whole[label] > 0
                )

    def _start_up_shares(self, steps: Sequence[Communication], prices: Prices, network: NetworkSetup) -> Floats:
        """Share of every step's price that comes from latency, by the link law."""
        law = network.fabric.model_copy(update={"measured": ()})
        network = replace(network, fabric=law)
        priced = price_steps(steps, (), network) if prices.curves else prices
        whole = priced.seconds
        instant = price_steps(steps, (), replace(network, wiring=network.wiring.instant()))
        bytes_only = instant.seconds - instant.start_up
        return 1 - np.divide(bytes_only, whole, out=np.ones_like(whole), where=whole > 0)

    def split(self, bucket: int, place: int, seconds: float, label: str = "") -> Floats:
        """Seconds of one stage by `PARTS`; they sum to `seconds`."""
        if label in self.shared_shares:
            start_up = seconds * float(self.shared_shares[label][bucket])
            return _split(start_up=start_up, transfer=seconds - start_up)
        if label in AXIS_OF:
            return _split(kernel=seconds)
        place %= len(self.stages[bucket])  # every micro-batch may exchange them again
        stage = self.stages[bucket][place]
        if not stage.collective:
            return _split(kernel=seconds)
        if (bucket, place) not in self.known:
            self.known[bucket, place] = (
                self._split_rounds(stage) if self.plan.live else self._split_price(bucket, place)
            )
        parts = self.known[bucket, place]
        total = float(parts.sum())
        if total <= 0:
            return _split(transfer=seconds)
        if seconds > total * (1 + SAME):
            parts = parts.copy()
            parts[SHARING] = seconds - total
            return parts
        return parts * (seconds / total)

    def _split_price(self, bucket: int, place: int) -> Floats:
        """A stage that has a price, by the share of it that comes from latency."""
        item = self.chains[bucket][place]
        if isinstance(item, Kernel):
            return _split(kernel=item.seconds)
        priced = float(self.plan.prices.seconds[item])
        start_up = priced * float(self.start_up_shares[item])
        software = self.stages[bucket][place].seconds - priced
        return _split(start_up=start_up, transfer=priced - start_up, software=software)

    def _split_rounds(self, stage: Stage) -> Floats:
        """A stage whose rounds share links with others, timed as if it had the links to itself."""
        overhead = self.plan.setup.runtime.message_overhead
        whole = self._fold(stage, self.plan.wiring, overhead)
        bare = self._fold(stage, self.plan.wiring, 0.0) if overhead else whole
        bytes_only = self._fold(stage, self.instant, 0.0)
        software = stage.seconds - stage.beside + whole - bare
        return _split(start_up=bare - bytes_only, transfer=bytes_only + stage.beside, software=software)

    @staticmethod
    def _fold(stage: Stage, wiring: Wiring, overhead: float) -> float:
        return float(fold(stage.rounds or [], wiring, np.zeros(len(wiring.node)), overhead=overhead).max())


def _split(**seconds: float) -> Floats:
    return np.array([seconds.get(part, 0.0) for part in PARTS])
