"""One collective by itself: its time by the prices of `run`, its interval, and the bandwidths of nccl-tests."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from simulator.answers import Answer, Interval, in_json, says
from simulator.bounds import BOUNDS
from simulator.engine.plan.network_setup import NetworkSetup
from simulator.engine.plan.prices import Prices, price_steps
from simulator.engine.refusals import as_input_error
from simulator.errors import InputError, Problem
from simulator.fabrics.base import Fabric
from simulator.hardware.gpu import Gpu
from simulator.loading.documents import Document, validate_document
from simulator.models.exchange import PRIMITIVES, AllGather, Communication, Layout, Messages, all_to_all, ring_rounds
from simulator.prediction.doubts.network import RATE, START_UP, curve_width, links_of, scaled_curve, scaled_links
from simulator.prediction.doubts.own_error import model_error
from simulator.prediction.doubts.spread import Response, Spread
from simulator.scenario.cluster import MAX_WORKERS
from simulator.topologies.nccl import Nccl
from simulator.topologies.nccl_tuning import NEWEST
from simulator.units import show_bytes

Kind = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "point_to_point"]
SIZES = tuple(float(2**power) for power in range(16, 34))
"""Payloads of a table: 64 KiB to 8 GiB."""


class CollectiveTime(
    Answer,
    rename=in_json(
        size=("payload",),
        time=("time", "interval"),
        algorithm_bandwidth="algorithm_bandwidth_bytes_per_s",
        bus_bandwidth="bus_bandwidth_bytes_per_s",
    ),
):
    """What one collective takes."""

    payload: Annotated[float, says("payload: what every worker has before it or after it, the larger of both", "B")]
    time: Annotated[float, says("what it takes", "s")]
    interval: Annotated[Interval, says("90 % interval of the time", "s")]
    algorithm: Annotated[str, says("algorithm that carries it")]
    protocol: Annotated[str, says("protocol of the library; empty for messages")]
    algorithm_bandwidth: Annotated[float, says("payload over time", "B/s")]
    bus_bandwidth: Annotated[float, says("that times the share of the payload that the busiest link carries", "B/s")]
    source: Annotated[str, says("`measured` (a curve of this network) or `links` (the law of its links)")]
    reason: Annotated[str, says("why the library takes this algorithm; empty if it has no choice")]


class CollectiveTimes(Answer):
    """What a collective takes on a network, by its payload."""

    kind: Annotated[str, says("the collective")]
    network: Annotated[str, says("name of the network")]
    device: Annotated[str, says("name of the GPUs")]
    nodes: Annotated[int, says("number of nodes")]
    gpus_per_node: Annotated[int, says("GPUs of each node")]
    times: list[CollectiveTime]
    assumed: Annotated[list[str], says("what the times rest on, in words")]


def price_collective(
    kind: Kind, sizes: Sequence[float], network: Fabric, gpu: Gpu, layout: Layout, *, library: Nccl
) -> CollectiveTimes:
    """Price a collective of NCCL by itself, for each payload, on an idle network.

    Payloads are those of nccl-tests: the vector of a sum or broadcast; of a gather what every worker has afterwards, of
    a scatter and an all-to-all what it has before. In `point_to_point` every worker sends all of it to the next one.
    Bandwidths are nccl-tests' (NVIDIA/nccl-tests, doc/PERFORMANCE.md, 2024): algbw = S/t, and busbw = algbw times
    2 (n - 1)/n for an all-reduce, (n - 1)/n for a gather, a scatter and an all-to-all, 1 for the others. The interval
    is made as that of exchanges in `run`: from the rate and start-up of the links, or the curve that is used instead,
    and the model's own error.

    Raises InputError where there is nothing to exchange, where the cluster does not fit on the network, and for too
    many messages.
    """
    where = f"{kind} on {network.title}"
    least, most = 1.0, BOUNDS["size"].largest
    if wrong := [size for size in sizes if not least <= size <= most]:
        raise InputError(Problem(f"{where}: size", f"{least:g} B to {most:g} B", f"{wrong[0]:g} B"))
    if not 1 < layout.workers <= MAX_WORKERS:
        raise InputError(Problem(where, f"2 to {MAX_WORKERS:,} GPUs that exchange", f"{layout.workers:,}"))
    device = gpu.device or gpu.name

    def lay(fabric: Fabric) -> NetworkSetup:
        return NetworkSetup(library, fabric, fabric.wire(layout), device=device)

    def price(setup: NetworkSetup, some: Sequence[float]) -> Prices:
        return price_steps([_step(kind, size, layout) for size in some], [(0, n) for n in range(len(some))], setup)

    with as_input_error(where):
        here = lay(network)
        priced = [price(here, [size]) for size in sizes]
        ends = [[price(lay(fabric), sizes).seconds for fabric in both] for both in _ends(kind, network, layout)]
    own = model_error()
    half = math.log(own.errors.width) if own is not None and not gpu.ideal else 0.0
    passed = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0}.get(kind)
    times = list[CollectiveTime]()
    for number, (size, prices) in enumerate(zip(sizes, priced, strict=True)):
        time = float(prices.seconds[0])
        logs = [(math.log(low[number] / time), math.log(high[number] / time)) for low, high in ends]
        logs.append((-half, half))
        responses = tuple(Response(("end", str(place)), (), low, high) for place, (low, high) in enumerate(logs))
        interval = Spread(time, responses).interval()
        ((_, label),) = prices.algorithms
        algorithm, _, protocol = label.partition(" ") if kind in PRIMITIVES else ("messages", "", "")
        covered = [name for name, (_, inside) in prices.curves.items() if inside]
        source = "measured" if covered else "links"
        bus = size / time * (passed * (layout.workers - 1) / layout.workers if passed else 1.0)
        reason = next(iter(prices.reasons.values()), "")
        times.append(CollectiveTime(size, time, interval, algorithm, protocol, size / time, bus, source, reason))
    assumed = list(_assumed(kind, network, device, layout, library))
    return CollectiveTimes(kind, network.title, device, layout.nodes, layout.gpus_per_node, times, assumed)


def _step(kind: Kind, size: float, layout: Layout) -> Communication:
    """The communication step of a payload."""
    if kind == "all_to_all":
        return Messages(kind, (size / layout.workers,), all_to_all)
    if kind == "point_to_point":
        return Messages(kind, (size,), ring_rounds)
    return AllGather(size / layout.workers) if kind == "all_gather" else PRIMITIVES[kind](size)


def _ends(kind: Kind, network: Fabric, layout: Layout) -> Iterator[tuple[Fabric, Fabric]]:
    """The network with the lower and the upper end of everything in it that is uncertain."""
    for place, known in links_of(network, layout.nodes, layout.gpus_per_node):
        for part, width in ((RATE, known.rate), (START_UP, known.start_up)):
            if width > 1:
                low, high = (scaled_links(network, place, part, width, end) for end in (-1.0, 1.0))
                yield low, high
    if curve := network.measured_curve(kind, Nccl.kind, layout):
        width = curve_width(curve)
        low, high = (scaled_curve(network, curve.id, width**end) for end in (-1.0, 1.0))
        yield low, high


def _assumed(kind: Kind, network: Fabric, device: str, layout: Layout, library: Nccl) -> Iterator[str]:
    """What the times rest on, in words."""
    each, used = network.nics_of_rail, min(network.rails, layout.gpus_per_node)
    if layout.nodes > 1 and network.nics_per_node > 1:
        stated = "stated" if network.nics_per_gpu else "assumed: `nics_per_gpu` is not stated"
        yield f"{each * used} of the {network.nics_per_node} NICs of a node are used, {each} by a GPU ({stated})"
    for place, known in links_of(network, layout.nodes, layout.gpus_per_node):
        yield (
            f"links {place}: rate within a factor of {known.rate:.2g}, start-up within {known.start_up:.2g} "
            f"({known.level}; {known.source})"
        )
    if curve := network.measured_curve(kind, Nccl.kind, layout):
        low, high = (show_bytes(curve.points[place][0]) for place in (0, -1))
        yield f"{curve.id} was measured from {low} to {high}: within a factor of {curve_width(curve):.3g}"
    if kind not in PRIMITIVES:
        inner = network.node_links(range(layout.gpus_per_node)).latency
        start_ups = [network.latency] * (layout.nodes > 1) + [inner] * (layout.gpus_per_node > 1)
        yield "messages at the links' rate, each with the start-up of its link; those over one link in turn"
        if not all(start_ups):
            yield "no start-up of a message is stated for some of its links: times of small ones are lower bounds"
        return
    machine = network.machine(layout, device)
    version = library.tuning.version or machine.terms.version
    stated = "as the network states" if version else "assumed: the network states no version"
    yield f"NCCL {version or NEWEST} ({stated}), which takes the GPUs for {machine.generation}"
    if machine.generation == "cdna":
        yield "that is RCCL: rings and trees; its constants are assumed to be NCCL's for Ampere"


def read_library(**settings: str | None) -> Nccl:
    """NCCL with some of its settings. Raises InputError for values that it does not know."""
    given = {name: value for name, value in settings.items() if value is not None}
    return validate_document(Nccl.model_validate, Document("topology nccl", given, {}))
