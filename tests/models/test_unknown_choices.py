"""What is tried where a workload says nothing: the optimiser; and that what it says has bounds."""

from number_fields import all_specs, unbounded

from simulator import models
from simulator.models.layers import Layer, Workload
from simulator.models.optimisers import UNKNOWN_OPTIMISER, Kind, Optimiser


def test_an_optimiser_that_is_stated_is_the_only_one():
    layers = (Layer(name="a", numel=10),)
    assert Workload(batch_size=1, layers=layers).optimisers == UNKNOWN_OPTIMISER
    stated = Workload(batch_size=1, layers=layers, optimiser="lamb")
    assert stated.optimisers == (Optimiser(kind="lamb"),)
    assert stated.rescaled(2).optimisers == stated.optimisers
    changed = Workload(batch_size=1, layers=layers).model_copy(update={"optimiser": Optimiser()})
    assert changed.optimisers == (Optimiser(),)


def test_the_unknown_optimisers_enclose_all_but_lamb_within_a_pass():
    least, most = (item.bytes_per_element() for item in UNKNOWN_OPTIMISER)
    kinds = [kind for kind in Kind.__args__ if kind != "lamb"]
    ways = ("per_tensor", "foreach", "fused", "fused_per_tensor")
    moved = [
        Optimiser(kind=kind, implementation=way, weight_decay=decay).bytes_per_element()
        for kind in kinds
        for way in ways
        for decay in (False, True)
    ]
    assert (least, most) == (12, 88)
    assert least == min(moved)
    assert max(moved) <= most + 4  # Adam whose decay is coupled


def test_no_number_of_a_workload_is_without_bounds():
    assert not unbounded(all_specs(models))
