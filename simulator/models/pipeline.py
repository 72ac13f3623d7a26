"""How several GPUs compute one model: how a person writes it, and how long stages of a pipeline wait."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Literal, NamedTuple

from pydantic import Field

from simulator.component import Spec, expected
from simulator.models.layers import MAX_MICRO_BATCHES
from simulator.models.operators import WHOLE, Split

Schedule = Literal["gpipe", "1f1b", "zb_h1", "zb_v"]
Op = Literal["forward", "backward", "weights"]
PERIODS = 4
"""Rounds of as many micro-batches as there are stages that are followed one by one; more of them repeat the last."""


class Turn(NamedTuple):
    """One piece of a stage's work: a pass of one of its chunks, numbered on the stage, over a micro-batch."""

    op: Op
    chunk: int
    batch: int


def place_chunk(schedule: Schedule, stage: int, stages: int, chunk: int) -> int:
    """The number of a stage's chunk in the order of the model: stages take turns, in `zb_v` there and back.

    >>> [place_chunk(schedule, 1, 4, 1) for schedule in ("1f1b", "zb_v")]
    [5, 6]
    """
    back = schedule == "zb_v" and chunk % 2
    return chunk * stages + (stages - 1 - stage if back else stage)


@lru_cache(maxsize=64)
def order_stage(schedule: Schedule, stage: int, stages: int, chunks: int, batches: int) -> Sequence[Turn]:
    """The work of a stage, in its order.

    - `gpipe`: all forward passes, then all backward passes (Huang et al. 2019, 1811.06965).
    - `1f1b`: after some forward passes, one backward pass follows each forward pass; with several `chunks` a stage,
      micro-batches go through in groups of as many as there are stages (Narayanan et al. 2021, 2104.04473).
    - `zb_h1`: `1f1b`, with the gradients of weights apart from those of inputs, of which stage s puts off as many as
      keep its activations at those of the first stage (Qi et al. 2023, 2401.10241, section 2).
    - `zb_v`: a first chunk on the way there and a second one on the way back, so that the first stage has the end of
      the model, too, with the gradients of weights apart (Qi et al. 2023, 2401.10241, section 6;
      V-ZB in Qi et al. 2024, 2405.15362).

    >>> [f"{turn.op[0]}{turn.batch}" for turn in order_stage("1f1b", 0, 2, 1, 3)]
    ['f0', 'f1', 'b0', 'f2', 'b1', 'b2']
    """
    if schedule == "zb_v":
        return _order_there_and_back(stage, stages, batches)
    count = chunks * batches

    def turn(op: Op, number: int) -> Turn:
        group, place = divmod(number, stages * chunks)
        chunk = place // stages if chunks > 1 else 0
        batch = group * stages + place % stages if chunks > 1 else number
        return Turn(op, chunk if op == "forward" else chunks - 1 - chunk, batch)

    ahead = (stages - stage - 1) * (2 if chunks > 1 else 1) + (chunks - 1) * stages
    ahead = count if schedule == "gpipe" else min(ahead, count)
    made = [turn("forward", number) for number in range(ahead)]
    put_off = 0
    for number in range(count):
        if ahead + number < count:
            made.append(turn("forward", ahead + number))
        made.append(turn("backward", number))
        if schedule == "zb_h1":
            put_off += 1
            if put_off > stage or ahead + number >= count:
                made.append(turn("weights", number + 1 - put_off))
                put_off -= 1
    return [*made, *(turn("weights", count - left) for left in range(put_off, 0, -1))]


def _order_there_and_back(stage: int, stages: int, batches: int) -> list[Turn]:
    """The work of a stage in `zb_v`, in the order of PyTorch's ScheduleZBVZeroBubble (torch/distributed/pipelining):
    six passes that repeat, up to which forward passes fill the stages, and after which gradients of weights do."""
    made, done, most = list[Turn](), Counter[tuple[Op, int]](), max(2 * stages - 1, batches)

    def add(*passes: tuple[Op, int]) -> None:
        for op, chunk in passes:
            made.append(Turn(op, chunk, done[op, chunk]))
            done[op, chunk] += 1

    def ended(chunk: int) -> list[tuple[Op, int]]:
        return [("backward", chunk), ("weights", chunk)]

    for _ in range(2 * (stages - stage) - 1):
        add(("forward", 0))
    for _ in range(stage):
        add(("forward", 1), ("forward", 0))
    for _ in range(stages - stage):
        add(("forward", 1), *ended(1))
    while done["forward", 1] < done["forward", 0] or done["forward", 0] < most:
        if done["forward", 0] < most:
            add(("forward", 0))
        add(*ended(0), ("forward", 1), *ended(1))
    for _ in range(stage):
        add(("backward", 0), ("backward", 1))
    for _ in range(stages - stage):
        add(*ended(0))
    for chunk in (1, 0):
        while done["weights", chunk] < done["backward", chunk]:
            add(("weights", chunk))
    return [turn for turn in made if turn.batch < batches]


def most_in_flight(turns: Sequence[Turn], kept: Sequence[float]) -> float:
    """The most that a stage keeps at a time whose chunks keep so much in a pass, until their last gradients are there.

    >>> most_in_flight(order_stage("1f1b", 1, 4, 1, 8), [1]), most_in_flight(order_stage("zb_h1", 1, 4, 1, 8), [1])
    (3, 4)
    """
    last: Op = "weights" if any(turn.op == "weights" for turn in turns) else "backward"
    return max(accumulate(((turn.op == "forward") - (turn.op == last)) * kept[turn.chunk] for turn in turns))


class Bubble(NamedTuple):
    """Seconds of an iteration in which the first stage waits for the others, and those if nothing were communicated.

    The latter are more where its own communication, which is not in them, makes the first stage the slowest.
    """

    seconds: float
    silent: float

    @property
    def communication(self) -> float:
        """Those in which it waits for what others communicate, in their layers and with each other."""
        return max(0.0, self.seconds - self.silent)


NO_BUBBLE = Bubble(0.0, 0.0)
"""A model in no stages."""


class Pipelined(NamedTuple):
    """Seconds of all micro-batches in a pipeline, from the first forward pass of the first stage to its last backward
    pass, and those of them in which it computes."""

    seconds: float
    busy: float

    @property
    def bubble(self) -> float:
        """Seconds in which the first stage waits for the others."""
        return max(0.0, self.seconds - self.busy)


@lru_cache(maxsize=1024)
def run_pipeline(
    schedule: Schedule,
    stages: int,
    batches: int,
    forward: tuple[float, ...],
    backward: tuple[float, ...],
    *,
    send: float,
) -> Pipelined:
    """The first stage of a pipeline whose chunks, in the order of the model, take these seconds for a micro-batch.

    Chunks are where `place_chunk` has them. A pass starts when its stage is free and what it needs has come from the
    chunk before it (`send` seconds after the end there, if that is another stage). Half of a backward pass are the
    gradients of inputs, where a schedule sets them apart from those of weights. Without imbalance, sends and such a
    schedule, the bubble is (p - 1) (f + b) / v with the forward and backward seconds f, b of a stage with v chunks;
    `zb_v` has none where b = 2 f and micro-batches are 2 p - 1 or more, since stages that begin later end later.

    >>> run_pipeline("1f1b", 4, 8, (1.0,) * 4, (2.0,) * 4, send=0.0).bubble
    9.0
    """
    most = PERIODS * stages
    if batches > most + stages:  # from there on all stages keep the pace of the slowest
        rounds, rest = divmod(batches - most, stages)
        short, long = (
            run_pipeline(schedule, stages, count + rest, forward, backward, send=send)
            for count in (most - stages, most)
        )
        more = rounds * (long.seconds - short.seconds), rounds * (long.busy - short.busy)
        return Pipelined(long.seconds + more[0], long.busy + more[1])
    count = len(forward)
    apart = any(turn.op == "weights" for turn in order_stage(schedule, 0, stages, count // stages, batches))
    part = 2 if apart else 1
    times, ended, free = (*forward, *(seconds / part for seconds in backward)), [0.0], [0.0] * stages
    for stage, time, needed, sent in _order_passes(schedule, stages, count, batches):
        ready, start = ended[needed] + send if sent else ended[needed], free[stage]
        free[stage] = end = (ready if ready > start else start) + times[time]
        ended.append(end)
    mine = [place_chunk(schedule, 0, stages, chunk) for chunk in range(count // stages)]
    return Pipelined(free[0], batches * math.fsum(forward[chunk] + backward[chunk] for chunk in mine))


@lru_cache(maxsize=64)
def _order_passes(schedule: Schedule, stages: int, count: int, batches: int) -> Sequence[tuple[int, int, int, bool]]:
    """All passes over `count` chunks in an order in which each comes after what it needs, whatever they take.

    Of each its stage, which of the times it takes, of all forward and then of all backward passes in the order of the
    model, the pass that it needs, counted from 1 (0: none), and whether what it needs is sent.
    """
    queues = [iter(order_stage(schedule, stage, stages, count // stages, batches)) for stage in range(stages)]
    places: dict[tuple[Op, int, int], int] = {}
    made, waiting = list[tuple[int, int, int, bool]](), [next(queue, None) for queue in queues]
    while any(waiting):
        for stage, queue in enumerate(queues):
            while (turn := waiting[stage]) is not None:
                number = place_chunk(schedule, stage, stages, turn.chunk)
                before, sent = _needs(turn.op, number, count)
                if before is not None and (*before, turn.batch) not in places:
                    break
                here = schedule == "zb_v" and number == (stages if turn.op == "forward" else stages - 1)
                needed = 0 if before is None else places[*before, turn.batch]
                made.append((stage, number + count * (turn.op != "forward"), needed, sent and not here))
                places[turn.op, number, turn.batch] = len(made)
                waiting[stage] = next(queue, None)
    return made


def _needs(op: Op, number: int, count: int) -> tuple[tuple[Op, int] | None, bool]:
    """The pass of the same micro-batch that one needs, and whether it is of another chunk."""
    if op == "weights":
        return ("backward", number), False
    before = number - 1 if op == "forward" else number + 1
    if before < 0:
        return None, False
    return (("forward", number), False) if before == count else ((op, before), True)


def spread_blocks(blocks: int, chunks: int) -> Sequence[int]:
    """Blocks of each chunk: as even as can be, with fewer in the first and the last, which have more beside them.

    >>> spread_blocks(10, 4)
    [2, 3, 3, 2]
    """
    each, more = divmod(blocks, chunks)
    first = (chunks - more) // 2
    return [each + (first <= chunk < first + more) for chunk in range(chunks)]


class PipelineStages(Spec):
    """Layers that are distributed over stages, through which micro-batches go one after the other.

    - `stages`: groups of GPUs with a part of the layers each.
    - `schedule`: in which order a stage works: `1f1b` (of Megatron and torchtitan, with several chunks interleaved),
      `gpipe`, `zb_h1`, which fills bubbles with the gradients of weights, or `zb_v`, which goes through the stages
      there and back and has hardly any bubbles.
    - `chunks`: parts of the model on each stage, which are not neighbours (virtual stages of an interleaved schedule);
      2 in `zb_v`.
    - `runs`: how often an iteration runs the schedule, each time over an equal part of the micro-batches, before which
      the stages fill and after which they drain (gradient accumulation of torchtitan).
    """

    stages: int = Field(default=1, ge=1, le=1024)
    schedule: Schedule = "1f1b"
    chunks: int = Field(default=1, ge=1, le=64)
    runs: int = Field(default=1, ge=1, le=MAX_MICRO_BATCHES)

    def chunks_of(self, stage: int) -> list[int]:
        """The numbers of a stage's chunks in the order of the model."""
        return [place_chunk(self.schedule, stage, self.stages, chunk) for chunk in range(self.chunks)]

    def refuse_unfit(self) -> None:
        if self.runs > 1 and self.stages == 1:
            raise expected("`runs` of several `stages`", f"{self.runs} of one stage", "state `micro_batches`")
        if self.schedule == "zb_v":
            if self.chunks != 2 or self.stages == 1:
                got = f"{self.chunks} on each of {self.stages}"
                raise expected("`chunks: 2` on each of several stages, for schedule zb_v", got)
        elif self.chunks > 1 and (self.schedule != "1f1b" or self.stages == 1):
            raise expected("one chunk a stage", str(self.chunks), "schedule 1f1b of several stages has more")


class Parallelism(Spec):
    """How many GPUs compute one copy of the model together, and how; the copies are the data-parallel workers.

    Inner axes sit closest: GPUs that follow each other share tensors, then tokens, then are copies of each other (or
    shards of a sharded schedule), then stages. `batch_size` of the workload is that of one copy. Those that share
    tokens have the same weights, so that gradients are exchanged, and models sharded, among them and the copies alike,
    as torchtitan (dp_shard x cp) and Megatron-Core (data parallel with context parallel) do.

    - `tensor`: GPUs that each have a part of every matrix and of the heads (tensor parallelism).
    - `sequence_parallel`: whether these divide norms, dropout and residuals by tokens, too.
    - `overlap`: whether gathers and reduce-scatters of the tensor axis run beside the products after or before them, in
      as many parts as there are GPUs (`--tp-comm-overlap` of Megatron-Core; PyTorch's asynchronous tensor parallelism).
    - `context`: GPUs that each have a part of the tokens of a sample (context parallelism).
    - `pipeline`: layers in stages.
    - `expert`: copies that each have a part of the experts and send tokens to each other (expert parallelism); all
      other parameters are whole in each copy. The axis is taken from that of the copies, of which it divides the
      number, as in Megatron-Core and torchtitan.
    - `imbalance`: how many times the mean the busiest of them has of tokens; all wait for it.
    """

    tensor: int = Field(default=1, ge=1, le=1024)
    sequence_parallel: bool = True
    overlap: bool = False
    context: int = Field(default=1, ge=1, le=1024)
    pipeline: PipelineStages = PipelineStages()
    expert: int = Field(default=1, ge=1, le=1024)
    imbalance: float = Field(default=1.0, ge=1, le=1024)

    def refuse_unfit(self) -> None:
        if self.overlap and not self.sequence_parallel:
            raise expected("`sequence_parallel: true` with `overlap`", "false", "all-reduces are not cut into parts")
        if self.imbalance > self.expert:
            hint = "at most all tokens are sent to one of the GPUs"
            raise expected(f"an `imbalance` up to `expert`, which is {self.expert}", f"{self.imbalance:g}", hint)

    @property
    def split(self) -> Split:
        """How layers are divided."""
        made = Split(self.tensor, self.context, self.sequence_parallel, self.expert, self.imbalance)
        return made if made.tensor * made.context * made.expert > 1 else WHOLE

    @property
    def divides(self) -> bool:
        """Whether a GPU has a part of the model."""
        return self.copy_size * self.expert > 1

    @property
    def parts(self) -> int:
        """GPUs that each have other weights."""
        return self.tensor * self.pipeline.stages

    @property
    def copy_size(self) -> int:
        """GPUs that compute one copy of the model."""
        return self.parts * self.context
