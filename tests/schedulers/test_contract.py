"""What an own scheduler gets wrong is named, and not priced."""

import pytest

from simulator.api.simulating import simulation
from simulator.errors import InputError
from simulator.models.graph import Period, Queue
from simulator.prediction.run import run, run_batch
from simulator.records import replace
from simulator.scenario.reading import load
from simulator.schedulers.base import FREE, Scheduler, buckets_of, singles
from simulator.schedulers.wfbp import WaitFree

LAYERS = {"workload.layers": [{"name": name, "numel": 1000, "backward": "1 ms"} for name in "ab"]}


def scenario_with(**own):
    """A small scenario whose scheduler has these functions and values of its own."""
    return load("ring_check", LAYERS).model_copy(update={"scheduler": type("Own", (WaitFree,), own)()})


def plan_with(**changes):
    """A plan of one bucket per tensor, in which each has these values instead."""
    return lambda self, layers, costs=FREE: [replace(bucket, **changes) for bucket in singles(layers)]


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (lambda *_: None, "expected a list of `Bucket` from `plan` of scheduler wfbp, got null"),
        (lambda *_: [1], "expected a list of `Bucket` from"),
        (lambda *_: [], "hold each of the 1,000 elements of a once, got 0: so it is with 2 tensors"),
        (lambda self, layers, costs: singles(layers)[:1], "hold each of the 1,000 elements of a once, got 0$"),
        (plan_with(pieces=(500,)), "elements of a once, got 500"),
        (lambda self, layers, costs: buckets_of([[1, 0, 0]], layers), "of a once, got 2,000$"),
        (plan_with(pieces=(0,)), "at least one element of each of its `layers` as `pieces` of bucket 0 .*got 0 of"),
        (plan_with(layers=()), "`pieces` of bucket 0 of scheduler wfbp, got 1000 of layers none"),
        (plan_with(layers=(9,)), "layers below 2 in bucket 0 of scheduler wfbp, got 9: layers count from 0"),
        (plan_with(index=0), "the index 1 in bucket 1 of scheduler wfbp, got 0"),
        (plan_with(ready_layer=9), "a `ready_layer` from 0 to 1 in bucket 0 of scheduler wfbp, got 9"),
        (lambda self, layers, costs: buckets_of([[0], [1]], layers), "from 0 to 0 in bucket 1 .*in backward order"),
    ],
)
def test_buckets_hold_every_element_once_in_backward_order(plan, said):
    with pytest.raises(InputError, match=said):
        run(scenario_with(plan=plan))


def loop(*calls):
    """A loop of these calls, in which `exchange` goes over the whole backward pass, as often as it is named."""

    def lay_out(self, step):
        for call in calls:
            if "exchange" in call:
                for bucket in step.backward():
                    for _ in call.split():
                        step.exchange(bucket)
            else:
                getattr(step, call)()

    return lay_out


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ((), "scheduler wfbp: expected `load` in `lay_out`, got none"),
        (("load", "exchange", "update"), "`forward` or `forward_layer_by_layer` in"),
        (("load", "forward", "exchange"), "`update` or `forward_layer_by_layer` in"),
        (("load", "forward", "backward", "update"), "an exchange of bucket 0 before what it brings is used"),
        (("load", "update", "forward", "exchange"), "an exchange of bucket 0 before what it brings is used"),
        (("load", "forward", "exchange exchange", "update"), "ready in `exchange`, got 0: one that `backward` has"),
        (("load", "forward", "exchange", "exchange", "update"), "`backward` of every bucket once in .*, got 2 of 0"),
        (("load", "forward", "exchange", "update", "update"), "`update` once in `lay_out`, got 2 times"),
        (("load", "load", "forward", "exchange", "update"), "`load` once in `lay_out`, got 2 times"),
    ],
)
def test_a_loop_is_one_whole_iteration(calls, said):
    wrong = scenario_with(lay_out=loop(*calls))
    with pytest.raises(InputError, match=said):
        run(wrong)
    with pytest.raises(InputError, match=said):
        simulation(wrong).run()


@pytest.mark.parametrize("bucket", [2, -1, "a", [0], 0.5])
def test_only_what_is_ready_can_be_exchanged(bucket):
    def lay_out(self, step):
        step.load()
        step.forward()
        list(step.backward())
        step.exchange(bucket)

    with pytest.raises(InputError, match="a bucket that is ready in `exchange`, got"):
        run(scenario_with(lay_out=lay_out))


def period_loop(steps, fragment=0):
    """Local steps, and the exchange of a fragment that is waited for."""

    def lay_out(self, step):
        step.local_steps(steps)
        step.send(fragment, together=True)
        step.receive(fragment, earlier=False, together=True)

    return lay_out


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (
            {"decoupled": True, "lay_out": loop("load", "forward", "exchange", "update")},
            "`gather_all`, since exchanges",
        ),
        ({"lay_out": period_loop(2)}, "a `period` of a scheduler whose `lay_out` has local steps"),
        ({"lay_out": period_loop(2, fragment=3)}, "a fragment from 0 to 0, as `plan` numbers them, got 3"),
        ({"lay_out": period_loop(2), "period": Period(4, ((4, 4),))}, "the 4 local steps of its period .*, got 2"),
        (
            {"period": Period(4, ((4, 4),)), "lay_out": Scheduler.lay_out},
            "local steps in `lay_out` of a scheduler with",
        ),
        ({"period": Period(0, ())}, "a `Period` of at least one step and one fragment, or None, as the period of"),
        ({"queue": None}, "a `Queue` of at least one stream as the queue of scheduler wfbp, got null"),
        ({"queue": Queue(0)}, "a `Queue` of at least one stream"),
        ({"rounds": lambda self, passes: 3}, "expected 1 as the rounds of scheduler wfbp, got 3"),
    ],
)
def test_rules_fit_the_loop(own, said):
    # Values stand for properties of the same names.
    own = {name: value if callable(value) else property(lambda self, value=value: value) for name, value in own.items()}
    with pytest.raises(InputError, match=said):
        run(scenario_with(**own))


def test_one_scheduler_that_is_wrong_does_not_take_others_with_it():
    good = load("ring_check", LAYERS)
    first, wrong, last = run_batch([good, scenario_with(lay_out=loop("load")), good])
    assert first.spread.time == last.spread.time == run(good).spread.time
    assert isinstance(wrong, InputError) and "`forward` or" in str(wrong)
