"""What a plan knows before it sees the numbers of a network; remembered, since the points of a sweep share it."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from simulator.component import expected
from simulator.engine.plan.collective_order import common_order
from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.setup import Setup
from simulator.engine.plan.work.costs import software_time
from simulator.engine.plan.work.division import divide
from simulator.engine.plan.work.kernels import Kernel
from simulator.engine.plan.work.mixed_gpus import prepare_all
from simulator.engine.plan.work.work import Work
from simulator.models.curves import Floats
from simulator.models.exchange import Ints
from simulator.models.small_cache import LatestResults
from simulator.records import Record


class ChainTable(Record):
    """The exchanges of b buckets as rows of at most s stages: seconds of kernels, and which are communication steps.

    `fixed` (b, s): seconds of kernels. `step` (b, s): the communication step, -1 for kernels and where there is none.
    `exists` (b,): whether a bucket exchanges anything. `software` (steps,): seconds of the runtime in each call.
    """

    fixed: Floats
    step: Ints
    exists: npt.NDArray[np.bool_]
    software: Floats

    @property
    def collective(self) -> npt.NDArray[np.bool_]:
        """Whether a stage is a collective, (b, s)."""
        return self.step >= 0

    def seconds(self, priced: Floats) -> Floats:
        """Seconds (n, b, s) of all stages, where the communication steps of n lanes take `priced` (n, steps)."""
        if not priced.shape[1]:
            return np.broadcast_to(self.fixed, (len(priced), *self.fixed.shape))
        return np.where(self.step >= 0, (priced + self.software)[:, self.step], self.fixed)


class Prepared(Record, eq=False, dict=True):
    """The work of a job, how workers differ in it, and the order of its buckets; arrays as in `Plan`."""

    work: Work
    pace: Floats
    selection: Floats
    selection_spread: Floats
    uses: list[tuple[int, int]]
    slots: list[int]
    order: list[int]
    priority: list[int]
    nbytes: list[float]
    software: Floats

    @cached_property
    def chain_table(self) -> ChainTable:
        """The exchanges as a table, for plans whose exchanges follow each other."""
        chains = self.work.chains
        shape = len(chains), max((len(chain) for chain in chains), default=0)
        fixed, step = np.zeros(shape), np.full(shape, -1)
        first: dict[int, int] = {}
        like = np.array([first.setdefault(id(chain), bucket) for bucket, chain in enumerate(chains)], dtype=np.int64)
        for bucket in first.values():
            for place, item in enumerate(chains[bucket]):
                if isinstance(item, Kernel):
                    fixed[bucket, place] = item.seconds
                else:
                    step[bucket, place] = item
        fixed, step = fixed[like], step[like]
        return ChainTable(fixed, step, np.array([bool(chain) for chain in chains]), self.software)


_prepared: LatestResults[Prepared] = LatestResults(128)


def prepare_job(setup: Setup, network: NetworkSetup) -> Prepared:
    """Buckets, selections and kernels of a job. Raises an expected-error where its parts cannot work together."""
    if setup.selections is not None:
        return _prepare(setup, network)
    parts = (setup.workload, setup.scheduler, setup.gpu, setup.runtime, setup.sparsifier, setup.topology)
    others = tuple((item.gpu.fingerprint, item.nodes, item.factor) for item in setup.others)
    orders = tuple((worker, tuple(order)) for worker, order in setup.orders.items())
    layout = setup.nodes, setup.gpus_per_node
    key: tuple[object, ...] = (*(part.fingerprint for part in parts), others, orders, layout, setup.concentration)
    if setup.scheduler.reads_costs:
        key = (*key, setup.fabric.fingerprint, network.wiring.node.tobytes(), setup.conditions)
    return _prepared.get(key, lambda: _prepare(setup, network))


def _prepare(setup: Setup, network: NetworkSetup) -> Prepared:
    division = divide(setup, network)
    work, (pace, selection, spread) = prepare_all(setup, network.wiring.layout.workers, division)
    slots = setup.topology.slots(work.buckets, [layer.name for layer in setup.workload.layers])
    return Prepared(
        work,
        pace,
        selection,
        spread,
        uses=[(slots[bucket], step) for bucket, step in work.uses],
        slots=slots,
        order=bucket_order(setup, len(work.buckets)),
        priority=division.first_layers,
        nbytes=division.nbytes,
        software=np.array([software_time(step, setup.runtime) for step in work.steps]),
    )


def bucket_order(setup: Setup, buckets: int) -> list[int]:
    """The buckets in the order of their collectives; pushes and pulls need no common order."""
    made = None
    if setup.orders and setup.scheduler.queue.by_priority:
        hint = "a scheduler by priority sets the order of collectives itself"
        raise expected("a scheduler that goes first in, first out", setup.scheduler.kind, hint)
    if setup.orders and setup.topology.style == "collective":
        made = common_order(setup.orders, setup.layout.workers, buckets)
    return list(range(buckets)) if made is None else made
