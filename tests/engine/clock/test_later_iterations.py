"""Iterations that begin later on the clock are the same as the first, to a rounding."""

import numpy as np
import pytest
from long_examples import few_first
from worked_scenarios import worked

from examples import example
from simulator.component import discover
from simulator.engine.clock.numbers import ALIKE, Draws
from simulator.engine.clock.simulation import simulate, simulate_all
from simulator.prediction.job_setup import plans_of
from simulator.scenario.scenario import Scenario
from simulator.schedulers.base import Scheduler
from simulator.schedulers.sharded import Sharded

CARD = {"name": "card", "kernels": {"elementwise": {"curve": "affine", "intercept": 1e-2, "slope": 1e-8}}}
HOST = {"collective_launch": 0.03, "cycle_time": 0.02, "kernel_launch": 0.001, "forward_hook": 0.005}
SLOWED = {"compute_slowdown": 0.4}
LAYERS = [(1, 0.2, 0.5), (0.6, 0.1, 0.3), (0.2, 0.3, 0.2)]


def scenario(scheduler, topology, method, runtime):
    """Two nodes of two GPUs, beside a job that starts after all else has ended."""
    cluster = {"gpus_per_node": 2, "gpu": CARD, "runtime": runtime, "latency": 1e-3}
    made = worked(LAYERS, workload={"input_time": 0.05}, topology=topology, **cluster)
    later = {name: made[name] for name in ("workload", "sparsifier", "scheduler")}
    later |= {"nodes": [0, 1], "topology": "ring", "start": 1e6}
    return Scenario.model_validate(made | {"other_jobs": [later], "scheduler": scheduler, "sparsifier": method})


def times(spans):
    """Start and end of each span that is more than a rounding."""
    long = [span for span in spans if span.duration > 1e-7]
    return [
        time for span in sorted(long, key=lambda span: (span.stream, span.start)) for time in (span.start, span.end)
    ]


def figures(iteration):
    """All numbers of an iteration, which are seconds since its own start."""
    computed = np.broadcast_to(iteration.computed(), (4,)).tolist()
    terms = [iteration.breakdown[term] for term in sorted(iteration.breakdown)]
    whole = iteration.time, iteration.communication_total, iteration.communication_added_up, iteration.waiting
    own = [time for worker in range(4) for time in times(iteration.spans_of(worker))]
    return [*whole, *terms, *computed, *times(iteration.spans()), *own]


KINDS = sorted(discover(Scheduler))
NEEDS_DENSITY = ("lags", "omgs")
CROSSING = ("decoupled_diloco", "overlapped_diloco")
"""Their exchanges reach into the next period, where a queue of them may still grow while the host is busy, too."""
CASES = [(kind, runtime) for kind in KINDS for runtime in ({}, HOST, SLOWED) if not (runtime and kind in CROSSING)]
UNLIKE = Draws(np.array([1.0, 1.2, 0.9, 1.1]), np.array([0.0, 0.5, -0.5, 1.0]))


@pytest.mark.parametrize(
    ("kind", "runtime"),
    CASES,
    ids=lambda value: value if isinstance(value, str) else "busy" if len(value) > 1 else "slowed" if value else "free",
)
@pytest.mark.parametrize("topology", ["ring", {"kind": "parameter_server", "servers": 1}], ids=["ring", "servers"])
@pytest.mark.parametrize("draws", few_first([UNLIKE, ALIKE]), ids=["unlike", "alike"])
def test_an_iteration_does_not_depend_on_when_it_begins(kind, runtime, topology, draws):
    """Nobody else is on the links, so that what an iteration finds is the same at 0 s and later."""
    scheduler = example(Scheduler, kind)
    if isinstance(scheduler, Sharded):
        pytest.skip("a sharded job has its network to itself, and another job is on this one")
    if topology != "ring" and scheduler.streams > 1:
        scheduler = scheduler.model_copy(update={"streams": 1})  # pushes need no more
    method = {"kind": "topk", "density": 0.1} if kind in NEEDS_DENSITY else "dense"
    plan, others = plans_of(scenario(scheduler, topology, method, runtime))
    found = list(simulate_all(plan, [draws] * 3, others, keep=True))
    first, *later = (figures(each) for each in found)
    begun = [each.start for each in found]
    assert begun == sorted(set(begun))
    for each in later:
        assert len(each) == len(first)
        np.testing.assert_allclose(each, first, rtol=1e-7, atol=1e-8)
    if not plan.period:
        np.testing.assert_allclose(figures(simulate(plan, draws)), first, rtol=1e-7, atol=1e-8)
