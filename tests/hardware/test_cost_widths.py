"""How far costs of runtimes may be off: as stated, as fitted, and as they differ between set-ups."""

import pytest
from pydantic import ValidationError

from simulator.hardware.runtime import FittedFor, FittedOn, Runtime, Way
from simulator.hardware.widths import KNOWN, KnownCost, constant_width, fill_costs, largest_known, width_between_setups
from simulator.loading.documents import read_document
from simulator.loading.finding import find_shipped

COSTS = {"negotiation": 1e-4, "host_read": 1e-5, "widths": {"negotiation": 1.5}, "fitted_rows": {"negotiation": 6}}
FITTED = Runtime(name="r", fitted_for=FittedFor(transport="tcp", width=3), **COSTS)


def test_a_fitted_cost_has_the_width_of_its_fit_where_it_was_fitted():
    assert constant_width(FITTED, "negotiation")[:2] == (1.5, "measured")
    assert constant_width(FITTED, "negotiation", Way("tcp", 1e9))[:2] == (1.5, "measured")
    assert constant_width(FITTED, "negotiation", Way("rdma", 1e9))[:2] == (3, "assumed")
    assert constant_width(FITTED, "negotiation", Way("tcp", 1e9), "V100").source == "r, fitted to 6 rows"
    here = FITTED.model_copy(update={"fitted_on": FittedOn(device="V100", workloads=())})
    assert constant_width(here, "negotiation", device="Tesla V100")[:2] == (1.5, "measured")
    assert constant_width(here, "negotiation", device="A100")[:2] == (width_between_setups("negotiation"), "assumed")
    assert "on machines with V100" in constant_width(here, "negotiation", device="A100").source


def test_costs_that_a_framework_pays_and_nobody_measured_here_are_the_middle_of_those_known():
    """Of two negotiations 0.135 and 0.585 ms; of six launches 9 us; what a single set-up showed is no middle."""
    filled = fill_costs(Runtime(framework="horovod"), "pytorch-1.11")
    assert (filled.negotiation, filled.kernel_launch) == pytest.approx((0.36e-3, 9e-6))
    assert fill_costs(Runtime(framework="horovod"), "tensorflow-1").kernel_launch == 0
    stated = fill_costs(Runtime(framework="horovod", negotiation=0.0), "pytorch")
    assert (stated.negotiation, stated.kernel_launch) == (0, 9e-6)
    assert fill_costs(Runtime(framework="bytescheduler"), "").forward_hook == 0
    assert fill_costs(Runtime(), "pytorch").kernel_launch == 0


def test_a_cost_without_a_width_is_assumed_and_differs_as_between_setups():
    width, level, source = constant_width(FITTED, "host_read")
    assert (width, level) == (width_between_setups("host_read"), "assumed")
    assert "1 known" in source
    assert constant_width(Runtime(host_read=1e-5, widths={"host_read": 1.2}), "host_read")[:2] == (1.2, "assumed")
    with pytest.raises(KeyError):
        constant_width(FITTED, "compute_slowdown")


def test_a_cost_that_is_not_stated_has_no_factor_but_what_others_showed():
    assert constant_width(Runtime(), "gather_overhead").width == 1
    assert largest_known("gather_overhead") == 2.08e-3
    assert largest_known("server_bandwidth") == 0


def test_the_width_between_setups_holds_nine_in_ten_of_those_left_out():
    def known(name, *values):
        return tuple(KnownCost(name, str(place), value, "") for place, value in enumerate(values))

    assert width_between_setups("host_read", known("host_read", 2, 2, 2, 16)) == 8
    assert width_between_setups("host_read", known("host_read", 2, 2, 2, 0.25)) == 8
    assert width_between_setups("host_read", known("host_read", *[1.0] * 19, 8)) == 1
    # Too few of its own: those of all costs.
    assert width_between_setups("negotiation", known("negotiation", 1) + known("host_read", 1, 3)) == 3


def test_known_costs_are_those_of_the_shipped_runtimes():
    runtimes = {
        f"runtimes/{path.stem}": Runtime.model_validate(read_document(path).data)
        for path in find_shipped("configs/runtimes").glob("*.yaml")
    }
    named = [item for item in KNOWN if item.source.startswith("runtimes/")]
    assert all(getattr(runtimes[item.source], item.name) == pytest.approx(item.value) for item in named)
    stated = {(name, cost) for name, item in runtimes.items() for cost in item.fitted_rows if getattr(item, cost)}
    assert {cost for _, cost in stated} <= {item.name for item in named}
    assert {(name, cost) for name, cost in stated if cost not in runtimes[name].widths} == set()


def test_widths_are_of_costs_and_at_least_1():
    with pytest.raises(ValidationError, match=r"a cost of a runtime.*negotiation"):
        Runtime.model_validate({"widths": {"negotation": 2}})
    for width, over in ((0.5, 2), (1001, 2), (2, 0.5), (2, 101)):
        with pytest.raises(ValidationError):
            Runtime(widths={"negotiation": width}, fitted_for={"transport": "tcp", "width": over})
    for width, over in ((1, 1), (1000, 100)):
        made = Runtime(widths={"negotiation": width}, fitted_for={"transport": "tcp", "width": over})
        assert (made.widths["negotiation"], made.fitted_for.width) == (width, over)
