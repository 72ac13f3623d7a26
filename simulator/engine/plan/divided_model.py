"""A model that several GPUs compute together: the part of one as a job, and what it waits for of the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, dropwhile, takewhile
from typing import NamedTuple

import numpy as np

from simulator.architectures.describing import divide_layers
from simulator.component import expected
from simulator.engine.plan.prices import price_steps
from simulator.engine.plan.setup import DividedModel, JointWork, Setup, group_network, refuse_unlike
from simulator.engine.plan.work.passes import compute_of
from simulator.engine.plan.work.shared_work import AxisPart, AxisPrices, Calls
from simulator.fabrics.wide_area import WideArea
from simulator.hardware.operator_times import OperatorClock
from simulator.models.curves import Floats
from simulator.models.exchange import (
    AllGather,
    AllReduce,
    Bucket,
    Communication,
    Ints,
    Messages,
    ReduceScatter,
    all_to_all,
    sum_by_bucket,
)
from simulator.models.layers import Layer, Workload, block_of
from simulator.models.operators import ARITHMETIC_BYTES, COLLECTIVES, WHOLE, DescribedTensor, Description, Operator
from simulator.models.pipeline import (
    NO_BUBBLE,
    Bubble,
    Parallelism,
    PipelineStages,
    most_in_flight,
    order_stage,
    run_pipeline,
    spread_blocks,
)
from simulator.models.sharding import JOINT_LABELS, LAYERS
from simulator.models.small_cache import LatestResults, ResultsOfObjects
from simulator.records import replace
from simulator.schedulers.sharded import Sharded, units_of


def divide_model(setup: Setup, parallelism: Parallelism, stage: int) -> Setup:
    """The job of a GPU of a stage, whose workers are those with the same part of the weights.

    The first stage ends an iteration: its last backward pass comes after those of all others, so that nothing hides
    its exchange. What others hold in memory is asked for as well, their times are not. Raises an expected-error where
    the model or the cluster cannot be divided so.
    """
    if not parallelism.divides:
        return setup
    _refuse_unfit(setup, parallelism)
    part, described = _part_of(setup, parallelism)
    experts = np.array([tensor.active is not None for tensor in described.tensors])
    if parallelism.expert > 1 and not experts.any():
        raise expected("a model with `experts` that are trained, for an `expert` axis", "one without them")
    batches = part.micro_batches
    tensor, each, pipeline = parallelism.tensor, setup.gpus_per_node, parallelism.pipeline
    strides = {"tensor": 1, "context": tensor, "expert": tensor}
    alike = setup.workers // parallelism.parts
    inside = min(alike, max(1, each // tensor))
    stages = _divide_stages(setup, described, pipeline)
    model = DividedModel(
        parallelism,
        tuple(
            JointWork(group_network(setup, getattr(parallelism, name), strides[name]), *work)
            for name, work in _joint_work(setup, described, parallelism).items()
        ),
        chunk=stages.chunk,
        forward=np.array([layer.forward for layer in part.layers]) / batches,
        backward=np.array([layer.backward for layer in part.layers]) / batches,
        link=group_network(setup, 2, tensor * alike) if pipeline.stages > 1 else None,
        sent=AllGather(
            _boundary_elements(setup, tensor * parallelism.context) * ARITHMETIC_BYTES[described.arithmetic]
        ),
        experts=experts,
        stage=stage,
        unlike=stages.unlike,
    )
    mine, frozen = model.mine.tolist(), stages.frozen
    workload = part.model_copy(
        update={
            "layers": tuple(replace(part.layers[layer], frozen=frozen[layer]) for layer in mine),
            "activation_bytes": part.activation_bytes and stages.kept[stage] * part.activation_bytes,
            "frozen_bytes": setup.workload.bytes_of_frozen * sum(frozen[layer] for layer in mine) or None,
        }
    )
    return replace(
        setup,
        workload=workload,
        scheduler=setup.scheduler.in_stages(pipeline.runs) if pipeline.stages > 1 else setup.scheduler,
        nodes=alike // inside,
        gpus_per_node=inside,
        fabric=setup.fabric.shared_by(parallelism.parts, each // inside),
        divided=model,
        groups=parallelism.parts,
    )


class _Stages(NamedTuple):
    """The chunk (L,) and the frozen elements of each layer; what each stage keeps; and stages that are not alike."""

    chunk: Ints
    frozen: list[int]
    kept: list[float]
    unlike: tuple[int, ...]


_stages: ResultsOfObjects[_Stages] = ResultsOfObjects(64)


def _divide_stages(setup: Setup, described: Description, pipeline: PipelineStages) -> _Stages:
    """What each stage of a pipeline has. Raises an expected-error where there are fewer blocks than chunks."""
    batches = setup.workload.micro_batches // pipeline.runs

    def make() -> _Stages:
        chunk, frozen = _chunks_of(setup.workload.layers, pipeline), _frozen_of(described, pipeline)
        kept = _most_kept(described, pipeline, chunk, batches)
        return _Stages(chunk, frozen, kept, tuple(_unlike_stages(described, frozen, chunk, pipeline, kept)))

    return _stages.get((described,), make, pipeline.fingerprint, batches)


def _frozen_of(described: Description, pipeline: PipelineStages) -> list[int]:
    """Elements that are not trained, with each tensor: what stands before the first one is in the first stage."""
    made = [tensor.frozen for tensor in described.tensors]
    if pipeline.stages > 1:
        made[0] += described.ahead
        made[-1] -= described.ahead
    return made


def _most_kept(described: Description, pipeline: PipelineStages, chunk: Ints, batches: int) -> list[float]:
    """Activations that each stage keeps at most, as a share of those of the whole model for a micro-batch."""
    kept = np.array([tensor.kept for tensor in described.tensors]) / described.samples / described.kept_bytes
    if pipeline.stages == 1:
        return [float(kept.sum())]
    each, stages = np.bincount(chunk, weights=kept, minlength=pipeline.stages * pipeline.chunks), pipeline.stages
    turns = [order_stage(pipeline.schedule, stage, stages, pipeline.chunks, batches) for stage in range(stages)]
    return [most_in_flight(turn, each[pipeline.chunks_of(stage)].tolist()) for stage, turn in enumerate(turns)]


def _unlike_stages(
    described: Description, frozen: Sequence[int], chunk: Ints, pipeline: PipelineStages, kept: Sequence[float]
) -> list[int]:
    """Of stages that have layers alike the one that keeps most, in their order."""
    members: list[list[tuple[int, int]]] = [[] for _ in range(pipeline.stages * pipeline.chunks)]
    for tensor, number, held in zip(described.tensors, chunk.tolist(), frozen, strict=True):
        members[number].append((tensor.numel, held))
    alike = dict[tuple[tuple[int, int], ...], list[int]]()
    for stage in range(pipeline.stages):
        own = tuple(each for number in pipeline.chunks_of(stage) for each in members[number])
        alike.setdefault(own, []).append(stage)
    return sorted(max(stages, key=lambda stage: kept[stage]) for stages in alike.values())


_Joint = tuple[tuple[Communication, ...], Ints, Floats, Floats]
"""What GPUs of an axis do together, as of `JointWork`, whatever their network."""
_joint: ResultsOfObjects[dict[str, _Joint]] = ResultsOfObjects(64)
_parts: LatestResults[tuple[Workload, Description]] = LatestResults(64)


def _part_of(setup: Setup, parallelism: Parallelism) -> tuple[Workload, Description]:
    """What a GPU has of all layers, and its operators. Its times and activations differ from what follows from these as
    those of the whole model do: where they were stated, or are asked about."""
    workload = setup.workload
    key = workload.fingerprint, workload.origin, setup.gpu.fingerprint, setup.runtime.fingerprint, parallelism.split
    return _parts.get(key, lambda: _make_part(setup, parallelism))


def _make_part(setup: Setup, parallelism: Parallelism) -> tuple[Workload, Description]:
    workload, how = setup.workload, setup.runtime.element_wise
    part, described = divide_layers(workload, parallelism.split, setup.gpu, how)
    estimated, whole = divide_layers(workload, WHOLE, setup.gpu, how)
    own = workload.stretched(compute_of(setup).update_alone)

    def times(layer: Layer, stated: Layer, estimate: Layer) -> Layer:
        forward = layer.forward * stated.forward / (estimate.forward or 1.0)
        backward = layer.backward * stated.backward / (estimate.backward or 1.0)
        return replace(layer, forward=forward, backward=backward)

    layers = tuple(map(times, part.layers, own.layers, estimated.layers))
    kept = workload.activation_bytes and workload.activation_bytes * described.kept_bytes / whole.kept_bytes
    return part.model_copy(update={"layers": layers, "compute_time": None, "activation_bytes": kept}), described


def _joint_work(setup: Setup, described: Description, parallelism: Parallelism) -> dict[str, _Joint]:
    """What GPUs do together, by axis."""
    gpu, how = setup.gpu, setup.runtime.element_wise

    def make() -> dict[str, _Joint]:
        clock = OperatorClock(gpu, described.arithmetic, element_wise=how)
        axes = [name for name in ("tensor", "context", "expert") if getattr(parallelism, name) > 1]
        return {name: _work_on_axis(name, described.tensors, clock, parallelism) for name in axes}

    return _joint.get((described, gpu), make, how, parallelism.split, parallelism.overlap)


def _work_on_axis(
    name: str, tensors: Sequence[DescribedTensor], clock: OperatorClock, parallelism: Parallelism
) -> _Joint:
    """The collectives of an axis in every layer, and what runs beside them.

    Of those that overlap products, one of as many parts as there are GPUs has no product beside it: a GPU has the first
    part of a gather, which needs no message, and sends the last one of a reduce-scatter when nothing is left to do.
    """
    count: int = getattr(parallelism, name)
    overlaps = name == "tensor" and parallelism.overlap
    passes = [[tensor.forward for tensor in tensors], [tensor.backward for tensor in tensors]]
    wanted = [operator for way in passes for each in way for operator in each if operator.kind in COLLECTIVES]
    different = dict.fromkeys((each.kind, each.nbytes) for each in wanted if each.name == name)
    number = {key: place for place, key in enumerate(different)}
    calls = np.zeros((2, len(tensors), len(number)), dtype=np.int64)
    beside = np.zeros((2, len(tensors)))
    for way, every in enumerate(passes):
        for layer, operators in enumerate(every):
            for operator in operators:
                if operator.name == name and operator.kind in COLLECTIVES:
                    calls[way, layer, number[operator.kind, operator.nbytes]] += 1
            if name == "context":  # keys and values go round while those that are there are worked on
                beside[way, layer] = clock.time(each for each in operators if each.kind == "attention")
    if overlaps:
        beside = (count - 1) / count * _seconds_of_products(passes, clock)
    steps = tuple(_as_step(kind, nbytes, count) for kind, nbytes in number)
    last = np.array([overlaps * (kind == "reduce_scatter") / count for kind, _ in number])
    return steps, calls, beside, last


def _is_beside(operator: Operator) -> bool:
    """Whether a collective of the tensor axis runs beside it: products with their casts and the gradients of biases."""
    in_between = operator.kind == "rows" or operator.name.startswith("cast")
    return in_between or (operator.kind == "product" and operator.batch == 1)


def _seconds_of_products(passes: Sequence[Sequence[Sequence[Operator]]], clock: OperatorClock) -> Floats:
    """Seconds (2, L) of the products of weights that follow each gather of the tensor axis, and that precede each
    reduce-scatter and the gather before it, up to an activation, attention or another collective."""
    made = np.zeros((2, len(passes[0])))

    def is_joint(operator: Operator) -> bool:
        return operator.name == "tensor" and operator.kind in COLLECTIVES

    for way, every in enumerate(passes):
        in_turn = range(len(every))[:: -1 if way else 1]
        order = [operator for layer in in_turn for operator in every[layer]]
        layers = [layer for layer in in_turn for _ in every[layer]]
        for place, operator in enumerate(order):
            if is_joint(operator):
                if operator.kind == "all_gather":
                    near: Iterable[Operator] = (order[one] for one in range(place + 1, len(order)))
                else:
                    near = dropwhile(is_joint, (order[one] for one in range(place - 1, -1, -1)))
                run = takewhile(_is_beside, near)
                made[way, layers[place]] += clock.time(each for each in run if each.kind == "product")
    return made


def _as_step(kind: str, nbytes: float, count: int) -> Communication:
    if kind == "all_to_all":
        return Messages("AllToAll of tokens", (nbytes / count,), all_to_all)
    if kind == "all_gather":
        return AllGather(nbytes / count)
    return ReduceScatter(nbytes) if kind == "reduce_scatter" else AllReduce(nbytes)


def _boundary_elements(setup: Setup, inner: int) -> float:
    """Elements of a micro-batch that a GPU sends to the next stage, which its peers there share out among them."""
    architecture = setup.workload.origin.architecture
    return float(setup.workload.pass_size * architecture.length * architecture.hidden / inner)


def _chunks_of(layers: Sequence[Layer], pipeline: PipelineStages) -> Ints:
    """The chunk of each tensor: blocks as even as can be, with what is before and after them, which count as blocks
    where there are more chunks (`--account-for-embedding-in-pipeline-split` of Megatron-Core)."""
    count = pipeline.stages * pipeline.chunks
    units = units_of(layers)[::-1]
    blocks = [place for place, unit in enumerate(units) if block_of(layers[unit[0]].name) is not None]
    places = blocks if count <= len(blocks) else range(len(units))
    if len(places) < count:
        hint = "every chunk of every stage has a block, or what is before or after them"
        raise expected(f"at most {len(places)} chunks for a model of {len(blocks)} blocks", str(count), hint)
    ends = [places[end - 1] for end in accumulate(spread_blocks(len(places), count))]
    ends[-1] = len(units) - 1
    made = np.zeros(len(layers), dtype=np.int64)
    for place, unit in enumerate(units):
        made[unit] = np.searchsorted(ends, place)
    return made


def _refuse_unfit(setup: Setup, parallelism: Parallelism) -> None:
    size, each, pipeline = parallelism.copy_size, setup.gpus_per_node, parallelism.pipeline
    inner, batches, runs = parallelism.tensor * parallelism.context, setup.workload.micro_batches, pipeline.runs
    if setup.workers % size:
        raise expected(f"a `parallelism` that divides {setup.workers} GPUs", f"{size} GPUs for a copy of the model")
    if each % inner and inner % each:
        hint = "GPUs that share layers fill whole nodes, or several groups fit into one"
        raise expected(f"a tensor and context axis that fit nodes of {each} GPUs", str(inner), hint)
    alike = setup.workers // parallelism.parts
    inside = max(1, each // parallelism.tensor)
    if alike % inside and inside % alike:
        raise expected(f"GPUs with the same weights that fill nodes evenly, {inside} in each", str(alike))
    if batches % runs:
        raise expected(f"a multiple of {runs} `micro_batches`, the `runs` of the pipeline", str(batches))
    if pipeline.schedule == "1f1b" and pipeline.chunks > 1 and (batches := batches // runs) % pipeline.stages:
        hint = "an interleaved schedule takes micro-batches in groups of as many as there are stages"
        raise expected(f"a multiple of {pipeline.stages} `micro_batches`{' in a run' * (runs > 1)}", str(batches), hint)
    if setup.scheduler.gated or setup.scheduler.period is not None:
        hint = "take `wfbp`, `bucketed`, `megatron`, `zero` or `fsdp`, also `inside` local steps"
        raise expected("a scheduler whose iterations follow each other, for `parallelism`", setup.scheduler.kind, hint)
    if isinstance(setup.fabric, WideArea) and setup.nodes > max(site.nodes for site in setup.fabric.sites):
        hint = "which sites the GPUs of a copy are in is not known"
        raise expected("a network within one site, for `parallelism`", setup.fabric.kind, hint)
    refuse_unlike(setup, "`parallelism`")
    if parallelism.expert > 1:
        _refuse_unfit_experts(setup, parallelism.expert, parallelism.tensor, alike)


def _refuse_unfit_experts(setup: Setup, size: int, tensor: int, copies: int) -> None:
    scheduler, each = setup.scheduler, setup.gpus_per_node
    if not isinstance(scheduler, Sharded):
        hint = "take `megatron`, `zero` or `fsdp`, which reduce experts over fewer GPUs than all else"
        raise expected("a sharded schedule, for an `expert` axis", scheduler.kind, hint)
    if scheduler.gather_wire or scheduler.reduce_wire or scheduler.copies.in_nodes:
        what = "a schedule without `gather_wire`, `reduce_wire` and `keep: node`, for an `expert` axis"
        raise expected(what, scheduler.name)
    shared = scheduler.shard or copies
    if shared % size or copies % size:
        hint = "experts are divided among GPUs that share one model, or all copies of it"
        raise expected(f"an `expert` that divides {shared} GPUs", str(size), hint)
    if each % (tensor * size) and (tensor * size) % each:
        raise expected(f"an expert axis that fits nodes of {each} GPUs", f"{size} groups of {tensor}")


def price_divided(
    model: DividedModel | None, buckets: Sequence[Bucket], batches: int
) -> tuple[list[AxisPrices], list[AxisPart], Bubble]:
    """What a GPU waits for where others have parts of the same model: collectives, all of their parts, and other
    stages. Nothing for a model that is whole on every GPU."""
    if model is None:
        return [], [], NO_BUBBLE
    mine = model.mine
    shares = 1 / np.maximum(1, np.bincount(list(chain.from_iterable(b.layers for b in buckets)), minlength=len(mine)))

    def by_name(values: Floats) -> dict[str, Floats]:
        """Values (2, L, ...) of layers on both passes, of each bucket and of whole passes, by the name of the cost; a
        tensor that is cut into slices has its share in each."""
        own = np.moveaxis(np.moveaxis(values[:, mine], 1, -1) * shares, -1, 1)
        each = [*(sum_by_bucket(way, buckets) for way in own), *own.sum(1, keepdims=True)]
        return dict(zip(JOINT_LABELS, each, strict=True))

    joint, axes = np.zeros((2, len(model.chunk))), list[AxisPrices]()
    for axis in model.axes:
        prices, calls = price_steps(axis.steps, (), axis.network), dict[str, Calls]()
        joint += axis.exposed(prices.seconds)
        for name, each in by_name(axis.calls.astype(float)).items():
            unit, step = np.indices(each.shape)
            calls[JOINT_LABELS[name]] = Calls(name, unit.ravel(), step.ravel(), each.ravel())
        axes.append(AxisPrices(LAYERS, axis.network, axis.steps, prices, calls))
    steps = tuple(step for axis in model.axes for step in axis.steps)
    parts = [AxisPart(name, JOINT_LABELS[name], steps, each) for name, each in by_name(joint).items() if steps]
    return axes, parts, _bubble(model, joint, batches)


def _bubble(model: DividedModel, joint: Floats, batches: int) -> Bubble:
    """For how long the first stage waits for the others: as they are, and if they communicated in no time.

    Each run of the schedule fills and drains the stages; the first one ends last.
    """
    pipeline = model.parallelism.pipeline
    if model.link is None:
        return NO_BUBBLE
    count = pipeline.stages * pipeline.chunks

    def run(joint: Floats, send: float) -> float:
        each = (model.forward + joint[0], model.backward + joint[1])
        forward, backward = (tuple(np.bincount(model.chunk, weights=way, minlength=count).tolist()) for way in each)
        run = run_pipeline(pipeline.schedule, pipeline.stages, batches // pipeline.runs, forward, backward, send=send)
        return pipeline.runs * run.bubble

    send = float(price_steps([model.sent], (), model.link).seconds[0])
    return Bubble(run(joint, send), run(np.zeros_like(joint), 0.0))
