"""What a method selects in each bucket, by which steps it exchanges that, and what a GPU takes for them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from simulator.engine.plan.setup import Setup
from simulator.engine.plan.work.kernels import Kernel, KernelPrices, add_host_work, chain_steps
from simulator.models.exchange import (
    AllGather,
    AllReduce,
    Bucket,
    Communication,
    Compute,
    Ints,
    Messages,
    ReduceScatter,
    Selection,
    Step,
    bytes_of_step,
)
from simulator.models.layers import Workload
from simulator.models.precision import NUMBER_BYTES, Precision
from simulator.models.small_cache import ResultsOfObjects
from simulator.records import replace
from simulator.sparsifiers.base import Sparsifier, Style
from simulator.sparsifiers.implementation import Steps


def in_precision(bucket: Bucket, precision: Precision) -> Bucket:
    """The bucket with the bytes that its values and indices have on the network."""
    indices = precision.index_bytes(bucket.index_bytes), precision.index_bytes(bucket.long_index_bytes)
    if (bucket.value_bytes, bucket.index_bytes, bucket.long_index_bytes) == (precision.value_bytes, *indices):
        return bucket
    return replace(bucket, value_bytes=precision.value_bytes, index_bytes=indices[0], long_index_bytes=indices[1])


def steps_with_casts(
    method: Sparsifier, selection: Selection, bucket: Bucket, workers: int, style: Style, *, precision: Precision
) -> Steps:
    """The steps of a method; values that are kept in another format than they travel in are cast, step by step.

    A worker casts what it sends, from the residual's format or, without one, the gradients', and what it receives, to
    the gradients' format. How many values a step carries follows from its bytes with values of twice the bytes.
    """
    chosen, exchange = method.carry_out(selection, bucket, workers, style)
    kept = precision.residuals if method.has_residual else precision.gradients
    before, after = kept != precision.sent_as, precision.gradients != precision.sent_as
    if not (before or after):
        return chosen, exchange
    doubled = method.carry_out(selection, replace(bucket, value_bytes=2 * bucket.value_bytes), workers, style)[1]
    made: list[Step] = []
    for step, twice in zip(exchange, doubled, strict=True):
        if isinstance(step, Compute) or isinstance(twice, Compute):
            made.append(step)
            continue
        sent, received = (
            (more - less) / NUMBER_BYTES[precision.sent_as]
            for less, more in zip(bytes_of_step(step, workers), bytes_of_step(twice, workers), strict=True)
        )
        if isinstance(step, Messages) and sent:
            sent = received = float(selection.largest)
        made += [
            *([_cast(sent)] if before and sent else []),
            step,
            *([_cast(received)] if after and received else []),
        ]
    return chosen, made


def _cast(elements: float) -> Compute:
    return Compute("cast", (elements,), 1, "combine")


def mixed_precision_kernels(workload: Workload) -> list[Compute]:
    """What the update takes in addition to the optimiser's kernel, once for all gradients together.

    Loss scaling: one pass that checks and unscales all gradients, and a read of its flag by the host
    (`_amp_foreach_non_finite_check_and_unscale_` and `found_inf.item()` in PyTorch's GradScaler). Master weights: the
    gradients become fp32, in the pass that unscales them if there is one (apex, `multi_tensor_scale`), and the weights
    are copied back to 16 bits after the step (`master_params_to_model_params`).
    """
    precision, whole = workload.precision, (float(workload.numel),)
    cast = Compute("cast", whole, 1, "combine")
    unscale = [Compute("unscale", whole, 1, "combine", reads=1)] if precision.scales_loss else []
    if not precision.has_master_weights:
        return unscale
    return [*(unscale or [cast]), cast]


Chain = tuple[Kernel | int, ...]
"""An exchange up to its last communication: kernels with their seconds, and indices of communication steps."""


class Selected(NamedTuple):
    """What workers select in a job's buckets, and how they exchange it, on any GPU.

    `buckets`, as the runtime fills them, and their `selections`. `steps` (n,): the different exchanges, each with the
    first bucket that has it; empty for one worker, who exchanges nothing. `number` (b,): which of them each bucket has.
    `density`: the densities of a result, as shares of all elements, with build-up and padding.
    """

    buckets: tuple[Bucket, ...]
    selections: tuple[Selection, ...]
    steps: tuple[tuple[Bucket, Steps], ...]
    number: Ints
    density: dict[str, float]


_known: ResultsOfObjects[Selected] = ResultsOfObjects(64)


def select_in(setup: Setup, buckets: tuple[Bucket, ...]) -> Selected:
    """What is selected in a job's buckets; remembered, since what changes with the GPU are the prices."""
    if setup.selections is not None:
        return _select(setup, buckets)
    style, precision = setup.topology.style, setup.workload.precision
    method = type(setup.sparsifier), setup.sparsifier.fingerprint
    also = (*method, setup.workers, style, precision, setup.concentration, setup.runtime.fills_buckets)
    return _known.get((buckets,), lambda: _select(setup, buckets), *also)


def _select(setup: Setup, buckets: tuple[Bucket, ...]) -> Selected:
    filled = tuple(replace(bucket, filled=True) for bucket in buckets) if setup.runtime.fills_buckets else buckets
    expected, different = dict[object, Selection](), dict[object, int]()
    selections, steps, number = list[Selection](), list[tuple[Bucket, Steps]](), list[int]()
    for place, bucket in enumerate(buckets):
        method, alike = setup.sparsifier.at_density(bucket.density), (bucket.pieces, bucket.density)
        if setup.selections is not None:
            selection = setup.selections[place]
        elif alike not in expected:
            selection = expected[alike] = method.expect(bucket, setup.workers, setup.concentration)
        else:
            selection = expected[alike]
        selections.append(selection)
        # Buckets of the same sizes have the same steps and prices.
        number.append(different.setdefault((*alike, bucket.rows, id(selection)), len(steps)))
        if number[-1] == len(steps):
            made = steps_of(setup, method, filled[place], selection) if setup.workers > 1 else ([], [])
            steps.append((filled[place], made))
    return Selected(filled, tuple(selections), tuple(steps), np.array(number), _density(buckets, selections))


def steps_of(setup: Setup, method: Sparsifier, bucket: Bucket, selection: Selection) -> Steps:
    """The steps by which a selection is made and exchanged."""
    style, precision = setup.topology.style, setup.workload.precision
    return steps_with_casts(method, selection, bucket, setup.workers, style, precision=precision)


def _density(buckets: Sequence[Bucket], selections: Sequence[Selection]) -> dict[str, float]:
    d = sum(bucket.numel for bucket in buckets)
    different = {id(item): item for item in selections}
    mean = {key: float(item.selected.sum()) / len(item.selected) for key, item in different.items()}
    independent = {k: item.without_overlap if item.exclusive else mean[k] for k, item in different.items()}
    selected = math.fsum(mean[id(item)] for item in selections)
    aggregated = math.fsum(item.aggregated for item in selections)
    return {
        "target": math.fsum(item.target for item in selections) / d,
        "selected": selected / d,
        "aggregated": aggregated / d,
        "build_up": aggregated / math.fsum(independent[id(item)] for item in selections) if selected else 1.0,
        "padding": math.fsum(item.largest for item in selections) / selected if selected else 1.0,
    }


class PricedExchange(NamedTuple):
    """One exchange on a GPU: seconds of the selection before it, their standard deviation, and seconds of the kernels
    after it; its chain, and the half that follows after all reductions, where an all-reduce is split in two."""

    selection: float
    spread: float
    after: float
    chain: Chain
    half: Chain


def price_exchanges(
    setup: Setup, exchanges: Iterable[tuple[Bucket, Steps, int]], pricing: KernelPrices, *, decoupled: bool
) -> tuple[list[PricedExchange], tuple[Communication, ...], float]:
    """Every exchange, of which an iteration has so many; the communication steps of all, each kind once; and seconds of
    what the host does ahead of them.

    `decoupled`: the last all-reduce of an exchange becomes a reduce-scatter, and the all-gather that completes it.
    """
    made, steps, ahead = list[PricedExchange](), dict[Communication, int](), 0.0
    for bucket, (before, between), times in exchanges:
        pricing.times = 1  # threads of the host do the same for several buckets side by side
        ahead = max([ahead, *(pricing.cost(item) for item in before if item.ahead)])
        pricing.times = times
        chosen = [item for item in before if not item.ahead]
        selection = math.fsum(pricing.cost(item) for item in chosen)
        spread = math.fsum(pricing.spread(item) for item in chosen)
        exchange, second = add_host_work(between, bucket, setup.runtime), list[Step]()
        if decoupled:
            exchange, second = _decouple(exchange, setup.workers)
        chain, after = chain_steps(exchange, pricing, steps)
        made.append(PricedExchange(selection, spread, after, chain, chain_steps(second, pricing, steps)[0]))
    return made, tuple(steps), ahead


def _decouple(exchange: Sequence[Step], workers: int) -> tuple[list[Step], list[Step]]:
    """The exchange with its last all-reduce split into a reduce-scatter, and the all-gather that completes it."""
    places = [i for i, step in enumerate(exchange) if not isinstance(step, Compute)]
    last = exchange[places[-1]] if places else None
    if not isinstance(last, AllReduce):
        return list(exchange), []
    first: list[Step] = list(exchange)
    first[places[-1]] = ReduceScatter(last.nbytes)
    return first, [AllGather(last.nbytes / workers)]
