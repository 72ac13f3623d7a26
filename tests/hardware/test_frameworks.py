"""What frameworks offer: schedules and topologies that exist, each with its source, and runtimes that name them."""

from typing import get_args

import pytest

from simulator.component import build, discover
from simulator.errors import InputError
from simulator.hardware.runtime import FRAMEWORKS, RUNTIME_COSTS, FrameworkName
from simulator.loading.finding import find_shipped
from simulator.scenario.named_parts import read_runtime
from simulator.scenario.reading import load
from simulator.schedulers.base import Scheduler
from simulator.topologies.base import Topology

SHIPPED = sorted(path.stem for path in find_shipped("configs/runtimes").glob("*.yaml"))


def test_every_name_has_an_entry_and_few_schedules():
    assert set(FRAMEWORKS) == set(get_args(FrameworkName))
    # The scenario's own schedule and other topologies join them: at most 8 runs.
    assert all(1 <= len(item.schedules) + max(0, len(item.topologies) - 1) <= 7 for item in FRAMEWORKS.values())

    sizes = {
        name: [tuple(value for key, value in each.scheduler.items() if key not in ("kind", "rule")) for each in offers]
        for name, (_, offers, *_) in FRAMEWORKS.items()
    }
    assert sizes["pytorch-ddp"] == [(), *((size * 2**20,) for size in (5, 10, 50, 100, 200))]
    pairs = ((64, 5), (4, 5), (8, 10), (16, 25), (32, 50))  # MiB and ms
    assert sizes["horovod"] == [*((size * 2**20, cycle / 1e3) for size, cycle in pairs), ()]
    assert (sizes["bytescheduler"], sizes["byteps"]) == ([(4e6, 16e6), (4e6, 4e6)], [(4.096e6,)])


def test_a_call_pays_what_is_stated_by_the_call():
    per_call = {name for name, cost in RUNTIME_COSTS.items() if cost.per_call}
    assert per_call == {
        "host_read", "negotiation", "cycle_time", "collective_launch", "gather_overhead", "message_overhead",
        "forward_hook",
    }  # fmt: skip


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_what_is_offered_can_be_built_and_has_a_source(name):
    framework = FRAMEWORKS[name]
    made = [build(Scheduler, dict(offer.scheduler)) for offer in framework.schedules]
    assert len({item.fingerprint for item in made}) == len(made)
    assert set(framework.topologies) <= set(discover(Topology))
    assert framework.source


@pytest.mark.parametrize("name", SHIPPED)
def test_a_runtime_whose_costs_hold_for_one_method_names_one_for_dense(name):
    runtime = read_runtime(name)
    if runtime.dense_runtime:
        dense = read_runtime(runtime.dense_runtime)
        assert (dense.framework, dense.dense_runtime) == (runtime.framework, "")


def test_an_unknown_framework_is_refused_with_those_that_are_known():
    with pytest.raises(InputError, match=r"cluster\.runtime\.framework: expected one of .*'horovod'.*, got 'horovot'"):
        load("quickstart", ("cluster.runtime.framework=horovot",))
