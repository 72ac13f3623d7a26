"""Passes of a pipeline in the orders of its schedules: bubbles and activations by hand arithmetic."""

from itertools import pairwise
from random import Random

import pytest
from pydantic import ValidationError

from simulator.models.operators import WHOLE, Split
from simulator.models.pipeline import Parallelism, most_in_flight, order_stage, run_pipeline, spread_blocks


@pytest.mark.parametrize(("stages", "batches"), [(2, 2), (4, 4), (4, 32), (8, 64)])
@pytest.mark.parametrize("forward", [1.0, 1.5])
def test_the_bubble_is_that_of_the_closed_forms(stages, batches, forward):
    """(p - 1) (f + b) for GPipe and 1F1B, 1 / v of it interleaved, and (p - 1) (f + b - 2 w) with weights apart."""
    backward = 2 * forward

    def bubble(schedule, chunks=1):
        seconds = [(each / chunks,) * stages * chunks for each in (forward, backward)]
        return run_pipeline(schedule, stages, batches, *seconds, send=0.0).bubble

    whole = (stages - 1) * (forward + backward)
    assert bubble("1f1b") == pytest.approx(whole)
    assert bubble("gpipe") == pytest.approx(whole)
    assert [bubble("1f1b", chunks) for chunks in (2, 4)] == pytest.approx([whole / 2, whole / 4])
    assert bubble("zb_h1") == pytest.approx(whole / 3)
    if batches >= 2 * stages - 1:
        assert bubble("zb_v", 2) == pytest.approx(0, abs=1e-9)


def test_a_slow_stage_sets_the_pace_and_sends_take_time():
    slow = run_pipeline("1f1b", 4, 100, (1.0, 1.0, 1.0, 2.0), (2.0, 2.0, 2.0, 4.0), send=0.0)
    assert slow.seconds == pytest.approx(100 * 6 + 3 * 3)  # all that the last stage does, and the way there and back
    assert run_pipeline("gpipe", 3, 1, (1.0,) * 3, (2.0,) * 3, send=0.25).seconds == pytest.approx(3 * 3 + 4 * 0.25)
    # There and back through two stages, gradients of inputs first, and those of weights last.
    assert run_pipeline("zb_h1", 2, 1, (1.0,) * 2, (6.0,) * 2, send=0.0).seconds == 1 + 1 + 3 + 3 + 3


@pytest.mark.parametrize(("schedule", "chunks"), [("gpipe", 1), ("1f1b", 1), ("1f1b", 3), ("zb_h1", 1), ("zb_v", 2)])
@pytest.mark.parametrize(("stages", "batches"), [(1, 3), (4, 8), (5, 10)])
def test_every_stage_does_every_pass_once_in_a_possible_order(schedule, chunks, stages, batches):
    for stage in range(stages):
        turns = order_stage(schedule, stage, stages, chunks, batches)
        assert len(turns) == len({*turns}) == (3 if schedule.startswith("zb") else 2) * chunks * batches
        done = {turn: place for place, turn in enumerate(turns)}
        assert all(done[t] > done[t._replace(op="forward")] for t in turns if t.op == "backward")
        assert all(done[t] > done[t._replace(op="backward")] for t in turns if t.op == "weights")
        if chunks == 1:
            most = batches if schedule == "gpipe" else min(batches, stages - (stage if schedule == "1f1b" else 0))
            assert most_in_flight(turns, [1]) == most


def test_zb_v_keeps_as_many_activations_as_1f1b_on_each_stage():
    """2 p halves of a stage's layers; the first stage of 1F1B keeps p whole ones (Qi et al. 2023, 2401.10241)."""
    assert [most_in_flight(order_stage("zb_v", stage, 4, 2, 16), [1, 1]) for stage in range(4)] == [8] * 4
    assert most_in_flight(order_stage("1f1b", 0, 4, 1, 16), [1]) == 4


def test_chunks_that_keep_more_count_for_more():
    """Two stages of two chunks: the first one is at most four passes ahead in its first chunk and one in the other."""
    turns = order_stage("1f1b", 0, 2, 2, 4)
    assert [f"{turn.op[0]}{turn.chunk}" for turn in turns[:7]] == ["f0", "f0", "f1", "f1", "f0", "b1", "f0"]
    assert most_in_flight(turns, [3, 1]) == 4 * 3 + 1


def test_zb_v_turns_back_at_the_last_stage():
    """Two stages, one micro-batch: there, back, and back again, with nothing to send where a stage goes on itself."""
    made = run_pipeline("zb_v", 2, 1, (1.0,) * 4, (2.0,) * 4, send=0.25)
    assert made.seconds == pytest.approx(4 + 4 + 4 * 0.25 + 2)  # passes, of inputs, sends, of weights


@pytest.mark.parametrize("schedule", ["1f1b", "zb_v"])
def test_any_number_of_micro_batches_ends(schedule):
    """No order waits for itself, and more of them take longer."""
    for stages in range(2, 7):
        each = (1.0,) * 2 * stages
        every = range(1, 20) if schedule == "zb_v" else range(stages, 20, stages)
        times = [run_pipeline(schedule, stages, count, each, each, send=0.1).seconds for count in every]
        assert times == sorted(times) and len({*times}) == len(times)


def test_many_micro_batches_repeat_what_some_do():
    """The seconds of 64 are those of 48 and of a round of 16 stages more, whatever the sizes of stages."""
    draw = Random(5)
    forward = tuple(draw.uniform(1, 2) for _ in range(4))
    times = [run_pipeline("1f1b", 4, count, forward, forward, send=0.1).seconds for count in range(13, 40)]
    steps = [after - before for before, after in pairwise(times)]
    assert steps == pytest.approx([2 * max(forward)] * len(steps), rel=0.25)
    assert sum(steps) == pytest.approx(len(steps) * steps[-1], rel=1e-6)


def test_blocks_are_spread_evenly():
    assert [sum(spread_blocks(blocks, 5)) for blocks in range(5, 40)] == [*range(5, 40)]
    assert all(max(each) - min(each) <= 1 for each in map(lambda blocks: spread_blocks(blocks, 5), range(5, 40)))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"pipeline": {"stages": 4, "chunks": 2, "schedule": "gpipe"}}, "one chunk a stage"),
        ({"pipeline": {"stages": 1, "chunks": 2}}, "one chunk a stage"),
        ({"pipeline": {"stages": 1, "chunks": 2, "schedule": "zb_v"}}, "`chunks: 2` on each of several stages"),
        ({"pipeline": {"stages": 4, "schedule": "zb_v"}}, "`chunks: 2` on each of several stages"),
        ({"overlap": True, "sequence_parallel": False}, "`sequence_parallel: true` with `overlap`"),
        ({"expert": 2, "imbalance": 2.01}, "an `imbalance` up to `expert`, which is 2"),
    ],
)
def test_axes_that_do_not_fit_each_other_are_refused(given, words):
    with pytest.raises(ValidationError, match=words):
        Parallelism.model_validate(given)


def test_the_gpus_of_a_copy_are_those_of_tensor_context_and_stages():
    made = Parallelism(tensor=2, context=3, pipeline={"stages": 5, "chunks": 2}, expert=4, imbalance=4)
    assert (made.copy_size, made.divides, made.split) == (30, True, Split(2, 3, True, 4, 4.0))
    stages, expert = Parallelism(pipeline={"stages": 2}), Parallelism(expert=2)
    assert (stages.divides, stages.split, stages.copy_size) == (True, WHOLE, 2)
    assert (expert.divides, expert.split, Parallelism().divides) == (True, Split(expert=2), False)
